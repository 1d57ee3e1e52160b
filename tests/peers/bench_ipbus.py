#!/usr/bin/env python3
"""The reference client of IPbus and ours in turn, on the same emulated board, directly and through our hub.

    bench_ipbus.py [PROGRAM]     PROGRAM is target/release/thalweg unless said otherwise; uhal comes from PyPI

    thalweg ipbus device ◄─ UDP ──────────────── thalweg ipbus perf · uhal, from Python
                         ◄─ UDP ─ thalweg hub ◄─ TCP ┘
Each line: the median of both over the turns, and the median of the ratios pair by pair; above 1 ours is faster.
"""

import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uhal

PROGRAM = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "target/release/thalweg")
TURNS = 7
SECONDS = 0.5
WORDS = [1, 100, 262_144]
TABLE = '<node><node id="MEMORY" address="0x1000" mode="incremental" size="0x100000"/></node>'


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serving(what, *arguments):
    process = subprocess.Popen([PROGRAM, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while what not in process.stderr.readline():
        assert process.poll() is None
    return process


def ours(uri, words):
    """Words per second, and the median of the round trips in microseconds."""
    measured = subprocess.run(
        [PROGRAM, "ipbus", "perf", uri, "--words", str(words), "--seconds", str(SECONDS), "--json"],
        stdout=subprocess.PIPE, check=True,
    )
    found = json.loads(measured.stdout)
    return found["words_per_s"], found["round_trip_us"]["half_within"]


def theirs(board, words):
    client, times, begun = board.getClient(), [], time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        if words == 1:
            client.read(0x1000)
        else:
            client.readBlock(0x1000, words)
        board.dispatch()
        times.append(time.perf_counter() - start)
    return words * len(times) / sum(times), 1e6 * statistics.median(times)


def compare(ways, folder):
    print(f"{'way':8}{'words':>8}{'ours':>26}{'uhal':>26}{'ratio':>8}")
    for way, uri in ways.items():
        (folder / "connections.xml").write_text(
            f'<connections><connection id="board" uri="{uri}" address_table="file://board.xml"/></connections>'
        )
        board = uhal.ConnectionManager(f"file://{folder}/connections.xml").getDevice("board")
        board.setTimeoutPeriod(10_000)
        for words in WORDS:
            pairs = [(ours(uri, words), theirs(board, words)) for _ in range(TURNS)]
            middle = [[statistics.median(one[side][what] for one in pairs) for what in (0, 1)] for side in (0, 1)]
            ratio = statistics.median(own[0] / other[0] for own, other in pairs)
            said = [f"{us:9.1f} µs {32e-9 * rate:7.3f} Gb/s" for rate, us in middle]
            print(f"{way:8}{words:8}{said[0]:>26}{said[1]:>26}{ratio:8.2f}", flush=True)


def main():
    uhal.setLogLevelTo(uhal.LogLevel.ERROR)
    place, hub = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    served = []
    try:
        served.append(serving("ipbusudp", "ipbus", "device", "--udp", place))
        served.append(serving("chtcp", "hub", "--listen", hub))
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "board.xml").write_text(TABLE)
            compare({"direct": f"ipbusudp-2.0://{place}", "hub": f"chtcp-2.0://{hub}?target={place}"}, Path(folder))
    finally:
        for process in served:
            process.send_signal(signal.SIGINT)
            process.wait()


if __name__ == "__main__":
    main()
