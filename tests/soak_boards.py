#!/usr/bin/env python3
"""Does a run stand boards that die, whenever, and come back and count from 0 again?

    seed ─► thalweg emulate (SIGKILL, and started again) ◄─ TCP ─ thalweg run ─► SIGTERM ─► its ledger balances, thalweg verify

Boards of a process of their own: digitizers that are driven over their control port, or triggered boards of a configuration. What they sent and
a connection took with it is lost, and is in the ledger. Each case is drawn from its seed and number.
"""

import signal
import subprocess
import sys
import time

from soak_nodes import free_ports
from soak_random import END_SECONDS, Folder, arguments, build, recording, run_all, section, trigger

# After so long, a run ends.
MOST_SECONDS = 60


def digitizers(draw, address):
    """Boards behind `dig2://`, and how they are emulated."""
    boards = draw.choice([1, 2])
    # Aggregates of up to 400 KB with waveforms, and larger than a block.
    large = draw.choice([{}, {"aggregate_hits": 500, "flush_ms": 200.0}])
    block_bytes = 65_536 if large else None
    sections = []
    for board in range(boards):
        host = address if board == 0 else address[:-1] + str(int(address[-1]) + 1)
        sections.append(
            section(
                "[[source]]", name="ab"[board], format="digitizer2", url=f"dig2://{host}", first_channel=64 * board,
                memory_bytes=16 << 20, block_bytes=block_bytes, parameters=[["/par/StartSource", "SWcmd"]],
                policy=draw.choice([None, "hold", "drop"]),
            )
        )
    settings = {
        "channels": draw.choice([4, 64]), "rate_hz": draw.choice([100.0, 3000.0]), "waveform_samples": draw.choice([0, 200]),
        "transport": "tcp", **large,
    }
    emulate = ["--boards", str(boards), "--address", address, "--settings", "board.toml"]
    coincidence = [section("[coincidence]", window_ps=100_000)] if draw.random() < 0.3 else []
    files = {"board.toml": "\n".join(section("", **settings).splitlines()[1:])}
    return sections + coincidence, ["hits", "waveforms", "extras", "raw"], emulate, files


def triggered(draw):
    """Boards of a configuration that answer triggers."""
    sections = []
    for name in "ab"[: draw.choice([1, 2])]:
        boards = draw.choice([1, 3, 8])
        first = free_range(boards)
        url = f"tcp://127.0.0.1:{{{first}..{first + boards - 1}}}" if boards > 1 else f"tcp://127.0.0.1:{first}"
        first_board = {"first_board": 10} if name == "b" else {}
        sections.append(section("[[source]]", name=name, format="fragment", url=url, memory_bytes=64 << 20, **first_board))
        sections.append(section("[source.emulate]", payload_bytes=draw.choice([100, 2000]), checksum=draw.choice([None, True])))
    if draw.random() < 0.5:
        sections.append(section("[busy]", udp=f"127.0.0.1:{free_ports(1)[0]}"))
    return [*sections, *trigger(draw), *build(draw)], ["events", "fragments", "raw"], ["run.toml"], {}


def free_range(count):
    """The first of some ports in a row that nobody listens at."""
    ports = free_ports(count)
    while ports[-1] - ports[0] != count - 1:
        ports = ports[1:] + free_ports(1)
    return ports[0]


class Boards:
    """The process of the boards."""

    def __init__(self, folder, emulate):
        self.folder, self.emulate, self.starts = folder, emulate, 0
        self.start()

    def start(self):
        """Switches the boards on."""
        self.starts += 1
        self.said = open(self.folder.path / f"emulate-{self.starts}.txt", "w", encoding="utf-8")
        command = [self.folder.binary, "emulate", *self.emulate]
        self.process = subprocess.Popen(command, cwd=self.folder.path, stdout=self.said, stderr=subprocess.STDOUT)

    def kill(self):
        """Switches them off."""
        self.process.kill()
        self.process.wait()
        self.said.close()
        if "panicked" in (self.folder.path / f"emulate-{self.starts}.txt").read_text():
            self.folder.find("`thalweg emulate` panicked")


def one(asked, number, draw):
    """One case: its kind, and what was found."""
    folder = Folder(asked.directory / f"boards-{asked.seed}-{number}", asked.binary)
    kind = draw.choice(["digitizers", "triggered"])
    address = f"127.{draw.randrange(1, 250)}.{draw.randrange(250)}.{draw.randrange(2, 8)}"
    sections, tables, emulate, files = digitizers(draw, address) if kind == "digitizers" else triggered(draw)
    (folder.path / "run.toml").write_text("\n".join([*sections, recording(draw, tables)]))
    for name, text in files.items():
        (folder.path / name).write_text(text)
    boards = Boards(folder, emulate)
    pauses = [(draw.uniform(0.1, 2.0), draw.choice([0.0, 0.2, 1.0])) for _ in range(draw.choice([0, 1, 2, 3]))]

    def trouble(process):
        for before, off in pauses:
            time.sleep(before)
            boards.kill()
            time.sleep(off)
            boards.start()
        time.sleep(draw.uniform(0.5, 2.0))
        process.send_signal(signal.SIGTERM)

    time.sleep(draw.choice([0.0, 0.5]))
    command = ["run", "run.toml", "--seconds", str(MOST_SECONDS), "--json"]
    code, output, errors = folder.thalweg(*command, seconds=MOST_SECONDS + END_SECONDS, trouble=trouble)
    boards.kill()
    runs = list((folder.path / "runs").glob("[0-9]*"))
    if output.strip():
        folder.ledger_of("run", output)
        folder.check_files(draw, runs[0], tables)
    elif code not in (1, -signal.SIGTERM) or not errors.strip():
        # 1: a board was not there at the start.
        folder.find(f"the run has ended with {code}", output + errors)
    return f"{kind}, {len(pauses)} deaths, ended with {code}", folder


if __name__ == "__main__":
    sys.exit(run_all(arguments(__doc__, runs=60), one))
