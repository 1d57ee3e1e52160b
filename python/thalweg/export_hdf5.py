"""Writes a recorded run as a file of HDF5, with a group for each table under `entry`.

    python -m thalweg.export_hdf5 runs/000042 run42.h5

`thalweg export RUN --to hdf5` calls it, and verifies the run on the way. Each column is a dataset with `units` and `long_name`. Hits are an
`NXevent_data` of NeXus: `event_id` is the channel, `event_time_offset` the time since `event_time_zero`, which is the start of the run, and
`pulse_height` the energy. Their live times, and what events stand for, are JSON in `thalweg.channels` and `thalweg.events`. A list has its items in `NAME`, and in `NAME_index` where the items of each row begin, with the end behind the
last row. A column that may be null has a dataset `NAME_valid`.
"""

from __future__ import annotations

import argparse
import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg._tables import in_chunks, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 200_000
"""Rows that are written at a time."""
CHUNK = 65_536
"""Items of a chunk of a dataset."""
LONG = ("thalweg.channels", "thalweg.events")
"""Metadata that may be longer than an attribute, which holds 64 KiB: they become datasets."""
NEXUS = {"channel": "event_id", "time_ps": "event_time_offset", "energy": "pulse_height"}
"""Names of columns of hits in `NXevent_data`."""


class _Group:
    """The datasets of one table, which grow."""

    def __init__(self, group: h5py.Group, names: dict[str, str]) -> None:
        self.group = group
        self.names = names

    def append(self, name: str, values: np.ndarray, kind=None) -> None:
        dataset = self.group.get(name)
        if dataset is None:
            dataset = self.group.create_dataset(
                name, shape=(0,), maxshape=(None,), chunks=(CHUNK,), dtype=kind or values.dtype, compression="gzip",
                compression_opts=1, shuffle=True,
            )
        before = dataset.shape[0]
        dataset.resize(before + len(values), axis=0)
        dataset[before:] = values

    def append_lists(self, name: str, offsets: np.ndarray, items: np.ndarray) -> None:
        dataset = self.group.get(name)
        before = dataset.shape[0] if dataset is not None else 0
        begins = offsets.astype(np.uint64) - np.uint64(offsets[0]) + np.uint64(before)
        # The end of the last chunk is the beginning of this one.
        self.append(f"{name}_index", begins if dataset is None else begins[1:])
        self.append(name, items[offsets[0] : offsets[-1]])

    def append_table(self, table: pa.Table) -> None:
        for field, column in zip(table.schema, table.columns, strict=True):
            name, array = self.names.get(field.name, field.name), column.combine_chunks()
            if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type):
                words = np.array(column.cast(pa.string()).to_pylist(), dtype=object)
                self.append(name, words, h5py.string_dtype())
            elif pa.types.is_list(field.type):
                self.append_lists(name, array.offsets.to_numpy(), array.values.to_numpy())
            elif pa.types.is_binary_view(field.type):
                array = column.cast(pa.large_binary()).combine_chunks()
                offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset :][: len(array) + 1]
                self.append_lists(name, offsets, np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8))
            else:
                filled = pc.fill_null(column, pa.scalar(0).cast(field.type)) if field.nullable else column
                self.append(name, filled.to_numpy())
            if field.nullable:
                self.append(f"{name}_valid", column.is_valid().to_numpy())


def _write_table(entry: h5py.Group, name: str, schema: pa.Schema, batches: Iterator) -> None:
    is_hits = name == "hits"
    names = NEXUS if is_hits else {}
    group = entry.create_group(name)
    group.attrs["NX_class"] = "NXevent_data" if is_hits else "NXcollection"
    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items() if key != b"ARROW:schema"}
    for key, value in metadata.items():
        if key in LONG:
            group[key] = value
        else:
            group.attrs[key] = value
    datasets = _Group(group, names)
    datasets.append_table(schema.empty_table())
    for chunk in in_chunks(batches, ROWS):
        datasets.append_table(chunk)
    for field in schema:
        said = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        dataset = group[names.get(field.name, field.name)]
        # NeXus has an empty unit for plain numbers.
        dataset.attrs["units"] = "" if said.get("unit") == "1" else said.get("unit", "")
        dataset.attrs["long_name"] = said.get("description", field.name)
    zero = metadata.get("thalweg.time_zero_utc", "")
    if is_hits:
        # One pulse: the run.
        at = group.create_dataset("event_time_zero", data=np.zeros(1, dtype=np.int64))
        at.attrs["units"], at.attrs["offset"] = "ps", zero
        group.create_dataset("event_index", data=np.zeros(1, dtype=np.uint64))
    if zero and "start_time" not in entry:
        entry["start_time"] = zero
        entry["title"] = metadata.get("thalweg.run_title", "")
        entry["entry_identifier"] = metadata.get("thalweg.run_number", "")


def export(run: str, out: str) -> None:
    """Writes the tables of a run to a new file.

    For `-`, the tables come from standard input, and whoever gives them has made the file and gives it its name.

    Raises `FileExistsError` if the file exists.
    """
    if run == "-":
        _write(run, Path(out))
        return
    if Path(out).exists():
        raise FileExistsError(f"{out} exists already, and an export overwrites nothing")
    part = Path(out).with_name(f".{Path(out).name}.part")
    try:
        _write(run, part)
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)


def _write(run: str, out: Path) -> None:
    with h5py.File(out, "w") as file:
        file.attrs["default"] = "entry"
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        for name, schema, batches in tables_of(run):
            _write_table(entry, name, schema, batches)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m thalweg.export_hdf5", description="Writes a recorded run as a file of HDF5.")
    parser.add_argument("run", help="directory of the run; - for Arrow streams on standard input")
    parser.add_argument("out", help="the file to write; it may not exist")
    arguments = parser.parse_args()
    try:
        export(arguments.run, arguments.out)
    except (OSError, EOFError) as error:
        print(f"export_hdf5: {error}", file=sys.stderr)
        # The command reads from this code that the disk is full.
        is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return 3 if is_full else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
