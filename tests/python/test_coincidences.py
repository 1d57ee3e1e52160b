"""pyarrow, polars and DuckDB open coincidences, and put events together again.

    write_example_run ─► coincidences.arrows ─► the same rows in every reader
"""

import json

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from conftest import read

EVENTS = 1000
COLUMNS = [
    "event", "time_ps", "channel", "energy", "energy_short", "flags", "dt_ps", "multiplicity", "is_reference",
]


@pytest.fixture
def file(example_run):
    """The table's file: channel 1 answers 300 ps before channel 0, channel 2 to every fifth 7 ns behind it."""
    return example_run / "coincidences.arrows"


def test_every_event_is_there_hit_by_hit(file):
    rows = read(file)
    assert rows.column_names == COLUMNS
    events = rows["event"].to_numpy()
    assert (np.diff(events) >= 0).all() and set(events) == set(range(EVENTS))
    expected = [[1, 0, 2] if event % 5 == 0 else [1, 0] for event in range(EVENTS)]
    assert rows["channel"].to_pylist() == [channel for channels in expected for channel in channels]
    assert rows["multiplicity"].to_pylist() == [len(channels) for channels in expected for _ in channels]
    assert (rows["time_ps"].to_numpy() - rows["dt_ps"].to_numpy() == events.astype(np.int64) * 1_000_000).all()


def test_differences_and_references_belong_to_channels(file):
    for row in read(file).to_pylist():
        assert row["dt_ps"] == [0, -300, 7000][row["channel"]]
        assert row["is_reference"] == (row["channel"] == 0)
        assert row["energy"] == 100 * (row["channel"] + 1) + row["event"] % 50
        assert (row["energy_short"] is None) == (row["channel"] == 1)


def test_polars_joins_pairs(file):
    rows = pl.read_ipc_stream(file)
    assert rows.columns == COLUMNS and rows.height == read(file).num_rows
    assert rows["is_reference"].sum() == EVENTS
    first, other = rows.filter(pl.col("is_reference")), rows.filter(~pl.col("is_reference"))
    pairs = first.join(other, on="event", suffix="_other")
    assert pairs.height == EVENTS + EVENTS // 5
    assert (pairs["energy_other"] - pairs["energy"] == 100 * pairs["channel_other"].cast(pl.Int64)).all()


def test_duckdb_sums_over_events(file):
    with pa.memory_map(str(file)) as source:
        rows = pa.ipc.open_stream(source)  # named in the query
        counts = duckdb.sql(
            "select multiplicity, count(distinct event), min(dt_ps), sum(is_reference::int) from rows "
            "group by multiplicity order by multiplicity"
        ).fetchall()
    assert counts == [(2, EVENTS * 4 // 5, -300, EVENTS * 4 // 5), (3, EVENTS // 5, -300, EVENTS // 5)]


def test_the_run_names_its_spectra(example_run):
    record = json.loads((example_run / "run.json").read_text())
    [spectra] = record["documents"]
    assert spectra["file"] == "spectra.json"
    assert (example_run / "spectra.json").stat().st_size == spectra["bytes"]
