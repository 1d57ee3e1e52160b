#!/usr/bin/env python3
"""Does a server stand several people who press everything at once?

    seed ─► a configuration ─► thalweg serve ◄─ HTTP ─ operators: start, stop, pause, resume, cuts, calibrations, notes, every page
                                   └─► SIGTERM ─► each run has ended, its ledger balances, thalweg verify

Every request is answered in time, with what was done or with why not; no answer is an error of the server. Each case is drawn from its seed
and number.
"""

import json
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import soak_random
from soak_nodes import free_ports
from soak_random import END_SECONDS, Folder, arguments, run_all

# Kinds of sources that people start and stop; each start draws boards anew.
KINDS = soak_random.KINDS
OPERATORS = 3
# For so long, they press.
PRESS_SECONDS = 8
# An answer that takes longer is none.
ANSWER_SECONDS = 40

HEADERS = {"Content-Type": "application/json", "x-thalweg": "1"}
LOOKS = [
    "/", "/metrics", "/api/state", "/api/configuration", "/api/history", "/api/notes/next", "/api/openapi.json", "/api/pulses",
    "/api/pulses/0", "/api/runs", "/api/spectra", "/api/system", "/api/topology",
]


class Operator(threading.Thread):
    """Somebody who presses whatever there is."""

    def __init__(self, folder, address, seed):
        super().__init__()
        self.folder, self.address, self.draw = folder, address, random.Random(seed)
        self.answers = {}

    def ask(self, path, body=None):
        """One request: the status of the answer and what it says. An answer that is none is a finding."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data, HEADERS)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                status, said = answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            status, said = refused.code, refused.read()
        except OSError as error:
            self.folder.find(f"{path} was not answered: {error}")
            return 0, b""
        if status >= 500:
            self.folder.find(f"{path} was answered with {status}", said.decode(errors="replace"))
        key = (path.split("?")[0], status)
        self.answers[key] = self.answers.get(key, 0) + 1
        return status, said

    def some_run(self):
        """The name of a run that there is, or of none."""
        _, said = self.ask("/api/runs")
        runs = json.loads(said or b"[]")
        runs = runs if isinstance(runs, list) else runs.get("runs", [])
        return self.draw.choice([run["name"] for run in runs] + ["000999"])

    def press(self):
        """One thing or another."""
        draw, number = self.draw, self.draw.randrange(100)
        run_control = ["start", "start", "stop", "pause", "resume"]
        text = draw.choice(["high voltage is on", "", "µ ≠ \"x\"\n", "n" * 3000])
        match draw.randrange(12):
            case 0 | 1 | 2 | 3:
                self.ask(f"/api/run/{draw.choice(run_control)}", {})
            case 4:
                expression = draw.choice(["energy > 1000", "channel < 3 && psd > 0.1", "energy >", "nonsense > 1"])
                self.ask("/api/view/cut", {"name": f"cut {number % 7}", "keep": expression})
            case 5:
                line = draw.choice([[0.0, 1.5], [0.0, -1.0], [], [1e308, 1e308], [3.0, 0.5, 1e-6]])
                self.ask("/api/view/calibrate", {"channel": draw.choice([0, 1, 9, 4000]), "energy_kev": line})
            case 6:
                self.ask("/api/view/revert", {"number": draw.randrange(1, 12)})
            case 7:
                self.ask("/api/spectra/reset", draw.choice([{}, {"ids": [0, number]}]))
            case 8:
                self.ask("/api/notes/next", {"text": text})
            case 9:
                run = self.some_run()
                kind, body = draw.choice(
                    [("notes", {"text": text}), ("comment", {"comment": text}), ("labels", {"added": ["good"]}), ("verify", {})]
                )
                self.ask(f"/api/runs/{run}/{kind}", body)
                self.ask(f"/api/runs/{run}")
            case 10:
                self.ask(f"/api/spectra/counts?ids={number}")
                self.ask(f"/api/spectra/{number}/export")
            case _:
                self.ask(draw.choice(LOOKS))

    def run(self):
        until = time.monotonic() + PRESS_SECONDS
        while time.monotonic() < until and not self.folder.findings:
            self.press()
            time.sleep(self.draw.choice([0, 0, 0.01, 0.1, 0.4]))


def check_runs(folder):
    """Each run has ended, and its files are what its ledger says."""
    for run in sorted((folder.path / "runs").glob("[0-9]*")):
        record = json.loads((run / "run.json").read_text())
        if record["state"] != "stopped" or not record["ledger"]["closed"]:
            folder.find(f"{run.name} has ended as {record['state']}", "\n".join(record["remarks"]))
        folder.verify(run)


def one(asked, number, draw):
    """One case: its kind, and what was found."""
    case = draw.choice(KINDS)(draw)
    folder = Folder(asked.directory / f"control-{asked.seed}-{number}", asked.binary)
    if not folder.configure(case, draw):
        return case.kind, folder
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with open(folder.path / "serve.txt", "w", encoding="utf-8") as said:
        server = subprocess.Popen(
            [folder.binary, "serve", "run.toml", "--listen", address], cwd=folder.path, stdout=said, stderr=subprocess.STDOUT
        )
        operators = [Operator(folder, address, f"{asked.seed} {number} {each}") for each in range(OPERATORS)]
        while server.poll() is None and not answers(address):
            time.sleep(0.02)
        for operator in operators:
            operator.start()
        for operator in operators:
            operator.join()
        server.send_signal(signal.SIGTERM)
        try:
            code = server.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            code = server.wait()
            folder.find(f"the server has not ended after {END_SECONDS} s")
    if not any(operator.answers.get(("/api/run/start", 200)) for operator in operators):
        folder.find("no run could be started", "\n".join(str(operator.answers) for operator in operators))
    said = (folder.path / "serve.txt").read_text()
    # 1 says of the last run that it was long enough and has no data.
    if code not in (0, 1) or "panicked" in said:
        folder.find(f"the server has ended with {code}", said)
    check_runs(folder)
    return case.kind, folder


def answers(address):
    """Whether somebody answers there."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/state", timeout=5):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(run_all(arguments(__doc__, runs=60), one))
