"""The Python package refuses tables of which something is missing, as `thalweg export` does: later rows would be taken for others.

    run.json: hits.arrows, 3 files, 6 rows ─┬─► FileNotFoundError, EOFError
    files of its directory ─────────────────┘
"""

import json

import pyarrow as pa
import pytest

import thalweg
from thalweg import _tables

FILES = ["hits.arrows", "hits.0001.arrows", "hits.0002.arrows"]


def written(folder, *, rows=6, **more):
    """A run of six hits in three files."""
    for number, name in enumerate(FILES):
        times = pa.record_batch({"time_ps": [2 * number, 2 * number + 1]})
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, times.schema) as stream:
            stream.write_batch(times)
    said = {"table": "hits", "file": "hits.arrows", "rows": rows, "batches": 3, "bytes": 0, "files": 3}
    record = {"number": 1, "title": "", "started": "", "sources": [], "state": "stopped", "tables": [said], **more}
    (folder / "run.json").write_text(json.dumps(record))
    return thalweg.open(folder)


def test_a_whole_table_is_read_from_its_first_to_its_last_file(tmp_path):
    run = written(tmp_path)
    assert run.table("hits")["time_ps"].to_pylist() == list(range(6))
    assert [file.name for file in run.files("hits")] == FILES


@pytest.mark.parametrize("gone", FILES)
def test_a_table_without_one_of_its_files_is_refused_and_not_exported(tmp_path, gone):
    run = written(tmp_path)
    (tmp_path / gone).unlink()
    for read in [run.files, run.reader, run.table]:
        with pytest.raises(FileNotFoundError, match=f"{gone}: one of the 3 files .* `thalweg recover`"):
            read("hits")
    with pytest.raises(FileNotFoundError, match=gone):
        list(_tables.tables_of(str(tmp_path)))


def test_a_file_that_is_missing_before_another_is_missed_while_a_run_is_written(tmp_path):
    run = written(tmp_path, state="running", tables=[])
    assert run.table("hits").num_rows == 6
    (tmp_path / FILES[2]).unlink()
    assert run.table("hits").num_rows == 4, "a file more may come at any time"
    (tmp_path / FILES[0]).rename(tmp_path / FILES[2])
    with pytest.raises(KeyError):
        run.table("hits")
    (tmp_path / FILES[1]).rename(tmp_path / FILES[0])
    with pytest.raises(FileNotFoundError, match=FILES[1]):
        run.table("hits")


def test_fewer_rows_than_were_recorded_are_refused_at_the_end(tmp_path):
    run = written(tmp_path, rows=7)
    with run.reader("hits") as reader, pytest.raises(EOFError, match="hits.arrows: 6 rows where run.json says 7"):
        for _ in reader:
            pass
    with pytest.raises(EOFError):
        run.table("hits")


def test_a_table_that_the_policy_on_old_runs_has_removed_is_no_table(tmp_path):
    run = written(tmp_path, removed={"tables": [{"file": "hits.arrows"}]})
    for file in FILES:
        (tmp_path / file).unlink()
    assert run.tables == []
    with pytest.raises(KeyError):
        run.table("hits")
