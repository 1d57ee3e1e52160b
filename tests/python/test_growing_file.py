"""A recording is a whole Arrow stream at every moment: while it grows, and after its writer was killed."""

import signal
import subprocess
import time

import polars as pl
import pyarrow as pa
from conftest import BINARY, read, thalweg


def start(folder, seconds):
    """A demo that goes on while the test does."""
    return subprocess.Popen(
        [BINARY, "demo", "--seconds", str(seconds), "--json"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )


def hits_file(folder):
    """The file of hits, once it is there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if found := list(folder.glob("runs/*/hits.arrows")):
            return found[0]
        time.sleep(0.02)
    raise AssertionError("no recording was begun")


def read_growing(path):
    """Reads, and does not map: a mapping has the length that the file had when it was made, and a batch that is completed
    meanwhile reaches beyond it (docs/recordings.md)."""
    with pa.OSFile(str(path)) as source:
        return pa.ipc.open_stream(source).read_all()


def test_every_look_at_a_growing_file_reads_a_whole_stream(tmp_path):
    with start(tmp_path, 4) as demo:
        file, rows = hits_file(tmp_path), []
        while demo.poll() is None:
            # Opened anew each time, as another program would.
            with open(file, "rb") as stream:
                if len(stream.read(8)) == 8:
                    rows.append(read_growing(file).num_rows)
            time.sleep(0.05)
    assert demo.returncode == 0
    assert rows == sorted(rows) and len(set(rows)) > 2, rows


def test_after_a_kill_readers_see_whole_batches_without_recovery(tmp_path):
    with start(tmp_path, 60) as demo:
        file = hits_file(tmp_path)
        time.sleep(3)
        demo.send_signal(signal.SIGKILL)
    killed = read(file)
    assert killed.num_rows > 1000
    assert pl.read_ipc_stream(file).height == killed.num_rows
    thalweg("recover", file.parent)
    assert read(file).num_rows >= killed.num_rows
    thalweg("verify", file.parent)
