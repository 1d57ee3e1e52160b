"""A recording is a whole Arrow stream at every moment: while it grows, and after its writer was killed."""

import signal
import subprocess
import time

import polars as pl
import pyarrow as pa
from conftest import BINARY, read, thalweg

WAIT_SECONDS = 240


def start(folder, seconds):
    """A demo that goes on while the test does."""
    return subprocess.Popen(
        [BINARY, "demo", "--seconds", str(seconds), "--json"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )


def hits_file(folder):
    """The file of hits, once it is there."""
    wait_until("a recording is begun", lambda: list(folder.glob("runs/*/hits.arrows")))
    return next(folder.glob("runs/*/hits.arrows"))


def read_growing(path):
    """Reads, and does not map: a mapping has the length that the file had when it was made, and a batch that is completed
    meanwhile reaches beyond it (docs/experiment/recordings.md)."""
    with pa.OSFile(str(path)) as source:
        return pa.ipc.open_stream(source).read_all()


def rows_of_growing(path):
    """Rows that are on file now; none while not even the head is. Opened anew each time, as another program would."""
    with open(path, "rb") as stream:
        return read_growing(path).num_rows if len(stream.read(8)) == 8 else 0


def wait_until(what, holds):
    """Waits until something holds, however slow the machine is."""
    until = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def test_every_look_at_a_growing_file_reads_a_whole_stream(tmp_path):
    with start(tmp_path, 100) as demo:
        file, rows = hits_file(tmp_path), []

        def has_grown():
            rows.append(rows_of_growing(file))
            return len(set(rows)) > 3

        wait_until("the file grows", has_grown)
        demo.send_signal(signal.SIGINT)
    assert demo.returncode == 0
    assert rows == sorted(rows), rows


def test_after_a_kill_readers_see_whole_batches_without_recovery(tmp_path):
    with start(tmp_path, 60) as demo:
        file = hits_file(tmp_path)
        wait_until("a thousand hits are on file", lambda: rows_of_growing(file) > 1000)
        demo.send_signal(signal.SIGKILL)
    killed = read(file)
    assert killed.num_rows > 1000
    assert pl.read_ipc_stream(file).height == killed.num_rows
    thalweg("recover", file.parent)
    assert read(file).num_rows >= killed.num_rows
    thalweg("verify", file.parent)
