"""pyarrow, polars and DuckDB open the list of losses of a run that has lost something, and it says what the ledger says.

    loss = 0.02 ─► losses.arrows ─► the same sums in every reader
"""

from collections import Counter

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from conftest import BOARDS, read, record

COLUMNS = ["from_ns", "until_ns", "subject", "stage", "reason", "unit", "first", "last", "count", "quality"]
KEYS = ["subject", "stage", "reason", "unit"]


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    """The summary of a run in which one datagram in fifty was lost, and the file of its losses."""
    configuration = BOARDS.format(compression="none", hits=200_000)
    configuration = configuration.replace("[source.emulate]", "loss = 0.02\n[source.emulate]")
    recording = record(configuration, tmp_path_factory.mktemp("lossy"))
    return recording.summary, recording.file("losses")


def in_ledger(summary):
    sums = Counter()
    for loss in summary["losses"]:
        sums[(loss["source"], loss["stage"], loss["reason"], loss["unit"])] += loss["count"]
    return dict(sums)


def test_pyarrow_adds_up_what_the_ledger_has(lossy):
    summary, file = lossy
    rows = read(file)
    assert rows.column_names == COLUMNS and rows.num_rows > 0
    sums = Counter()
    for row in rows.to_pylist():
        assert 0 <= row["from_ns"] < row["until_ns"] and row["first"] is None and row["last"] is None
        sums[tuple(row[key] for key in KEYS)] += row["count"]
    assert dict(sums) == in_ledger(summary)


def test_polars_and_duckdb_do_the_same(lossy):
    summary, file = lossy
    rows = pl.read_ipc_stream(file)
    sums = rows.filter(pl.col("reason") != "list_full").group_by(KEYS).agg(pl.col("count").sum())
    assert {row[:4]: row[4] for row in sums.iter_rows()} == in_ledger(summary)
    with pa.memory_map(str(file)) as source:
        losses = pa.ipc.open_stream(source)  # named in the query
        sums = duckdb.sql("select subject, stage, reason, unit, sum(count) from losses group by all").fetchall()
    assert {row[:4]: int(row[4]) for row in sums} == in_ledger(summary)
    assert losses is not None
