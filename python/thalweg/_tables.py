"""Tables for exporters, from a run or from `thalweg export`.

    RUN ─► its tables, one after the other ──────────────────────────┐
    - ──► Arrow streams, one behind the other, on standard input ────┴─► (name, schema, batches)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from thalweg.recording import open as open_recording

if TYPE_CHECKING:
    from collections.abc import Iterator

Named = tuple[str, pa.Schema, "Iterator[pa.RecordBatch]"]


def tables_of(run: str) -> Iterator[Named]:
    """The tables of a run, or of standard input for `-`."""
    if run == "-":
        yield from _from_standard_input()
        return
    recording = open_recording(run)
    said = {
        b"thalweg.run_number": str(recording.number),
        b"thalweg.run_title": recording.title,
        b"thalweg.time_zero_utc": recording.started,
    }
    for name in recording.tables:
        with recording.reader(name) as reader:
            own = {key: value.encode() for key, value in said.items()}
            yield name, reader.schema.with_metadata({**(reader.schema.metadata or {}), **own}), iter(reader)


def _from_standard_input() -> Iterator[Named]:
    source = pa.PythonFile(sys.stdin.buffer, mode="r")
    while True:
        try:
            reader = pa.ipc.open_stream(source)
        except (EOFError, pa.ArrowInvalid) as error:
            # The last stream is empty and has this one key: whoever writes has come to the end, and was not killed.
            raise EOFError("the tables end without their last word; the program that writes them was ended") from error
        metadata = reader.schema.metadata or {}
        if b"thalweg.end" in metadata:
            return
        yield metadata[b"thalweg.file"].decode(), reader.schema, iter(reader)


def in_chunks(batches: Iterator[pa.RecordBatch], rows: int, size: int = 64 << 20) -> Iterator[pa.Table]:
    """Joins batches to tables of at least so many rows, or so many bytes."""
    held: list[pa.RecordBatch] = []
    # Added up and not counted again: a run may have a hundred thousand batches of a few rows.
    held_rows = held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_rows += batch.num_rows
        held_bytes += batch.nbytes
        if held_rows >= rows or held_bytes >= size:
            yield pa.Table.from_batches(held)
            held, held_rows, held_bytes = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)
