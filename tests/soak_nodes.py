#!/usr/bin/env python3
"""Does it cost an event when nodes of a run are killed, whichever and whenever, and started again?

    seed ─► units on several nodes ─► SIGKILL of builder and manager nodes under load, started again ─► the boards' last trigger
                 │                                                                                         └─► thalweg verify of all nodes
                 └─ a builder node whose disk is full soon: it ends, and is started again when there is space

Readout units and their boards stay: what they hold is elsewhere only when it is on file. Every trigger that they accepted must be on file
once, complete, and the ledgers of all nodes must balance with each other. Each case is drawn from its seed and number.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time

from soak_random import END_SECONDS, Folder, arguments, recording, run_all, section, source

# Emulated boards of each source.
BOARDS = 4
# The node whose disk may be small.
SMALL = "events-0"


# Ports below those that the system gives to connections, each to one case.
PORTS = itertools.cycle(range(12_000 + os.getpid() % 1000, 32_000))


def free_ports(count):
    """Ports that nobody listens at, and no other case is given."""
    ports = []
    while len(ports) < count:
        port = next(PORTS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            ports.append(port)
        except OSError:
            continue
    return ports


class Nodes:
    """The nodes of one case: their configuration, and their processes."""

    def __init__(self, draw, folder):
        self.draw, self.folder = draw, folder
        self.builders = draw.choice([1, 2, 3])
        self.shares_memory = draw.random() < 0.4
        # The manager has a node of its own, or that of the first builder unit.
        self.manager = draw.choice(["manager", "events-0"])
        self.others = sorted({*(f"events-{index}" for index in range(self.builders)), self.manager})
        # Only root can give a node a small disk.
        self.has_small_disk = os.geteuid() == 0 and draw.random() < 0.4
        if self.has_small_disk:
            self.manager = "manager"
            self.others = sorted({*self.others, self.manager})
        self.running = {}
        self.starts = 0

    def units(self, names, node_of):
        """A readout unit for each source, on the node that `node_of` says, the builder units and the manager."""
        urls = [f"tcp://127.0.0.1:{port}" for port in free_ports(self.builders + 1)]
        if self.shares_memory:
            urls = [f"shm://{self.folder.path.name}-{index}" for index in range(self.builders + 1)]
        sections = [section("[[unit]]", name=f"ru-{name}", kind="readout", sources=[name], node=node_of(name)) for name in names]
        for index in range(self.builders):
            sections.append(section("[[unit]]", name=f"bu-{index}", kind="builder", node=f"events-{index}", listen=urls[index]))
        # A node that is killed at once has not met the others.
        run = section("[run]", identity=self.folder.path.name)
        return [*sections, section("[[unit]]", name="evm", kind="manager", node=self.manager, listen=urls[-1]), run]

    def write(self, sections, nodes):
        """Gives each node the configuration."""
        for name in nodes:
            (self.folder.path / name).mkdir()
            (self.folder.path / name / "run.toml").write_text("\n".join(sections))

    def configure(self):
        """Writes the configuration."""
        draw = self.draw
        names = ["left", "right", "third"][: draw.choice([2, 3])]
        sections = []
        for name in names:
            emulated = {"payload_bytes": draw.choice([100, 900, 9000]), "stream": True}
            boards = {"boards": BOARDS, "first_board": BOARDS * names.index(name)}
            sections += source(draw, name, "fragment", emulated, least_mib=16, **boards)
        sections += self.units(names, lambda _: "boards")
        triggers = draw.choice([2000, 4000, 8000])
        sections += [
            section("[trigger]", program="poisson", rate_hz=draw.choice([800.0, 2000.0]), triggers=triggers),
            section("[build]", full="hold"),
            section("[build.units]", range_events=draw.choice([1, 16, 256]), ordered=draw.choice([True, False])),
            recording(draw, ["events", "fragments"], on_full="end"),
        ]
        self.write(sections, ["boards", *self.others])

    def start(self, name):
        """Starts a node."""
        self.starts += 1
        outputs = [open(self.folder.path / f"{name}-{self.starts}.{kind}", "w+", encoding="utf-8") for kind in ("json", "txt")]
        command = [self.folder.binary, "run", "run.toml", "--node", name, "--seconds", "120", "--json"]
        process = subprocess.Popen(command, cwd=self.folder.path / name, stdout=outputs[0], stderr=outputs[1])
        self.running[name] = (process, outputs)

    def kill(self, name):
        """Ends a node in the middle of whatever it does."""
        process, _ = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def end(self, name, seconds):
        """Waits for the end of a node: its summary."""
        process, outputs = self.running.pop(name)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.folder.find(f"{name} has not ended after {seconds} s")
        if process.returncode == -signal.SIGTERM:
            # In its first milliseconds, before it had begun.
            return None
        for output in outputs:
            output.seek(0)
        said, errors = (output.read() for output in outputs)
        summary = self.folder.ledger_of(f"run --node {name}", said)
        if "panicked" in errors:
            self.folder.find(f"{name} panicked", errors)
        may_fail = self.has_small_disk and name == SMALL
        if summary and summary["failures"] and not may_fail:
            self.folder.find(f"{name} failed", "\n".join(str(each) for each in summary["failures"]))
        return summary

    def run(self):
        """Kills some of the nodes while triggers come, and lets the run end: triggers that the boards accepted."""
        if self.has_small_disk:
            self.folder.mount(self.draw.choice([6, 12]), SMALL)
        for name in self.others:
            self.start(name)
        self.start("boards")
        if self.has_small_disk:
            self.wait_for_full_disk()
        for _ in range(self.draw.choice([1, 2, 3]) - self.has_small_disk):
            time.sleep(self.draw.uniform(0.05, 1.5))
            victim = self.draw.choice(self.others)
            self.kill(victim)
            time.sleep(self.draw.choice([0.0, 0.3, 1.0]))
            self.start(victim)
        boards = self.end("boards", 120 + END_SECONDS)
        # The manager last: builder units report to it what is written.
        for name in sorted(self.others, key=lambda name: name == self.manager):
            self.running[name][0].send_signal(signal.SIGTERM)
            self.end(name, END_SECONDS)
        return boards["events"] if boards else None

    def configure_and_run(self):
        """The whole run, and no process of it is left: what `run` gives."""
        self.configure()
        try:
            return self.run()
        finally:
            for name in list(self.running):
                self.kill(name)

    def wait_for_full_disk(self):
        """Waits until a builder node has ended for lack of space or all data are taken, and starts it again with more."""
        ends = [self.running[name][0] for name in (SMALL, "boards")]
        while all(process.poll() is None for process in ends):
            time.sleep(0.02)
        if ends[0].poll() is not None:
            self.end(SMALL, END_SECONDS)
            self.folder.mount_more(SMALL)
            self.start(SMALL)

    def verified(self):
        """What `thalweg verify` says of all nodes together."""
        runs = [run for run in self.folder.path.glob("*/runs/[0-9]*") if (run / "run.json").exists()]
        for run in runs:
            self.folder.thalweg("recover", str(run), "--json")
        _, output, errors = self.folder.thalweg("verify", *(str(run) for run in runs), "--json")
        try:
            report = json.loads(output)
        except json.JSONDecodeError:
            self.folder.find("`thalweg verify` ended without a report", output + errors)
            return {"events": None}
        if report["problems"] or not report["ok"]:
            self.folder.find("the nodes do not balance", "\n".join(report["problems"]) or output[-2000:])
        return report

    def verify(self, events):
        """All nodes together have every accepted trigger on file."""
        recorded = self.verified()["events"]
        accepted = events["triggers_offered"] - events["triggers_refused"]
        if recorded != accepted:
            self.folder.find(f"{recorded} events are on file of {accepted} accepted triggers")


def one(asked, number, draw):
    """One case: what it is, and what was found."""
    folder = Folder(asked.directory / f"nodes-{asked.seed}-{number}", asked.binary)
    nodes = Nodes(draw, folder)
    events = nodes.configure_and_run()
    if events:
        nodes.verify(events)
    if nodes.has_small_disk:
        folder.unmount(SMALL)
    return f"{nodes.builders} builder nodes, {'shared memory' if nodes.shares_memory else 'TCP'}", folder


if __name__ == "__main__":
    sys.exit(run_all(arguments(__doc__, runs=60), one))
