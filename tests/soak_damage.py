#!/usr/bin/env python3
"""Does every command that reads a recording stand one that is damaged anywhere?

    recordings of hits, events and units ─ seed ─► bytes changed, cut, zeroed, removed, doubled ─► verify, inspect, plot, export, replay,
                                                                                                  recover, ship, runs, import

A command says what is wrong and ends: it neither panics nor hangs, and takes no memory that a damaged length asks for. Each case is drawn from
its seed and number.
"""

import resource
import shutil
import subprocess
import sys

from soak_random import Folder, arguments, run_all, section

# More than any of these recordings needs, and less than what a damaged length asks for.
MEMORY_BYTES = 12 << 30
# After so long, a command hangs.
COMMAND_SECONDS = 60
COMMANDS_OF_A_CASE = 6
RUN = "runs/000001"

COMMANDS = [
    ["verify", RUN],
    ["inspect", RUN],
    ["inspect", RUN, "--json"],
    ["plot", RUN, "--out", "plots"],
    ["export", RUN, "--to", "csv", "--out", "csv"],
    ["export", RUN, "--to", "parquet", "--out", "parquet"],
    ["export", RUN, "--to", "mid", "--out", "again.mid"],
    ["export", RUN, "--to", "compass", "--out", "again.BIN"],
    ["replay", RUN, "--directory", "again"],
    ["recover", RUN],
    ["runs", "list", "--runs", "runs"],
    ["runs", "show", "000001", "--runs", "runs"],
    ["import", "exported.mid", "--runs", "imported"],
]


def recordings():
    """Configurations of short runs that have every table, by name."""
    emulated = {"channels": 8, "rate_hz": 800.0, "waveform_samples": 64, "statistics_interval_ms": 100}
    record = lambda *tables, **keys: section("[record]", directory="runs", tables=list(tables), **keys)
    trigger = section("[trigger]", program="constant", rate_hz=500.0, triggers=300)
    board = lambda name, **keys: section("[[source]]", name=name, url="emulate://", **keys)
    hits = [
        board("a", format="digitizer2", channels=8),
        section("[source.emulate]", **emulated),
        section("[source.faults]", drop=0.02),
        section("[coincidence]", window_ps=1_000_000),
        record("hits", "extras", "waveforms", "statistics", "coincidences", "raw"),
    ]
    events = [board("a", format="fragment", boards=5), trigger, record("events", "fragments", "raw", compression="lz4")]
    units = [
        board("a", format="sitcp", boards=3, profile="recbe", named_by="connection"),
        board("b", format="fragment", boards=2, first_board=10),
        *(section("[[unit]]", name=f"ru-{name}", kind="readout", sources=[name]) for name in "ab"),
        section("[[unit]]", name="bu", kind="builder"),
        section("[[unit]]", name="evm", kind="manager"),
        trigger,
        section("[filter]", keep="trigger < 200", prescale=7),
        record("events", "fragments"),
    ]
    return {"hits": hits, "events": events, "units": units}


def record_all(binary, directory):
    """Makes the recordings, and a file of another format of each."""
    for name, sections in recordings().items():
        folder = directory / name
        folder.mkdir(parents=True)
        (folder / "run.toml").write_text("\n".join(sections))
        for command in (["run", "run.toml", "--seconds", "1"], ["export", RUN, "--to", "mid", "--out", "exported.mid"]):
            subprocess.run([binary, *command], cwd=folder, check=True, capture_output=True)


def damaged(draw, data):
    """The same bytes, and something wrong with them."""
    if not data:
        return data
    place, other = draw.randrange(len(data)), draw.randrange(len(data))
    length = draw.choice([1, 8, 64, 1000])
    match draw.randrange(7):
        case 0:
            return data[:place]
        case 1:
            for _ in range(draw.choice([1, 3, 50])):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case 2 | 3 as kind:
            data[place : place + length] = bytes([0 if kind == 2 else 255] * len(data[place : place + length]))
        case 4:
            del data[place : place + length]
        case 5:
            data[place:place] = data[other : other + length]
        case _:
            number = draw.choice([0, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
            data[place : place + 8] = number.to_bytes(8, "little")
    return data


def one(asked, number, draw):
    """One case: what was recorded, and what was found."""
    name = draw.choice(sorted(recordings()))
    folder = Folder(asked.directory / f"damage-{asked.seed}-{number}", asked.binary)
    shutil.copytree(asked.directory / "recordings" / name, folder.path, dirs_exist_ok=True)
    files = [*(each for each in (folder.path / RUN).iterdir() if each.is_file()), folder.path / "exported.mid"]
    for file in draw.sample(sorted(files), draw.choice([1, 2, 3])):
        if draw.random() < 0.05:
            file.unlink()
        else:
            file.write_bytes(damaged(draw, bytearray(file.read_bytes())))
    some_file = str(draw.choice(files).relative_to(folder.path))
    commands = [*COMMANDS, ["inspect", some_file], ["ship", RUN, "--to", f"file://{folder.path}/far"]]
    for command in draw.sample(commands, COMMANDS_OF_A_CASE):
        code, _, errors = folder.thalweg(*command, seconds=COMMAND_SECONDS)
        if code not in (0, 1, 2):
            folder.find(f"`thalweg {' '.join(command)}` ended with {code}", errors)
    return name, folder


def main():
    """Makes the recordings, and damages them."""
    asked = arguments(__doc__, runs=300)
    shutil.rmtree(asked.directory / "recordings", ignore_errors=True)
    record_all(asked.binary, asked.directory / "recordings")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    code = run_all(asked, one)
    shutil.rmtree(asked.directory / "recordings")
    return code


if __name__ == "__main__":
    sys.exit(main())
