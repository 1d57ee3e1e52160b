#!/usr/bin/env python3
"""The original hub and dummy device of IPbus, where they are installed, with our client, our hub and our device.

    original_ipbus.py [PROGRAM]     PROGRAM is target/release/thalweg unless said otherwise; CACTUS_ROOT is /opt/cactus unless it is set

    DummyHardwareUdp.exe ◄─ UDP ───────────────────────── thalweg ipbus perf --validate, uhal where PyPI has it
                         ◄─ UDP ─ the original hub ◄─ TCP ┤
                         ◄─ UDP ─ thalweg hub ◄─ TCP ─────┘
    thalweg ipbus device ◄─ UDP ─ the original hub ◄─ TCP ─ thalweg ipbus perf --validate
What is not installed is skipped by name. Each line: who spoke with whom, and whether everything that was written was read back.
"""

import importlib.util
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ports import free_port
from programs import WAIT_SECONDS, running, serving

PROGRAM = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "target/release/thalweg")
ROOT = Path(os.environ.get("CACTUS_ROOT", "/opt/cactus"))
PATH = os.pathsep.join([str(ROOT / "bin"), str(ROOT / "bin/uhal/tests"), os.environ.get("PATH", "")])
DEVICE, HUB_START, HUB_STOP = "DummyHardwareUdp.exe", "controlhub_start", "controlhub_stop"
# Where the original hub listens, always.
HUB_PORT = 10203
# Words of a transaction, and transactions of a dispatch.
SHAPES = [(1, 1), (1, 100), (300, 4), (10_000, 1)]


def missing(*programs):
    """What of these is not installed."""
    return [program for program in programs if shutil.which(program, path=PATH) is None]


def original(program, *arguments, **options):
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{ROOT}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    return subprocess.Popen([shutil.which(program, path=PATH), *arguments], env=environment, **options)


@contextmanager
def original_device():
    port = free_port()
    with running(original(DEVICE, "--version", "2", "--port", str(port), stdout=subprocess.DEVNULL)):
        yield f"127.0.0.1:{port}"


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def original_hub():
    original(HUB_START).wait(WAIT_SECONDS)
    until = time.monotonic() + WAIT_SECONDS
    while not listens(HUB_PORT):
        if time.monotonic() > until:
            sys.exit(f"{HUB_START}: nobody listens at port {HUB_PORT} after {WAIT_SECONDS} s")
        time.sleep(0.05)
    try:
        yield f"127.0.0.1:{HUB_PORT}"
    finally:
        original(HUB_STOP).wait(WAIT_SECONDS)


def validated(uri):
    """What our client finds wrong; nothing when everything is read back as it was written."""
    # A busy machine may keep a process waiting for long.
    uri += ("&" if "?" in uri else "?") + "timeout_ms=30000"
    for words, transactions in SHAPES:
        command = [PROGRAM, "ipbus", "perf", uri, "--validate", "--seconds", "2"]
        command += ["--words", str(words), "--transactions", str(transactions)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode != 0:
            return f"{transactions} × {words} words: {found.stderr.strip()}"
    return None


def validated_by_uhal(uri):
    import uhal  # Not above: it is skipped where it is not installed.

    uhal.setLogLevelTo(uhal.LogLevel.ERROR)
    table = Path(__file__).with_name("original_ipbus.xml")
    board = uhal.getDevice("board", uri, f"file://{table}")
    board.setTimeoutPeriod(30_000)
    for words in (1, 300, 10_000):
        written = [random.getrandbits(32) for _ in range(words)]
        try:
            board.getNode("MEMORY").writeBlock(written)
            read = board.getNode("MEMORY").readBlock(words)
            board.dispatch()
        except uhal.exception as error:
            return f"{words} words: {error}"
        if list(read) != written:
            return f"{words} words are not what was written"
    return None


def say(who, wrong):
    print(f"{who}: {wrong or 'everything is read back'}")
    return wrong is None


def of_device(clients):
    """Whether all goes well with the original device, directly and through our hub."""
    good = []
    with ExitStack() as stack:
        board = stack.enter_context(original_device())
        hub = f"127.0.0.1:{free_port()}"
        stack.enter_context(serving(PROGRAM, "chtcp", "hub", "--listen", hub, "--timeout-ms", "10000"))
        ways = {"UDP": f"ipbusudp-2.0://{board}", "our hub": f"chtcp-2.0://{hub}?target={board}"}
        for way, uri in ways.items():
            good += [say(f"{client}, {way}, the original device", check(uri)) for client, check in clients.items()]
    return good


def of_hub(clients, boards):
    """Whether all goes well through the original hub."""
    good = []
    with original_hub() as hub:
        for whose, board in boards.items():
            uri = f"chtcp-2.0://{hub}?target={board}"
            good += [say(f"{client}, the original hub, {whose}", check(uri)) for client, check in clients.items()]
    return good


def main():
    clients, good = {"our client": validated}, []
    if importlib.util.find_spec("uhal"):
        clients["uhal"] = validated_by_uhal
    else:
        print("skipped: uhal: it is not installed")
    no_device, no_hub = missing(DEVICE), missing(HUB_START, HUB_STOP)
    if no_device:
        print(f"skipped: the original device: {DEVICE} is neither in {ROOT}/bin nor in PATH")
    else:
        good += of_device(clients)
    if no_hub:
        print(f"skipped: the original hub: {', '.join(no_hub)} is neither in {ROOT}/bin nor in PATH")
    else:
        with ExitStack() as stack:
            board = f"127.0.0.1:{free_port()}"
            stack.enter_context(serving(PROGRAM, "ipbusudp", "ipbus", "device", "--udp", board))
            boards = {"our device": board}
            if not no_device:
                boards["the original device"] = stack.enter_context(original_device())
            good += of_hub(clients, boards)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
