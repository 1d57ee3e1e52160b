"""Recordings, table by table, as pyarrow reads them.

    open("runs/000042") ─► Recording ─┬─► table("hits")  ─► pyarrow.Table
                                      ├─► reader("hits") ─► pyarrow.RecordBatchReader, for data larger than memory
                                      └─► channels, spectra() ─► live time, and numbers corrected for losses
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from thalweg.normalised import channel_of, events_of, spectrum_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    import numpy
    import pyarrow

    from thalweg.normalised import Channel, Spectrum, TriggeredEvents


LATER_PART = re.compile(r"(?P<table>.+)\.(?P<part>\d{4,})")
"""The name of a table's later file, without its ending: `hits.0001`."""

INCOMPLETE = "copy it back, or `thalweg recover` notes what is missing"
"""What to do about a run of which something is missing."""


@dataclass(frozen=True)
class Waveform:
    """One waveform. What is not known is `None`."""

    hit: int
    """Row of its hit in `hits`."""
    time_ps: int
    """Time of its hit, picoseconds since run start."""
    channel: int
    """Channel of the experiment."""
    source: int
    """Number of its source."""
    analog: tuple[numpy.ndarray, numpy.ndarray]
    """Samples of the two analog probes; empty where there is none."""
    digital: numpy.ndarray
    """Samples of the digital probes 1 to 4 in bits 0 to 3; empty where there are none."""
    sample_ps: float | None
    """Picoseconds between samples."""
    first_sample_ps: int | None
    """Picoseconds from the hit's time to the first sample."""
    overlapped: int | None
    """How many of its first samples repeat the end of the channel's waveform before, where it continues that one."""
    part: int | None
    """Which part of its record it is, from 0; `None` where it is the whole."""
    parts: int | None
    """How many parts the record has."""
    first_sample: int | None
    """Samples of the record in front of the part."""
    analog_names: tuple[str | None, str | None]
    """Names of the analog probes."""
    digital_names: tuple[str | None, str | None, str | None, str | None]
    """Names of the digital probes."""

    def times_ps(self) -> numpy.ndarray | None:
        """Times of the samples since run start, if period and offset are known."""
        import numpy

        if self.sample_ps is None or self.first_sample_ps is None:
            return None
        return self.time_ps + self.first_sample_ps + numpy.arange(len(self.analog[0])) * self.sample_ps


def _waveform(row: dict, said: list[dict]) -> Waveform:
    def value(name: str):  # noqa: ANN202
        return row[name].as_py() if name in row else None

    def samples(name: str) -> numpy.ndarray:
        wide = row.get(f"{name}_wide")
        chosen = wide if wide is not None and len(wide.values) else row[name]
        return chosen.values.to_numpy(zero_copy_only=False)

    own = said[value("source")] if value("source") < len(said) else {}

    def named(kind: str, code: int | None) -> str | None:
        names = own.get(kind) or []
        return names[code] if code is not None and code < len(names) else None

    digital = value("digital_probes")
    codes = [None if digital is None else digital >> 4 * probe & 15 for probe in range(4)]
    return Waveform(
        hit=value("hit"),
        time_ps=value("time_ps"),
        channel=value("channel"),
        source=value("source"),
        analog=(samples("analog_1"), samples("analog_2")),
        digital=samples("digital"),
        sample_ps=value("sample_ps"),
        first_sample_ps=value("first_sample_ps"),
        overlapped=value("overlapped"),
        part=value("part"),
        parts=value("parts"),
        first_sample=value("first_sample"),
        analog_names=(named("analog_probes", value("probe_1")), named("analog_probes", value("probe_2"))),
        digital_names=tuple(named("digital_probes", code) for code in codes),
    )


class Recording:
    """A recorded run: its record, and its tables by name."""

    def __init__(self, directory: Path, record: dict) -> None:
        self.directory = directory
        """Where it is."""
        self.record = record
        """What `run.json` says."""

    @property
    def number(self) -> int:
        """Number of the run."""
        return self.record["number"]

    @property
    def title(self) -> str:
        """Title of the run."""
        return self.record["title"]

    @property
    def started(self) -> str:
        """Time 0 of all tables, UTC, as `2026-11-21T02:18:04.123Z`."""
        return self.record["started"]

    @property
    def sources(self) -> list[str]:
        """Names of the sources; a column `source` has their places in this list."""
        return self.record["sources"]

    @property
    def channels(self) -> list[Channel]:
        """The channels of which there are hits or live times, with their live time and their corrected rate.

        A run that has not ended has none.
        """
        return [channel_of(channel) for channel in self.record.get("details", {}).get("channels") or []]

    @property
    def events(self) -> TriggeredEvents | None:
        """What the events of triggered boards stand for; `None` of a run without a trigger, and of one that has not ended."""
        said = self.record.get("details", {}).get("events")
        return events_of(said) if said else None

    def spectra(self) -> dict[str, Spectrum]:
        """The spectra at the end of the run by name, such as `channel 0: energy (received)`.

        Raises `FileNotFoundError` if the run has none, as before its end.
        """
        file = self.directory / "spectra.json"
        if not file.exists():
            raise FileNotFoundError(f"{self.directory} has no spectra.json; a run of hits writes it when it ends")
        saved = json.loads(file.read_text(encoding="utf-8"))
        return {name: spectrum_of(name, uhi) for name, uhi in saved.items()}

    @property
    def _recorded(self) -> dict[str, dict]:
        """What `run.json` says of each table of a run that has ended, but for those that the policy on old runs has removed."""
        if self.record.get("state") == "running":
            return {}
        removed = {said["file"] for said in (self.record.get("removed") or {}).get("tables", [])}

        def is_there(said: dict) -> bool:
            # What an interrupted removal has left is there.
            return said["file"] not in removed or (self.directory / said["file"]).exists()

        return {Path(said["file"]).stem: said for said in self.record.get("tables", []) if is_there(said)}

    @property
    def tables(self) -> list[str]:
        """Names of the tables: `hits`, `losses`; of several units also `events-UNIT`. Those that `run.json` names are among them if their
        files are missing."""
        found = (path.stem for path in self.directory.glob("*.arrows"))
        return sorted({*self._recorded, *(name for name in found if not LATER_PART.fullmatch(name))})

    def files(self, table: str) -> list[Path]:
        """The files of a table, in order: `hits.arrows`, and where it has several, `hits.0001.arrows` and so on.

        Raises `KeyError` if the run has no such table, `FileNotFoundError` if one of its files is missing.
        """
        if table not in self.tables:
            raise KeyError(f"{self.directory} has no table {table!r}; it has {', '.join(self.tables)}")
        found = (LATER_PART.fullmatch(path.stem) for path in self.directory.glob(f"{table}.*.arrows"))
        parts = [int(name["part"]) for name in found if name and name["table"] == table]
        count = max([self._recorded.get(table, {}).get("files", 1) - 1, *parts]) + 1
        files = []
        for part in range(count):
            file = self.directory / (f"{table}.{part:04}.arrows" if part else f"{table}.arrows")
            if not file.exists():
                raise FileNotFoundError(f"{file}: one of the {count} files of `{table}`, and it is missing; {INCOMPLETE}")
            files.append(file)
        return files

    def reader(self, table: str) -> pyarrow.RecordBatchReader:
        """The batches of a table, one after the other. Close it, or use it in a `with` statement.

        Raises `KeyError` if the run has no such table, `FileNotFoundError` if one of its files is missing; at its end `EOFError` if rows
        are.
        """
        import pyarrow

        # Read and not mapped: a map keeps the length that the file of a run in progress had.
        first, *later = self.files(table)
        source = pyarrow.OSFile(str(first))
        reader = pyarrow.ipc.open_stream(source)
        said = self._recorded.get(table, {}).get("rows", 0)

        def batches() -> Iterator[pyarrow.RecordBatch]:
            rows = 0
            with source, reader:
                for batch in reader:
                    rows += batch.num_rows
                    yield batch
            # One at a time: a table may have more files than a process may open.
            for file in later:
                with pyarrow.OSFile(str(file)) as later_source, pyarrow.ipc.open_stream(later_source) as later_reader:
                    for batch in later_reader:
                        rows += batch.num_rows
                        yield batch
            if rows < said:
                raise EOFError(f"{first}: {rows} rows where run.json says {said}; {INCOMPLETE}")

        return pyarrow.RecordBatchReader.from_batches(reader.schema, batches())

    def table(self, table: str) -> pyarrow.Table:
        """All rows of a table.

        Raises `KeyError` if the run has no such table, `FileNotFoundError` if one of its files is missing, `EOFError` if rows are.
        """
        with self.reader(table) as reader:
            return reader.read_all()

    def waveforms(self) -> Iterator[Waveform]:
        """Every waveform with its samples, their times and the names of its probes, as far as they are known.

        Raises `KeyError` if the run has no waveforms.
        """
        with self.reader("waveforms") as reader:
            words = (reader.schema.metadata or {}).get(b"thalweg.waveforms", b"[]")
            said = json.loads(words)
            for batch in reader:
                names = batch.schema.names
                rows = {name: batch.column(name) for name in names}
                for row in range(batch.num_rows):
                    yield _waveform({name: column[row] for name, column in rows.items()}, said)

    def scope_records(self) -> Iterator[Waveform]:
        """As :meth:`waveforms`, with those of a channel that touch or overlap, or are parts of one, joined to one, whose hit is the first of them.

        Memory holds one for each channel. Raises `KeyError` if the run has no waveforms.
        """
        import numpy

        held: dict[tuple[int, int], list[Waveform]] = {}

        def joined(parts: list[Waveform]) -> Waveform:
            samples = [part.analog[0][part.overlapped or 0 :] for part in parts]
            return replace(parts[0], analog=(numpy.concatenate(samples), parts[0].analog[1])) if len(parts) > 1 else parts[0]

        for waveform in self.waveforms():
            parts = held.setdefault((waveform.source, waveform.channel), [])
            if parts and waveform.overlapped is None:
                yield joined(parts)
                parts.clear()
            parts.append(waveform)
        yield from (joined(parts) for parts in held.values())

    def __repr__(self) -> str:
        return f"<run {self.number} {self.title!r} of {self.started}: {', '.join(self.tables)}>"


def open(run: str | PathLike[str]) -> Recording:  # noqa: A001
    """Opens a recorded run by its directory; `runs/000042` finds `runs/000042-title`, too.

    Raises `FileNotFoundError` if there is no such run, or several have the number.
    """
    path = Path(run)
    if not path.is_dir() and path.name.isdigit():
        found = [other for other in path.parent.glob(f"{path.name}-*") if other.is_dir()]
        if len(found) > 1:
            raise FileNotFoundError(f"several runs have this number: {', '.join(map(str, sorted(found)))}")
        path = found[0] if found else path
    return Recording(path, json.loads((path / "run.json").read_text(encoding="utf-8")))
