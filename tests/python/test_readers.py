"""pyarrow, polars and DuckDB open what was recorded, as it is."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import thalweg

TABLES = ["hits", "extras", "waveforms", "statistics", "raw"]
NO_ENERGY_SHORT, LATE, EXTRA = 1 << 12, 1 << 13, 1 << 15


def test_hits_are_all_there_in_time_order(recording):
    hits = recording.table("hits")
    assert hits.num_rows == recording.summary["hits_recorded"] > 10_000
    assert hits.column_names == ["time_ps", "channel", "energy", "energy_short", "flags"]
    flags = hits["flags"].to_numpy()
    in_time = hits["time_ps"].to_numpy()[flags & LATE == 0]
    assert (np.diff(in_time) >= 0).all()
    assert set(np.unique(hits["channel"].to_numpy())) == set(range(16))


@pytest.mark.parametrize("table", TABLES)
def test_polars_reads_what_pyarrow_reads(recording, table):
    one, other = recording.table(table), pl.read_ipc_stream(recording.file(table))
    assert other.height == one.num_rows > 0
    assert other.columns == one.column_names
    for name in one.column_names:
        if pa.types.is_integer(one.schema.field(name).type):
            assert np.array_equal(other[name].fill_null(0).to_numpy(), one[name].fill_null(0).to_numpy()), name


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_queries_the_stream(recording, table):
    with pa.memory_map(str(recording.file(table))) as source:
        stream = pa.ipc.open_stream(source)  # named in the query
        [(count,)] = duckdb.sql("select count(*) from stream").fetchall()
    assert count == recording.table(table).num_rows


def test_a_spectrum_in_one_query(recording):
    hits = recording.table("hits")  # named in the query
    rows = duckdb.sql("select channel, count(*), avg(energy) from hits group by channel order by channel").fetchall()
    assert [channel for channel, _, _ in rows] == list(range(16))
    assert sum(count for _, count, _ in rows) == hits.num_rows
    assert all(energy > 100 for _, _, energy in rows)


def test_each_waveform_belongs_to_a_hit(recording):
    hits, waveforms = recording.table("hits"), recording.table("waveforms")
    of_left = pc.sum(pc.less(hits["channel"], 8)).as_py()
    assert waveforms.num_rows == of_left, "every hit of the board with waveforms has one"
    rows = waveforms["hit"].to_numpy()
    assert (hits["time_ps"].to_numpy()[rows] == waveforms["time_ps"].to_numpy()).all()
    assert (hits["channel"].to_numpy()[rows] == waveforms["channel"].to_numpy()).all()
    assert set(pc.list_value_length(waveforms["analog_1"]).to_pylist()) == {64}
    assert (hits["flags"].to_numpy()[rows] & EXTRA != 0).all()


def test_a_pulse_rises_above_its_base_line(recording):
    waveforms = recording.table("waveforms").slice(0, 500)
    samples = np.stack([np.abs(np.diff(row)) for row in waveforms["analog_1"].to_numpy()])
    assert np.median(samples.max(axis=1)) > 3 * np.median(samples), "steps of a pulse beyond the noise"


def test_waveforms_are_narrow_and_say_when_and_what_they_are(recording):
    schema = recording.table("waveforms").schema
    assert schema.field("analog_1").type.value_type == pa.int16()
    first = next(thalweg.open(recording.directory).waveforms())
    assert first.analog_names == ("adc_input", "baseline")
    assert first.digital_names == ("trigger", "long_gate", "short_gate", "over_threshold")
    assert (first.sample_ps, first.first_sample_ps) == (8000.0, -128_000)
    assert [len(samples) for samples in (*first.analog, first.digital)] == [64, 64, 64]
    times = first.times_ps()
    # The trigger's probe rises at the trigger, which the hit's fine time divides further.
    risen = times[np.flatnonzero(first.digital & 1)[0]]
    assert abs(risen - first.time_ps) <= 2 * 8000
    # Pulses are no scope records: none continues another.
    assert sum(1 for _ in thalweg.open(recording.directory).scope_records()) == recording.table("waveforms").num_rows


def test_raw_bytes_are_those_received(recording):
    raw = recording.table("raw")
    received = sum(source["bytes"] for source in recording.summary["sources"])
    recorded = pc.sum(pc.binary_length(raw["payload"].cast(pa.large_binary()))).as_py()
    assert recorded == received > 0
    marks = raw["mark_ns"].to_numpy()
    for source in (0, 1):
        assert (np.diff(marks[raw["source"].to_numpy() == source].astype(np.int64)) >= 0).all()


def test_statistics_agree_with_the_hits(recording):
    hits, statistics = recording.table("hits"), recording.table("statistics")
    saved = {}
    for row in statistics.to_pylist():
        assert row["source"] == 1 and row["saved"] <= row["triggers"]
        saved[row["channel"]] = max(saved.get(row["channel"], 0), row["saved"])
    assert set(saved) <= set(range(8, 16)) and saved
    for channel, count in saved.items():
        assert count <= pc.sum(pc.equal(hits["channel"], channel)).as_py()


def test_the_schema_names_the_sources(recording):
    metadata = recording.table("hits").schema.metadata
    assert b"left" in metadata[b"thalweg.sources"] and b"right" in metadata[b"thalweg.sources"]
