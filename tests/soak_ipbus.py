#!/usr/bin/env python3
"""IPbus for as long as it takes: a million sums through a hub that is killed midway, then 64 clients on 64 boards through one hub.

    thalweg ipbus device ◄─ UDP, 5 % lost ─ thalweg hub ◄─ TCP ─ uhal (PyPI), unmodified: reads, adds, writes in steps of 100
    64 × thalweg ipbus device ◄─ UDP ────── thalweg hub ◄─ TCP ─ 64 × thalweg ipbus perf --validate

Sums are done exactly once: where every dispatch was answered the counter is their number; of a dispatch that failed, the error has said so, and
none to all of its sums were done.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uhal

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from ports import free_port

STEP = 100
BAD_NETWORK = ["--lost", "5", "--doubled", "2", "--delayed", "5", "--most-delay-us", "1000"]
TABLE = '<node><node id="SUM" address="0x10"/></node>'
# What a hub may grow by after all of its clients have come.
TOLERATED_KIB = 1024


def serving(binary, what, *arguments):
    """A command that serves."""
    process = subprocess.Popen([binary, *arguments, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while what not in process.stderr.readline():
        if process.poll() is not None:
            sys.exit(f"{arguments} has ended")
    # Whatever it has to say from here on is read by nobody, and must not hold it up.
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    return process


def resident_kib(process):
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def sums(binary, count, folder):
    """Whether the counter is what the answers say."""
    board_at, hub_at = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    (folder / "board.xml").write_text(TABLE)
    device = serving(binary, "ipbusudp", "ipbus", "device", "--udp", board_at, *BAD_NETWORK)
    hub_arguments = ("hub", "--listen", hub_at, "--timeout-ms", "10000")
    hub = serving(binary, "chtcp", *hub_arguments)

    def connected():
        board = uhal.getDevice("board", f"chtcp-2.0://{hub_at}?target={board_at}", f"file://{folder}/board.xml")
        board.setTimeoutPeriod(60_000)
        return board

    board, done, in_doubt, killed, begun = connected(), 0, 0, False, time.monotonic()
    while done + in_doubt < count:
        if not killed and done >= count // 2:
            # In the midst of a dispatch, as far as anybody can tell.
            killed = True
            killer = subprocess.Popen(["sh", "-c", f"sleep 0.01; kill -KILL {hub.pid}"])
        for _ in range(STEP):
            board.getClient().rmw_sum(0x10, 1)
        try:
            board.dispatch()
            done += STEP
        except Exception as error:
            in_doubt += STEP
            print(f"  after {done} sums: {str(error).splitlines()[0][:100]}")
            killer.wait()
            hub = serving(binary, "chtcp", *hub_arguments)
            board = connected()
    value = board.getClient().read(0x10)
    board.dispatch()
    seconds = time.monotonic() - begun
    for process in (hub, device):
        process.send_signal(signal.SIGINT)
    good = killed and in_doubt == STEP and done <= int(value) <= done + in_doubt
    print(f"sums: {done} answered, {in_doubt} in doubt, the counter has {int(value)}, {seconds:.0f} s: {'good' if good else 'WRONG'}")
    return good


def many(binary, boards, seconds):
    """Whether every client reads back what it wrote, and the hub stays as large as it was."""
    devices, ports = [], [free_port() for _ in range(boards)]
    for port in ports:
        devices.append(serving(binary, "ipbusudp", "ipbus", "device", "--udp", f"127.0.0.1:{port}"))
    hub_at = f"127.0.0.1:{free_port()}"
    hub = serving(binary, "chtcp", "hub", "--listen", hub_at, "--timeout-ms", "10000")
    clients = [
        subprocess.Popen(
            [binary, "ipbus", "perf", f"chtcp-2.0://{hub_at}?target=127.0.0.1:{port}&timeout_ms=30000", "--validate",
             "--words", "300", "--transactions", "4", "--seconds", str(seconds), "--seed", str(number)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for number, port in enumerate(ports)
    ]
    time.sleep(seconds / 2)
    before = resident_kib(hub)
    failed = []
    for number, client in enumerate(clients):
        _, error = client.communicate()
        if client.returncode != 0:
            failed.append(f"  client {number}: {error.strip()[:200]}")
    after = resident_kib(hub)
    for process in (hub, *devices):
        process.send_signal(signal.SIGINT)
    good = not failed and after - before <= TOLERATED_KIB
    print("\n".join(failed[:8]) if failed else "", end="\n" if failed else "")
    print(f"many: {boards} boards and clients for {seconds} s, {len(failed)} failed, the hub {before} and {after} KiB: {'good' if good else 'WRONG'}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--sums", type=int, default=1_000_000)
    parser.add_argument("--boards", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    uhal.setLogLevelTo(uhal.LogLevel.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        good = [sums(options.binary, options.sums, Path(folder)), many(options.binary, options.boards, options.seconds)]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
