"""Exports of a recording, read by programs that are not ours.

    thalweg export --to parquet ─► pyarrow.parquet, polars, duckdb ─► the rows of the recording
                   --to root, hdf5 ─► uproot, h5py ─────────────────► the same
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import h5py
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from conftest import BINARY, BOARDS, ROOT, read, record, thalweg

import thalweg as package

TABLES = ("hits", "extras", "waveforms", "statistics", "losses")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Two boards, one with waveforms, and losses; small, because rows are compared one by one."""
    boards = BOARDS.format(compression="zstd", hits=3_000).replace("channels = 8\n", "channels = 8\nloss = 0.05\n", 1)
    return record(boards, tmp_path_factory.mktemp("hits"))


@pytest.fixture(scope="module")
def exported(recording, tmp_path_factory):
    """All tables of a recording as Parquet."""
    out = tmp_path_factory.mktemp("exports") / "parquet"
    thalweg("export", recording.directory, "--to", "parquet", "--out", out)
    return out


@pytest.mark.parametrize("table", TABLES)
def test_parquet_has_the_rows_of_the_recording(recording, exported, table):
    own, again = read(recording.file(table)), pq.read_table(exported / f"{table}.parquet")
    assert again.num_rows == own.num_rows
    assert again.cast(own.schema).equals(own.combine_chunks()), table


def test_parquet_says_units_and_the_zero_of_time(recording, exported):
    schema = pq.read_schema(exported / "hits.parquet")
    assert schema.field("time_ps").metadata[b"unit"] == b"ps"
    assert schema.field("energy").metadata[b"unit"] == b"ADC channels"
    record = json.loads((recording.directory / "run.json").read_text())
    assert schema.metadata[b"thalweg.time_zero_utc"].decode() == record["started"]
    assert json.loads(schema.metadata[b"thalweg.sources"]) == record["sources"]
    channels = record["details"]["channels"]
    exported_channels = json.loads(schema.metadata[b"thalweg.channels"])
    assert len(exported_channels) == len(channels) == 16
    for said, channel in zip(exported_channels, channels, strict=True):
        assert (said["name"], said["hits"], said["live_time_quality"]) == (
            channel["name"], channel["hits"], channel["live_time_quality"],
        )
        assert said["loss_corrected"]["value"] == pytest.approx(channel["loss_corrected"]["value"], rel=1e-12)


def test_polars_and_duckdb_read_the_same_parquet(recording, exported):
    file = exported / "hits.parquet"
    energies = sum(energy or 0 for energy in recording.table("hits")["energy"].to_pylist())
    assert pl.read_parquet(file)["energy"].sum() == energies
    assert duckdb.sql(f"select sum(energy) from '{file}'").fetchall() == [(energies,)]


TRIGGERED = """
[[source]]
name = "tracker"
format = "fragment"
url = "emulate://"
memory_bytes = 16_777_216
boards = 4
[source.emulate]
payload_bytes = 60

[trigger]
program = "constant"
rate_hz = 500.0

[run]
seconds = 1.0

[record]
directory = "runs"
tables = ["events", "fragments"]
"""


@pytest.fixture(scope="module", params=["hits", "events"])
def run(request, recording, tmp_path_factory):
    """The directory of a run of hits with waveforms and losses, and of one with events."""
    if request.param == "hits":
        return recording.directory
    return record(TRIGGERED, tmp_path_factory.mktemp("triggered")).directory


def export(run, form, out):
    """Exports with the interpreter of the tests, which has the package."""
    environment = {**os.environ, "THALWEG_PYTHON": sys.executable}
    subprocess.run([BINARY, "export", run, "--to", form, "--out", out], env=environment, check=True, timeout=120)
    return out


def plain(column):
    """A column as lists of Python, with 0 in place of what is null and lists in place of bytes."""
    values = (0 if value is None else value for value in column.to_pylist())
    return [list(value) if isinstance(value, bytes) else value for value in values]


def test_open_reads_tables_of_a_run(run):
    recording = package.open(run)
    assert recording.number == 1
    assert recording.started.endswith("Z")
    assert "hits" not in recording.tables or recording.table("losses").num_rows > 0, "words of losses are exported, too"
    for table in recording.tables:
        with recording.reader(table) as reader:
            assert sum(batch.num_rows for batch in reader) == recording.table(table).num_rows
    with pytest.raises(KeyError, match="has no table 'nothing'; it has "):
        recording.table("nothing")


def test_trees_of_root_have_the_rows_of_the_recording(run, tmp_path):
    file = uproot.open(export(run, "root", tmp_path / "run.root"))
    recording = package.open(run)
    for name in recording.tables:
        table = recording.table(name)
        assert file[name].num_entries == table.num_rows
        said = json.loads(str(file[f"{name}_metadata"]))
        assert said["metadata"]["thalweg.time_zero_utc"] == recording.started
        assert all(said["columns"][column]["unit"] for column in table.column_names)
        words = json.loads(str(file[f"{name}_words"])) if f"{name}_words" in file else {}
        for column in table.column_names if table.num_rows else []:
            found = file[name][column].array().to_list()
            if column in words:
                found = [words[column][number] for number in found]
            assert found == plain(table[column]), f"{name}.{column}"


def test_rntuples_of_root_have_the_rows_of_the_recording(run, tmp_path):
    out = tmp_path / "run.root"
    module = [sys.executable, "-m", "thalweg.export_root"]
    subprocess.run([*module, run, out, "--to", "rntuple"], check=True, timeout=120)
    file, recording = uproot.open(out), package.open(run)
    for name in (name for name in recording.tables if recording.table(name).num_rows):
        arrays = file[name].arrays()
        for column in recording.table(name).column_names:
            assert arrays[column].to_list() == plain(recording.table(name)[column]), f"{name}.{column}"
    again = subprocess.run([*module, run, out], capture_output=True, text=True, timeout=120)
    assert again.returncode == 1
    assert "exists already" in again.stderr


def test_hdf5_has_the_rows_of_the_recording_under_names_of_nexus(run, tmp_path):
    recording = package.open(run)
    with h5py.File(export(run, "hdf5", tmp_path / "run.h5")) as file:
        entry = file["entry"]
        assert entry["start_time"][()].decode() == recording.started
        for name in recording.tables:
            table, group = recording.table(name), entry[name]
            nexus = {"channel": "event_id", "time_ps": "event_time_offset", "energy": "pulse_height"}
            for column in table.column_names:
                own = nexus.get(column, column) if name == "hits" else column
                found = group[own][:].tolist()
                if f"{own}_index" in group:
                    index = group[f"{own}_index"][:].tolist()
                    found = [found[begin:end] for begin, end in zip(index, index[1:], strict=False)]
                found = [value.decode() if isinstance(value, bytes) else value for value in found]
                assert found == plain(table[column]), f"{name}.{column}"
        if "hits" in recording.tables:
            assert entry["hits"].attrs["NX_class"] == "NXevent_data"
            assert entry["hits/event_time_offset"].attrs["units"] == "ps"


def test_what_python_lacks_is_said(recording, tmp_path):
    environment = {**os.environ, "THALWEG_PYTHON": str(Path(ROOT) / "no-such-python")}
    command = [BINARY, "export", recording.directory, "--to", "root", "--out", tmp_path / "run.root"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert '-m pip install "./python[root]"' in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_several_files_is_opened_and_exported_as_one(tmp_path):
    boards = BOARDS.format(compression="none", hits=8_000) + "batch_hits = 500\n[record.files]\nmost_rows = 2000\n"
    recording = record(boards, tmp_path)
    run = package.open(recording.directory)
    files = run.files("hits")
    assert [file.name for file in files[:3]] == ["hits.arrows", "hits.0001.arrows", "hits.0002.arrows"]
    assert run.tables == sorted({file.name.split(".")[0] for file in recording.directory.glob("*.arrows")})
    whole = pa.concat_tables(read(file) for file in files)
    rows = whole.num_rows
    assert run.table("hits").equals(whole)
    assert rows >= 8_000
    with run.reader("hits") as reader:
        assert sum(batch.num_rows for batch in reader) == rows
    thalweg("export", recording.directory, "--to", "parquet", "--table", "hits", "--out", tmp_path / "hits.parquet")
    assert pq.read_table(tmp_path / "hits.parquet").num_rows == rows
    with pytest.raises(KeyError, match="no table"):
        run.files("hits.0001")


def test_the_files_of_a_table_are_open_one_at_a_time(tmp_path):
    """A table may have more files than a process may open."""
    (tmp_path / "run.json").write_text("{}")
    for number in range(200):
        part = f".{number:04}" if number else ""
        table = pa.table({"hit": [number]})
        sink = pa.OSFile(str(tmp_path / f"hits{part}.arrows"), "wb")
        with sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)

    def opened():
        descriptors = Path("/proc/self/fd").iterdir()
        return sum(path.is_symlink() and path.readlink().is_relative_to(tmp_path) for path in descriptors)

    found, most = [], 0
    with package.open(tmp_path).reader("hits") as reader:
        for batch in reader:
            found += batch.column("hit").to_pylist()
            most = max(most, opened())
    assert found == list(range(200))
    assert (most, opened()) == (1, 0)
