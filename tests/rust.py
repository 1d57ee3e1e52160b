#!/usr/bin/env python3
"""Builds every Rust test program of the workspace, runs some beside each other, and prints what each took.

    rust.py build LIST   cargo test --no-run ─► the programs, in the file LIST
    rust.py run LIST     AT_ONCE programs at a time ─► a line each, the output of those that failed, the sum

`cargo test` runs one program after another, and most of them wait for sockets and clocks more than they compute. It also waits for
any other cargo in the same directory, as one that lints, which is why the list is kept.
"""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
AT_ONCE = 3
# Threads within a program: tests that wait let others compute.
THREADS = "4"
LIMIT_SECONDS = 900
# What takes longest starts first; the order of the others does not matter.
LONG = ["run", "command", "record", "build", "transport"]
RESULT = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed", re.MULTILINE)


def build():
    """Builds every test program: its name, the folder it runs in, its file."""
    built = subprocess.run(
        [CARGO, "test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
            continue
        target = message["target"]
        name = target["name"] if "test" in target["kind"] else f"{target['name']} (unit)"
        found.append((name, str(Path(message["manifest_path"]).parent), message["executable"]))
    return sorted(found, key=lambda each: LONG.index(each[0]) if each[0] in LONG else len(LONG))


def run(program):
    """Runs one; gives its name, how many passed and failed, seconds, and its output when it failed."""
    name, folder, executable = program
    started = time.monotonic()
    try:
        ended = subprocess.run(
            [executable], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=LIMIT_SECONDS, check=False,
            env={**os.environ, "RUST_TEST_THREADS": os.environ.get("RUST_TEST_THREADS", THREADS)},
        )
        output, good = ended.stdout, ended.returncode == 0
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace") + f"\n{name}: no end after {LIMIT_SECONDS} s"
        good = False
    seconds = time.monotonic() - started
    result = RESULT.search(output)
    passed, failed = (int(result[1]), int(result[2])) if result else (0, 0)
    # A program that died has failed, whatever it had counted.
    failed = max(failed, 0 if good else 1)
    print(f"  {name:28} {passed:4} passed {failed:3} failed {seconds:7.1f} s", flush=True)
    return passed, failed, name, "" if good else output


def run_all(programs):
    """Runs all; the exit code says whether all passed."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(run, programs))
    for _, failed, name, output in results:
        if failed:
            print(f"\n---- {name} ----\n{output}")
    passed, failed = sum(each[0] for each in results), sum(each[1] for each in results)
    print(f"rust: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main():
    """Does what the first argument says."""
    step, kept = sys.argv[1], Path(sys.argv[2])
    if step == "build":
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(build()))
        return 0
    return run_all(json.loads(kept.read_text()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as failed:
        # Cargo has said why.
        sys.exit(failed.returncode)
