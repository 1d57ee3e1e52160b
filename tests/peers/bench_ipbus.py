#!/usr/bin/env python3
"""The reference client of IPbus and ours in turn, on the same emulated board, directly and through our hub.

    bench_ipbus.py [PROGRAM]     PROGRAM is target/release/thalweg unless said otherwise; uhal comes from PyPI, thalweg from `make wheel`

    thalweg ipbus device ◄─ UDP ──────────────── thalweg ipbus perf · thalweg.ipbus, from Python · uhal, from Python
                         ◄─ UDP ─ thalweg hub ◄─ TCP ┘
Each line: the medians over the turns, and the medians of the ratios to uhal turn by turn; above 1 ours is faster.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import uhal
from ports import free_port
from programs import serving
from thalweg import ipbus

PROGRAM = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "target/release/thalweg")
TURNS = 7
SECONDS = 0.5
WORDS = [1, 100, 262_144]
TABLE = '<node><node id="MEMORY" address="0x1000" mode="incremental" size="0x100000"/></node>'


def ours(uri, words):
    """Words per second, and the median of the round trips in microseconds."""
    measured = subprocess.run(
        [PROGRAM, "ipbus", "perf", uri, "--words", str(words), "--seconds", str(SECONDS), "--json"],
        stdout=subprocess.PIPE, check=True,
    )
    found = json.loads(measured.stdout)
    return found["words_per_s"], found["round_trip_us"]["p50"]


def timed(words, once):
    """The same of something that Python does again and again."""
    times, begun = [], time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    return words * len(times) / sum(times), 1e6 * statistics.median(times)


def ours_in_python(uri, words):
    room = np.empty(words, dtype=np.uint32)
    with ipbus.connect(uri) as board:
        return timed(words, (lambda: board.read(0x1000)) if words == 1 else (lambda: board.read_block(0x1000, out=room)))


def theirs(board, words):
    client = board.getClient()

    def once():
        client.read(0x1000) if words == 1 else client.readBlock(0x1000, words)
        board.dispatch()

    return timed(words, once)


def compare(ways, folder):
    print(f"{'way':8}{'words':>8}{'ours':>26}{'ours, from Python':>26}{'uhal':>26}{'ratios':>14}")
    for way, uri in ways.items():
        (folder / "connections.xml").write_text(
            f'<connections><connection id="board" uri="{uri}" address_table="file://board.xml"/></connections>'
        )
        board = uhal.ConnectionManager(f"file://{folder}/connections.xml").getDevice("board")
        board.setTimeoutPeriod(10_000)
        for words in WORDS:
            turns = [(ours(uri, words), ours_in_python(uri, words), theirs(board, words)) for _ in range(TURNS)]
            middle = [[statistics.median(turn[side][what] for turn in turns) for what in (0, 1)] for side in range(3)]
            ratios = [statistics.median(turn[side][0] / turn[2][0] for turn in turns) for side in (0, 1)]
            said = [f"{us:9.1f} µs {32e-9 * rate:7.3f} Gb/s" for rate, us in middle]
            print(f"{way:8}{words:8}" + "".join(f"{one:>26}" for one in said) + "".join(f"{one:7.2f}" for one in ratios), flush=True)


def main():
    uhal.setLogLevelTo(uhal.LogLevel.ERROR)
    place, hub = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with (
        serving(PROGRAM, "ipbusudp", "ipbus", "device", "--udp", place),
        serving(PROGRAM, "chtcp", "hub", "--listen", hub),
        tempfile.TemporaryDirectory() as folder,
    ):
        (Path(folder) / "board.xml").write_text(TABLE)
        compare({"direct": f"ipbusudp-2.0://{place}", "hub": f"chtcp-2.0://{hub}?target={place}"}, Path(folder))


if __name__ == "__main__":
    main()
