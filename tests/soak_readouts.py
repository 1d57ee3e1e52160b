#!/usr/bin/env python3
"""What does it cost when readout nodes of a run are killed, whichever and whenever, and started again?

    seed ─► thalweg emulate ◄─ TCP ─ readout nodes ─► builder and manager nodes ─► SIGTERM ─► thalweg verify of all nodes
                                          └───────────────────┴─ SIGKILL under load, started again

The boards have a process of their own and go on. A readout node that is killed takes with it what was not acknowledged: events are built without
its fragments. Whatever is killed, the nodes end, their ledgers balance with each other, and no event is on file twice or without a trigger.
Each case is drawn from its seed and number.
"""

import json
import signal
import subprocess
import sys
import time

from soak_boards import free_range
from soak_nodes import Nodes
from soak_random import END_SECONDS, Folder, arguments, recording, run_all, section

# Emulated boards of each source.
BOARDS = 2
# After so long, boards and nodes end by themselves.
MOST_SECONDS = 100


class Readouts(Nodes):
    """The nodes of one case, and the boards, which are in none of them."""

    def __init__(self, draw, folder):
        super().__init__(draw, folder)
        self.has_small_disk = False
        self.names = ["left", "right", "third"][: draw.choice([2, 3])]

    def configure(self):
        """Writes the configuration."""
        draw = self.draw
        sections = []
        for name in self.names:
            first = free_range(BOARDS)
            url = f"tcp://127.0.0.1:{{{first}..{first + BOARDS - 1}}}"
            board = BOARDS * self.names.index(name)
            sections.append(section("[[source]]", name=name, format="fragment", url=url, memory_bytes=64 << 20, first_board=board))
            sections.append(section("[source.emulate]", payload_bytes=draw.choice([100, 2000])))
        sections += [
            *self.units(self.names, lambda name: name),
            section("[trigger]", program="poisson", rate_hz=draw.choice([300.0, 1500.0])),
            section("[build]", age_ms=200),
            section("[build.units]", range_events=draw.choice([1, 16, 256]), ordered=draw.choice([True, False])),
            recording(draw, ["events", "fragments"], on_full="end"),
        ]
        self.write(sections, ["emulate", *self.names, *self.others])

    def boards(self):
        """Starts the process of the boards."""
        command = [self.folder.binary, "emulate", "run.toml", "--seconds", str(MOST_SECONDS), "--json"]
        return subprocess.Popen(command, cwd=self.folder.path / "emulate", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self):
        """Kills some of the nodes while triggers come, and ends the rest: triggers that the boards accepted."""
        draw, boards = self.draw, self.boards()
        try:
            time.sleep(0.5)
            for name in [*self.others, *self.names]:
                self.start(name)
            for _ in range(draw.choice([1, 2, 3])):
                time.sleep(draw.uniform(0.1, 2.0))
                # Readout nodes first of all: builder nodes alone are those of the other script.
                victims = draw.sample(self.names, draw.choice([1, 1, 2])) + draw.choice([[], [], [draw.choice(self.others)]])
                for victim in victims:
                    self.kill(victim)
                time.sleep(draw.choice([0.0, 0.3, 1.0]))
                for victim in victims:
                    self.start(victim)
            time.sleep(draw.uniform(0.5, 2.0))
            boards.send_signal(signal.SIGTERM)
            said, errors = boards.communicate(timeout=END_SECONDS)
        finally:
            boards.kill()
        if "panicked" in errors:
            self.folder.find("`thalweg emulate` panicked", errors)
        for names in (self.names, sorted(self.others, key=lambda name: name == self.manager)):
            for name in names:
                self.running[name][0].send_signal(signal.SIGTERM)
            for name in names:
                self.end(name, END_SECONDS)
        return json.loads(said)["triggers_accepted"]

    def verify(self, accepted):
        """All nodes balance, and there are no more events than triggers: how many there are."""
        recorded = self.verified()["events"]
        if recorded is None or recorded > accepted:
            self.folder.find(f"{recorded} events are on file of {accepted} accepted triggers")
        return recorded


def one(asked, number, draw):
    """One case: what it is, and what was found."""
    folder = Folder(asked.directory / f"readouts-{asked.seed}-{number}", asked.binary)
    nodes = Readouts(draw, folder)
    accepted = nodes.configure_and_run()
    events = nodes.verify(accepted)
    how = "shared memory" if nodes.shares_memory else "TCP"
    return f"{len(nodes.names)} readout nodes, {nodes.builders} builder nodes, {how}, {events} of {accepted}", folder


if __name__ == "__main__":
    sys.exit(run_all(arguments(__doc__, runs=60), one))
