"""pyarrow, polars and DuckDB open events and fragments, and join them.

    write_example_run ─► events.arrows, fragments.arrows ─► the same rows in every reader
"""

import subprocess

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import BINARY, read

EVENTS, BOARDS, SILENT = 1000, 4, 3


@pytest.fixture
def run(example_run):
    """A run of 1000 events of boards 1 to 4, of which board 3 does not answer to every tenth."""
    return example_run


@pytest.fixture
def tables(run):
    """Events and fragments, as pyarrow has them."""
    return read(run / "events.arrows"), read(run / "fragments.arrows")


def payload(trigger, source):
    """What the example's boards send."""
    return bytes((place + trigger) % 256 for place in range(source * 8 + trigger % 100))


def test_every_fragment_is_there_in_the_order_of_events(tables):
    events, fragments = tables
    assert events["trigger"].to_pylist() == list(range(EVENTS))
    rows = fragments.to_pylist()
    assert len(rows) == EVENTS * BOARDS - EVENTS // 10
    assert [(row["trigger"], row["source"]) for row in rows] == sorted((row["trigger"], row["source"]) for row in rows)
    assert all(row["payload"] == payload(row["trigger"], row["source"]) for row in rows)
    assert all(row["ticks"] == row["trigger"] * 125 for row in rows)


def test_events_say_where_their_fragments_are(tables):
    events, fragments = tables
    triggers = fragments["trigger"].to_pylist()
    for event in events.to_pylist():
        own = slice(event["first_fragment"], event["first_fragment"] + event["fragments"])
        assert triggers[own] == [event["trigger"]] * event["fragments"]


def test_words_of_closing_are_words(tables):
    events, _ = tables
    partial = events.filter(pc.equal(events["closing"].cast(pa.string()), "age"))
    assert partial["trigger"].to_pylist() == list(range(9, EVENTS, 10))
    assert partial["missing"].to_pylist() == [[SILENT]] * (EVENTS // 10)
    complete = events.filter(pc.equal(events["closing"].cast(pa.string()), "complete"))
    assert complete.num_rows == EVENTS - EVENTS // 10
    assert pc.all(pc.equal(pc.list_value_length(complete["missing"]), 0)).as_py()


def test_polars_filters_and_joins(run, tables):
    events, fragments = (pl.read_ipc_stream(run / f"{table}.arrows") for table in ("events", "fragments"))
    assert events.height == EVENTS and fragments.height == tables[1].num_rows
    assert events.filter(pl.col("closing") == "age").height == EVENTS // 10
    assert events["missing"].to_list() == tables[0]["missing"].to_pylist()
    joined = events.join(fragments, on="trigger")
    assert joined.height == fragments.height
    sums = joined.group_by("trigger").agg(pl.col("payload").bin.size().sum().alias("sum"), pl.col("bytes").first())
    assert (sums["sum"] == sums["bytes"]).all()


def test_duckdb_joins_the_streams(run):
    with pa.memory_map(str(run / "events.arrows")) as one, pa.memory_map(str(run / "fragments.arrows")) as other:
        events, fragments = pa.ipc.open_stream(one), pa.ipc.open_stream(other)  # named in the query
        rows = duckdb.sql(
            "select closing, source, count(*), sum(octet_length(payload)) from events join fragments using (trigger) "
            "group by closing, source order by closing, source"
        ).fetchall()
    counts = {(str(closing), source): count for closing, source, count, _ in rows}
    whole, partial = EVENTS - EVENTS // 10, EVENTS // 10
    expected = {("complete", source): whole for source in range(1, BOARDS + 1)}
    expected |= {("age", source): partial for source in range(1, BOARDS + 1) if source != SILENT}
    assert counts == expected
    wanted = sum(len(payload(trigger, 1)) for trigger in range(EVENTS) if trigger % 10 == 9)
    assert [size for closing, source, _, size in rows if (str(closing), source) == ("age", 1)] == [wanted]


def test_the_command_verifies_such_a_run(run):
    ended = subprocess.run([BINARY, "verify", run, "--json"], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_schema_names_the_sources(tables):
    for table in tables:
        assert b"board 4" in table.schema.metadata[b"thalweg.sources"]
        assert table.schema.metadata[b"thalweg.ordered"] == b"true"
