"""Writes a recorded run as a file of ROOT, with a tree for each table.

    python -m thalweg.export_root runs/000042 run42.root
    python -m thalweg.export_root runs/000042 run42.root --to rntuple

`thalweg export RUN --to root` calls it, and verifies the run on the way. A column that may be null has a branch `NAME_valid` beside it.
With `rntuple`, a table without rows is left out. A tree has no branches of words: they are numbers there, and the words are in the object `TABLE_words`. The object `TABLE_metadata` has
units, descriptions and the zero of time, as JSON.
"""

from __future__ import annotations

import argparse
import errno
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import uproot

from thalweg._tables import in_chunks, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 200_000
"""Rows of a chunk: smaller ones make trees that are slow to read."""


class _Words:
    """Words of the columns of one table as numbers, in the order in which they occur."""

    def __init__(self) -> None:
        self.numbers: dict[str, dict[str, int]] = {}

    def encode(self, name: str, column: pa.ChunkedArray) -> np.ndarray:
        known = self.numbers.setdefault(name, {})
        encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
        mapping = [known.setdefault(word, len(known)) for word in encoded.dictionary.to_pylist()]
        return np.asarray(mapping or [0], dtype=np.uint32)[encoded.indices.to_numpy(zero_copy_only=False)]

    def lists(self) -> dict[str, list[str]]:
        return {name: list(known) for name, known in self.numbers.items()}


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_string(kind)


def _jagged(column: pa.ChunkedArray) -> ak.Array:
    """Lists, or byte strings as lists of bytes."""
    if pa.types.is_list(column.type):
        return ak.from_arrow(_plain_lists(column))
    array = column.cast(pa.large_binary()).combine_chunks()
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(content)))


def _plain_lists(column: pa.ChunkedArray) -> pa.ListArray:
    """A column of lists in one array without nulls, of which awkward makes lists without options."""
    array = column.combine_chunks()
    kind = pa.list_(pa.field("item", array.type.value_type, nullable=False))
    return pa.ListArray.from_arrays(array.offsets, array.values, type=kind)


def _branches(table: pa.Table, words: _Words | None) -> dict[str, np.ndarray | ak.Array]:
    """The columns of a chunk as branches; words stay words without `words`."""
    branches = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if _is_text(field.type):
            text = words.encode(field.name, column) if words else ak.Array(column.cast(pa.string()).to_pylist())
            branches[field.name] = text
        elif pa.types.is_list(field.type) or pa.types.is_binary_view(field.type):
            branches[field.name] = _jagged(column)
        else:
            zero = pa.scalar(0).cast(field.type) if field.nullable else None
            filled = pc.fill_null(column, zero) if field.nullable else column
            branches[field.name] = filled.to_numpy()
        if field.nullable:
            branches[f"{field.name}_valid"] = column.is_valid().to_numpy()
    return branches


def _write_table(file: uproot.WritableDirectory, name: str, schema: pa.Schema, batches: Iterator, as_rntuple: bool) -> None:
    words = None if as_rntuple else _Words()
    empty = schema.empty_table()
    make = file.mkrntuple if as_rntuple else file.mktree
    writable = None
    for chunk in in_chunks(batches, ROWS):
        branches = _branches(chunk, words)
        if writable is None:
            writable = _begin(make, name, branches)
        writable.extend(branches)
    if writable is None and not as_rntuple:
        _begin(make, name, _branches(empty, words))
    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items() if key != b"ARROW:schema"}
    columns = {
        field.name: {key.decode(): value.decode() for key, value in (field.metadata or {}).items()} for field in schema
    }
    file[f"{name}_metadata"] = json.dumps({"metadata": metadata, "columns": columns})
    if words and words.numbers:
        file[f"{name}_words"] = json.dumps(words.lists())


def _begin(make, name: str, branches: dict):
    """A tree or RNTuple with the types of these branches."""
    kinds = {key: value.type.content if isinstance(value, ak.Array) else value.dtype for key, value in branches.items()}
    return make(name, kinds)


def export(run: str, out: str, as_rntuple: bool = False) -> None:
    """Writes the tables of a run to a new file.

    For `-`, the tables come from standard input, and whoever gives them has made the file and gives it its name.

    Raises `FileExistsError` if the file exists.
    """
    if run == "-":
        _write(run, Path(out), as_rntuple)
        return
    if Path(out).exists():
        raise FileExistsError(f"{out} exists already, and an export overwrites nothing")
    part = Path(out).with_name(f".{Path(out).name}.part")
    try:
        _write(run, part, as_rntuple)
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)


def _write(run: str, out: Path, as_rntuple: bool) -> None:
    with uproot.recreate(out, compression=uproot.LZ4(4)) as file:
        for name, schema, batches in tables_of(run):
            _write_table(file, name.replace("-", "_"), schema, batches, as_rntuple)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m thalweg.export_root", description="Writes a recorded run as a file of ROOT.")
    parser.add_argument("run", help="directory of the run; - for Arrow streams on standard input")
    parser.add_argument("out", help="the file to write; it may not exist")
    parser.add_argument("--to", choices=["ttree", "rntuple"], default="ttree", help="what tables become")
    arguments = parser.parse_args()
    try:
        export(arguments.run, arguments.out, arguments.to == "rntuple")
    except (OSError, EOFError) as error:
        print(f"export_root: {error}", file=sys.stderr)
        # The command reads from this code that the disk is full.
        is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return 3 if is_full else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
