#!/usr/bin/env python3
"""Does memory stay flat? Boards emulated at a high rate, received, decoded and ordered for as long as asked.

    thalweg run soak.toml  ─►  /proc/PID/status every few seconds  ─►  growth of VmRSS, hits/s, verdict

Hits are ordered and thrown away: at ten million per second a recording would need 160 MB/s of disk.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = """
[[source]]
name = "board-{board}"
format = "digitizer2"
url = "emulate://"
first_channel = {first_channel}
[source.emulate]
board = {board}
boards = {boards}
seed = 7
total_rate_hz = {rate}
prepared = true
"""

# Batches that find their size in the first minute are not growth.
SETTLING_SECONDS = 60
# What a noisy machine's page accounting may move without anything growing.
TOLERATED_KIB = 1024


def configuration(boards, hits_per_second):
    """The soak's configuration file."""
    sources = "".join(
        SOURCE.format(board=board, boards=boards, first_channel=64 * board, rate=hits_per_second / boards)
        for board in range(boards)
    )
    return f"[run]\ntitle = \"soak\"\n{sources}\n[record]\ntables = []\n"


def resident_kib(process):
    """Resident memory of a process, or None when it has ended."""
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except FileNotFoundError:
        pass
    return None


def slope(samples):
    """Least-squares slope of (seconds, KiB), in KiB per hour."""
    count = len(samples)
    mean_time = sum(at for at, _ in samples) / count
    mean_size = sum(size for _, size in samples) / count
    over = sum((at - mean_time) * (size - mean_size) for at, size in samples)
    under = sum((at - mean_time) ** 2 for at, _ in samples)
    return 3600 * over / under if under else 0.0


def grown(samples):
    """KiB between the medians of the first and the last quarter: a step in between counts as high as it is, and no single sample counts."""
    part = max(len(samples) // 4, 1)
    first, last = (statistics.median(size for _, size in some) for some in (samples[:part], samples[-part:]))
    return last - first


def watch(child, seconds):
    """Samples of (seconds, KiB) until the child ends."""
    start, interval, samples, said = time.monotonic(), max(0.2, min(10.0, seconds / 200)), [], 0.0
    while child.poll() is None:
        at, size = time.monotonic() - start, resident_kib(child.pid)
        if size:
            samples.append((at, size))
        if size and at - said >= 60:
            said = at
            print(f"{at:7.0f} s  {size / 1024:9.1f} MiB", flush=True)
        time.sleep(interval)
    return samples


def main():
    """Runs the soak and prints its verdict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/thalweg")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--hits-per-second", type=float, default=1e7)
    parser.add_argument("--boards", type=int, default=1)
    options = parser.parse_args()
    seconds = 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="thalweg-soak-") as folder:
        file = Path(folder) / "soak.toml"
        file.write_text(configuration(options.boards, options.hits_per_second))
        command = [options.binary, "run", str(file), "--seconds", str(seconds), "--json"]
        # A file takes what no pipe holds: the ledger of many sources.
        with tempfile.TemporaryFile("w+") as said:
            with subprocess.Popen(command, stdout=said, cwd=folder, env=os.environ) as child:
                samples = watch(child, seconds)
            said.seek(0)
            summary = json.loads(said.read() or "null")
    if child.returncode != 0 or summary is None:
        print(json.dumps(summary, indent=2), file=sys.stderr)
        print(f"soak: the run ended with {child.returncode}", file=sys.stderr)
        return 1
    settling = min(SETTLING_SECONDS, seconds / 2)
    settled = [sample for sample in samples if sample[0] > settling][:-1]
    if len(settled) < 3:
        print("soak: too short to say anything; give more --minutes", file=sys.stderr)
        return 1
    rate = (summary["hits_recorded"] + summary["hits_left_out"]) / summary["elapsed_seconds"]
    flat, fast = grown(settled) < TOLERATED_KIB, rate >= 0.95 * options.hits_per_second
    print(f"soak: {seconds:.0f} s, {rate / 1e6:.2f} M hits/s, {summary['hits_lost']} hits lost,"
          f" ledger {'balances' if summary['ledger_closed'] else 'DOES NOT BALANCE'}")
    print(f"soak: resident {settled[0][1] / 1024:.1f} MiB at first, {settled[-1][1] / 1024:.1f} MiB at last,"
          f" grown by {grown(settled):+.0f} KiB, slope {slope(settled):+.0f} KiB/h: {'flat' if flat else 'GROWING'}")
    if not fast:
        print(f"soak: below the {options.hits_per_second / 1e6:.1f} M hits/s asked for")
    return 0 if flat and fast and summary["ledger_closed"] else 1


if __name__ == "__main__":
    sys.exit(main())
