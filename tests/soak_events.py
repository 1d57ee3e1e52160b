#!/usr/bin/env python3
"""Does event building stand what a minute brings? The real binary, its memory sampled, its events read back.

    overload   105 TCP boards: 5 s at half of what is taken, SECONDS at ten times that, 10 s at 0.7 of it
    camera     265 UDP boards x 1 kB at 2 kHz for SECONDS; then 10 s at 8 kHz, which is too much

Prints a line per check and ends with 1 when one fails. Events are recorded, payload is not: that would be gigabytes per second.
"""

import argparse
import bisect
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from soak import watch

BOARDS, PAYLOAD_BYTES = 105, 16000
BEFORE_SECONDS, AFTER_SECONDS = 5, 10
TIMES_OVER = 10
# What is offered afterwards, as a share of what is taken: enough that a backlog shows, and less than what a busy machine takes.
AFTER_SHARE = 0.7
# What pages move without anything growing.
TOLERATED_KIB = 4096
# Full rate is back when the events built keep within so many seconds of the triggers offered, looked at in stretches of this length,
# for a second: a thread that waits 10 ms for a core is no backlog, and one that is worked off shows as events too many.
STRETCH_SECONDS = 0.1
TOLERATED_SECONDS = 0.05
SECOND = 1_000_000_000

OVERLOAD = """
[run]
title = "overload"
[[source]]
name = "boards"
format = "fragment"
url = "tcp://127.0.0.1:{{25001..{last_port}}}"
memory_bytes = 268435456
reconnect = false
[source.emulate]
payload_bytes = {payload}
prepared_kib = 64
[busy]
udp = "127.0.0.1:25000"
[build]
depth = 1024
age_ms = 10000
full = "hold"
[trigger]
{trigger}
[record]
directory = "{folder}"
tables = ["events"]
"""

CAMERA = """
[run]
title = "camera"
[[source]]
name = "camera"
format = "fragment"
url = "emulate://"
boards = 265
policy = "drop"
receive_buffer_bytes = {buffer}
memory_bytes = 268435456
[source.emulate]
payload_bytes = 1000
[trigger]
rate_hz = {rate_hz}
[build]
depth = 4096
age_ms = 200
full = "close"
[record]
directory = "{folder}"
tables = ["events"]
"""


def verdict(good, text):
    """Prints a check, and returns whether it held."""
    print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)
    return good


def run(binary, file, seconds):
    """One run: its summary, and samples of (seconds, KiB)."""
    command = [binary, "run", str(file), "--seconds", str(seconds), "--json"]
    # A file takes what no pipe holds: the ledger of hundreds of boards.
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, stdout=said) as child:
            samples = watch(child, seconds)
        said.seek(0)
        text = said.read()
    if not text:
        sys.exit(f"soak: `{' '.join(command)}` ended with {child.returncode}")
    return json.loads(text), samples


def run_with_boards(binary, file, seconds):
    """One run and the process of its boards: the run's summary and samples, and the boards' report."""
    boards = [binary, "emulate", str(file), "--json"]
    with subprocess.Popen(boards, stdout=subprocess.PIPE, text=True) as child:
        try:
            time.sleep(1.0)
            summary, samples = run(binary, file, seconds)
        finally:
            child.terminate()
        return summary, samples, json.loads(child.stdout.read())


def times_of(summary, column):
    """A time of each recorded event, seconds since the run began, sorted."""
    with pa.memory_map(str(Path(summary["run_directory"]) / "events.arrows")) as file:
        values = pa.ipc.open_stream(file).read_all()[column].to_pylist()
    return sorted(value / SECOND for value in values)


def rate_between(times, start, stop):
    """Events per second."""
    return sum(start <= at < stop for at in times) / (stop - start)


def seconds_text(value):
    """A time in words, or that it never came."""
    return "never" if value is None else f"{value:.2f} s"


def recovery(built, offered_hz, start, stop):
    """How long after `start` the events built keep up with those offered and go on so for a second, or None; and by how many
    seconds they are ahead or behind at most from then to `stop`, drift of the measured rate included.

    `built` are the times at which events were whole, sorted: a backlog that is worked off makes them too many, and is not yet over.
    """
    count = int(round((stop - start) / STRETCH_SECONDS))
    edges = [bisect.bisect_left(built, start + index * STRETCH_SECONDS) for index in range(count + 1)]

    def furthest(first, last):
        """By how many seconds of the offered rate the events since the edge `first` are off at most, up to the edge `last`."""
        return max(abs((edges[index] - edges[first]) / offered_hz - (index - first) * STRETCH_SECONDS)
                   for index in range(first, last + 1))

    in_a_row = int(round(1 / STRETCH_SECONDS))
    first = next((index for index in range(count - in_a_row + 1) if furthest(index, index + in_a_row) <= TOLERATED_SECONDS), None)
    return (None, None) if first is None else (first * STRETCH_SECONDS, furthest(first, count))


def phases(full_hz, seconds):
    """The times of all triggers, nanoseconds: half of the full rate, ten times over, most of it."""
    times, at = [], 0.0
    for rate_hz, length in [(full_hz / 2, BEFORE_SECONDS), (full_hz * TIMES_OVER, seconds), (full_hz * AFTER_SHARE, AFTER_SECONDS)]:
        count = int(rate_hz * length)
        times.extend(int(SECOND * (at + index / rate_hz)) for index in range(count))
        at += length
    return times


def overload(binary, folder, seconds):
    """Far more triggers than can be taken, for a minute."""
    file = folder / "overload.toml"
    common = {"last_port": 25000 + BOARDS, "payload": PAYLOAD_BYTES, "folder": folder}
    file.write_text(OVERLOAD.format(trigger="rate_hz = 50000.0", **common))
    summary, _, _ = run_with_boards(binary, file, 5)
    full_hz = summary["events"]["events_built"] / summary["elapsed_seconds"]
    (folder / "times.txt").write_text("\n".join(map(str, phases(full_hz, seconds))))
    file.write_text(OVERLOAD.format(trigger='program = "times"\ntimes_file = "times.txt"', **common))
    # Two seconds for what is under way at the end.
    summary, samples, boards = run_with_boards(binary, file, BEFORE_SECONDS + seconds + AFTER_SECONDS + 2)
    events, times = summary["events"], times_of(summary, "first_arrival_ns")
    overload_end = times[0] + BEFORE_SECONDS + seconds
    before = rate_between(times, times[0] + 1, times[0] + BEFORE_SECONDS)
    during = rate_between(times, times[0] + BEFORE_SECONDS, overload_end)
    after = rate_between(times, overload_end + 1, overload_end + AFTER_SECONDS - 1)
    print(f"     {BOARDS} boards x {PAYLOAD_BYTES} B: full rate {full_hz:.0f}/s; offered {full_hz * TIMES_OVER:.0f}/s for {seconds:.0f} s,"
          f" built {during:.0f}/s; before {before:.0f}/s, after {after:.0f}/s")
    # The run's clock and the boards' begin apart: the first trigger of all is the first event.
    back, off = recovery(times_of(summary, "closed_ns"), full_hz * AFTER_SHARE, overload_end, overload_end + AFTER_SECONDS - 0.5)
    settled = [size for at, size in samples if at > BEFORE_SECONDS + min(10, seconds / 3)][:-1]
    grown = max(settled) - settled[0]
    accepted, complete = boards["triggers_accepted"], events["closed"].get("complete", 0)
    return all([
        verdict(complete == events["events_built"] == accepted,
                f"every accepted trigger is a complete event: {accepted} accepted, {complete} complete,"
                f" {boards['triggers_refused']} refused"),
        verdict(summary["ledger_closed"], "the ledger balances"),
        verdict(grown < TOLERATED_KIB,
                f"memory is flat: {settled[0] / 1024:.1f} MiB, at most {grown / 1024:+.1f} MiB later"),
        verdict(back is not None and back <= 1.0,
                f"events are built as offered, {TOLERATED_SECONDS * 1000:.0f} ms ahead or behind in a second,"
                f" from {seconds_text(back)} after the overload on; later {seconds_text(off)} at most"),
    ])


def camera(binary, folder, seconds):
    """Datagrams that all come at once, at the rate of the goal, and beyond."""
    file, good = folder / "camera.toml", True
    for rate_hz, length in [(2000.0, seconds), (8000.0, min(10, seconds))]:
        file.write_text(CAMERA.format(rate_hz=rate_hz, buffer=64 << 20, folder=folder))
        summary, samples = run(binary, file, length)
        events = summary["events"]
        built_hz = events["events_built"] / summary["elapsed_seconds"]
        settled = [size for at, size in samples if at > length / 3][:-1]
        lost = events["fragments_missing"] + events["fragments_lost"]
        never = sum(loss["count"] for loss in summary["losses"]
                    if loss["unit"] == "fragments" and loss["reason"] == "never_received")
        print(f"     265 boards x 1000 B at {rate_hz:.0f}/s for {length:.0f} s: {built_hz:.0f} events/s,"
              f" {events['events_partial']} partial; {events['triggers_refused']} of {events['triggers_offered']} triggers refused,"
              f" {events['fragments_missing']} fragments missing, {events['fragments_lost']} lost, {never} never received;"
              f" {settled[0] / 1024:.1f} to {max(settled) / 1024:.1f} MiB")
        good &= verdict(summary["ledger_closed"], "the ledger balances")
        if rate_hz <= 2000:
            good &= verdict(lost + never == 0, "no fragment is lost")
            good &= verdict(built_hz > 0.99 * rate_hz, "whole events at the rate of the triggers")
    return good


def main():
    """Runs the checks asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("check", nargs="?", default="all", choices=["all", "overload", "camera"])
    parser.add_argument("--binary", default="target/release/thalweg")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    good = True
    checks = {"overload": overload, "camera": camera}
    for check in checks if options.check == "all" else [options.check]:
        with tempfile.TemporaryDirectory(prefix="thalweg-soak-", dir=memory) as folder:
            print(check, flush=True)
            good &= checks[check](options.binary, Path(folder), options.seconds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
