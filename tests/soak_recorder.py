#!/usr/bin/env python3
"""A flight recorder at full rate: run after run with every hit processed and recorded, the oldest runs removed by policy.

    thalweg serve recorder.toml --start  ─►  runs/*/run.json  ─►  hits sent, recorded, lost; bytes on file; verdict

One emulated board sends into coincidence, spectra and a table of hits in the folder given, for as long as asked; with `--content bare-hits`
into the table alone. With `--content gapless` it is the records of one channel at 500 MS/s or less, without a gap, into a table of waveforms; with `waveforms` hits of 64 channels with 508 samples
each, and with `scope` records of 64 channels with as many samples as that.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIGURATION = """
[run]
title = "recorder"
seconds = {run_seconds}
[[source]]
name = "board"
format = "digitizer2"
url = "emulate://"
receive_buffer_bytes = {receive_buffer_bytes}
[source.emulate]
prepared = true
{content}
[record]
directory = "{directory}"
tables = {tables}
[record.retention]
most_bytes = {most_bytes}
[unattended]
rotate = true
[monitor]
listen = "127.0.0.1:0"
"""

# What the board sends, what is done with it, and the tables that keep it.
HITS = """total_rate_hz = {rate}
[coincidence]
window_ps = 3000"""
# Ordered and recorded, and nothing else.
BARE_HITS = """total_rate_hz = {rate}
[spectra]
enabled = false"""
GAPLESS = """firmware = "scope"
channels = 1
sampling_mhz = {sampling_mhz}
waveform_samples = 32768
aligned_datagrams = false
external_trigger_hz = 1e9
[spectra]
enabled = false"""
# 2064 bytes of a hit with 508 samples, or of a channel of a record with 1024 samples and its share of the head.
WAVEFORMS = """firmware = "{firmware}"
channels = 64
sampling_mhz = 500
waveform_samples = {samples}
prepared_mib = 8
aligned_datagrams = false
total_rate_hz = {rate}
[spectra]
enabled = false"""


def table_bytes(directory):
    """What the tables of all runs take now. A run may go while it is looked at."""
    total = 0
    for file in directory.glob("*/*.arrows"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            pass
    return total


def watch(child, directory, seconds):
    """The most bytes that lay there, until the time is over or the child has ended."""
    most, until, said = 0, time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < until and child.poll() is None:
        most = max(most, table_bytes(directory))
        if time.monotonic() - said >= 60:
            said = time.monotonic()
            print(f"{len(list(directory.iterdir())):5} runs, {most / 1e9:.1f} GB on file at most", flush=True)
        time.sleep(1)
    return most


def records(directory):
    """The records of all runs that have ended, by number."""
    all_records = [json.loads(path.read_text()) for path in sorted(directory.glob("*/run.json"))]
    return [record for record in all_records if record["state"] != "running"]


def lost_by_reason(runs):
    """Hits lost, by stage and reason, over all runs."""
    lost = {}
    for run in runs:
        for row in run["ledger"]["entries"]:
            if row["unit"] == "hits":
                for reason, count in row["lost"].items():
                    key = f"{row['stage']}: {reason}"
                    lost[key] = lost.get(key, 0) + count
    return lost


def content(options):
    """What the board sends, the tables that keep it, and bytes of one hit on the wire where they matter."""
    rate = options.megabytes_per_second * 1e6
    if options.content == "hits":
        return HITS.format(rate=options.hits_per_second), '["hits"]', None
    if options.content == "bare-hits":
        return BARE_HITS.format(rate=options.hits_per_second), '["hits"]', None
    tables = '["hits", "waveforms"]'
    if options.content == "gapless":
        return GAPLESS.format(sampling_mhz=options.samples_mhz), tables, 65536
    if options.content == "waveforms":
        return WAVEFORMS.format(firmware="psd", samples=508, rate=rate / 2064), tables, 2064
    record_bytes = 24 + 64 * 1024 * 2
    return WAVEFORMS.format(firmware="scope", samples=1024, rate=rate / record_bytes), tables, record_bytes / 64


def raw_write(folder, seconds, file_bytes, most_bytes):
    """Bytes per second of a program that only writes: into files in turn, the oldest of which it removes."""
    block, written, files = os.urandom(1 << 20), 0, []
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        files.append(Path(folder) / f"raw-{len(files)}")
        with files[-1].open("wb", buffering=0) as file:
            here = 0
            while here < file_bytes and time.monotonic() - started < seconds:
                here += file.write(block)
        written += here
        present = [file for file in files if file.exists()]
        for file in present[:max(0, len(present) - int(most_bytes // file_bytes))]:
            file.unlink()
    rate = written / (time.monotonic() - started)
    for file in files:
        file.unlink(missing_ok=True)
    return rate


def main():
    """Runs the recorder and prints what became of the hits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/thalweg")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--run-seconds", type=float, default=15.0)
    parser.add_argument("--hits-per-second", type=float, default=20.6e6)
    parser.add_argument("--content", choices=["hits", "bare-hits", "gapless", "waveforms", "scope"], default="hits")
    parser.add_argument("--megabytes-per-second", type=float, default=1140.0, help="of waveforms or scope records")
    parser.add_argument("--samples-mhz", type=int, default=500, help="of the channel without a gap")
    parser.add_argument("--receive-buffer-bytes", type=int, default=512 << 20)
    parser.add_argument("--most-bytes", type=int, default=11_000_000_000)
    parser.add_argument("--directory", default="/dev/shm" if Path("/dev/shm").is_dir() else None)
    parser.add_argument("--raw-seconds", type=float, default=0.0, help="before and behind it, measure the disk by a raw write")
    options = parser.parse_args()
    board, tables, hit_bytes = content(options)
    gapless, raw_rates = options.content == "gapless", []
    with tempfile.TemporaryDirectory(prefix="thalweg-recorder-", dir=options.directory) as folder:
        directory = Path(folder) / "runs"
        directory.mkdir()
        file = Path(folder) / "recorder.toml"
        file.write_text(CONFIGURATION.format(
            run_seconds=options.run_seconds, directory=directory, content=board, tables=tables,
            receive_buffer_bytes=options.receive_buffer_bytes, most_bytes=options.most_bytes))
        raw = [folder, options.raw_seconds, 5e9, options.most_bytes]
        raw_rates += [raw_write(*raw)] if options.raw_seconds else []
        started = time.monotonic()
        command = [str(Path(options.binary).resolve()), "serve", str(file), "--start"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder, env=os.environ) as child:
            most = watch(child, directory, options.seconds)
            took = time.monotonic() - started
            ended_early = child.poll() is not None
            child.send_signal(signal.SIGINT)
        runs = records(directory)
        raw_rates += [raw_write(*raw)] if options.raw_seconds else []
    if not runs:
        print("recorder: no run has ended", file=sys.stderr)
        return 1
    details = [run["details"] for run in runs]
    recorded = sum(row["out"] for run in runs for row in run["ledger"]["entries"]
                   if row["stage"] == "record" and row["unit"] == "hits")
    sent = sum(each["hits_sent"] or 0 for each in details)
    lost = sum(each["hits_lost"] for each in details)
    running = sum(each["elapsed_seconds"] for each in details)
    removed = sum(1 for run in runs if run["removed"])
    good = all(run["state"] == "stopped" and run["ledger"]["closed"] for run in runs) and not ended_early
    print(f"recorder: {len(runs)} runs in {took:.0f} s, {recorded} hits recorded of {sent} sent, {lost} lost"
          f" ({100 * lost / max(sent, 1):.3f} %), {removed} runs removed, {most / 1e9:.1f} GB on file at most")
    print(f"recorder: {recorded / running / 1e6:.2f} M hits/s while runs went on, {recorded / took / 1e6:.2f} M/s in all;"
          f" ledger {'balances' if good else 'DOES NOT BALANCE, or a run has failed'}")
    if gapless:
        joined = sum(each["scope_joins"]["joined"] for each in details)
        print(f"recorder: {joined} records continue the one before, of {recorded - len(runs)} that can")
    if hit_bytes:
        rate = hit_bytes * recorded / running
        of_raw = [f"; a raw write {', '.join(f'{raw / 1e6:.0f}' for raw in raw_rates)} MB/s before and behind"] if raw_rates else []
        print(f"recorder: {rate / 1e6:.0f} MB/s as sent while runs went on{''.join(of_raw)}")
    for place, count in sorted(lost_by_reason(runs).items()):
        print(f"recorder: {count} hits lost at {place}")
    for run in runs:
        for remark in run["remarks"]:
            print(f"recorder: run {run['number']}: {remark}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
