"""Recordings made once by the real binary, for readers that are not ours.

    thalweg … --json ─► Recording(summary, directory) ─► pyarrow, polars, duckdb
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("THALWEG_BINARY", ROOT / "target" / "debug" / "thalweg"))

BOARDS = """
[run]
title = "readers"
hits = {hits}

[[source]]
name = "left"
format = "digitizer2"
url = "emulate://"
channels = 8
[source.emulate]
board = 0
boards = 2
channels = 8
rate_hz = 4000
waveform_samples = 64

[[source]]
name = "right"
format = "digitizer2"
url = "emulate://"
channels = 8
first_channel = 8
[source.emulate]
board = 1
boards = 2
channels = 8
rate_hz = 4000
statistics_interval_ms = 100

[record]
directory = "runs"
tables = ["hits", "extras", "waveforms", "statistics", "raw"]
compression = "{compression}"
"""


def thalweg(*arguments, cwd=None, check=True):
    """Runs the binary and returns the one JSON object that it prints."""
    ended = subprocess.run(
        [BINARY, *map(str, arguments), "--json"], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    if check:
        assert ended.returncode == 0, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return json.loads(ended.stdout)


@dataclass
class Recording:
    """A run that has ended."""

    summary: dict
    directory: Path

    def file(self, table):
        """The file of one of its tables."""
        return self.directory / f"{table}.arrows"

    def table(self, table):
        """One of its tables, read by pyarrow."""
        return read(self.file(table))


def record(configuration, folder):
    """A run that ends by itself."""
    file = folder / "run.toml"
    file.write_text(configuration)
    summary = thalweg("run", file, cwd=folder)
    return Recording(summary, folder / summary["run_directory"])


def read(path):
    """All of an Arrow stream file."""
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_stream(source).read_all()


@pytest.fixture(scope="session", params=["none", "lz4", "zstd"])
def example_run(request, tmp_path_factory):
    """A run of every table, written by the recording's own example: its directory."""
    folder = tmp_path_factory.mktemp(f"example-{request.param}")
    # `cargo test` has built it beside the program; `cargo run` would build the crate once more, with other features.
    example = BINARY.parent / "examples" / "write_example_run"
    ended = subprocess.run([example, folder, request.param], capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    return Path(ended.stdout.strip())


@pytest.fixture(scope="session", params=["none", "lz4", "zstd"])
def recording(request, tmp_path_factory):
    """Two boards, one with waveforms, every table, in every compression."""
    folder = tmp_path_factory.mktemp(f"run-{request.param}")
    return record(BOARDS.format(compression=request.param, hits=60_000), folder)
