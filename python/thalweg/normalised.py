"""What counts stand for: live time, and numbers corrected for losses, with their uncertainty and quality.

    run.json ────► Channel   live time, pulses, rate of each channel
             └───► TriggeredEvents  triggers, live fraction, rate of triggered boards
    spectra.json ► Spectrum  the same of each spectrum, with its counts

A number that is not known is `None`, and its quality is `unknown`; a live time is never computed from anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True)
class Corrected:
    """A number that was corrected for losses."""

    value: float | None
    """The number."""
    uncertainty: float | None
    """Its standard uncertainty, of counting."""
    low_95: float | None
    """Lower end of its 95 % interval."""
    high_95: float | None
    """Upper end of its 95 % interval."""
    quality: str
    """`exact`: all losses are in it; `at_least`: a lower bound; `unknown`."""


@dataclass(frozen=True)
class Normalised:
    """Live time, and numbers corrected for losses."""

    name: str
    """Name of what was counted."""
    real_time_s: float | None
    """Seconds that the channel's board counted."""
    live_time_s: float | None
    """Of these, the seconds in which it could take a hit."""
    live_time_quality: str
    """How well the live time is known: `exact`, `at_least` or `unknown`."""
    dead_time_fraction: float | None
    """Dead time ÷ real time, 0 to 1."""
    loss_corrected: Corrected
    """Pulses that the counts stand for."""
    rate_hz: Corrected
    """Pulses per second of live time."""


@dataclass(frozen=True)
class Channel(Normalised):
    """A channel of the experiment at the end of a run."""

    channel: int
    """Its number."""
    source: str
    """Name of its source."""
    hits: int
    """Hits in its spectra."""


@dataclass(frozen=True)
class TriggeredEvents:
    """What the recorded events of triggered boards stand for."""

    triggers_offered: int | None
    """Triggers that came; `None` where the trigger does not report."""
    triggers_accepted: int | None
    """Of these, those that were answered."""
    triggers_refused: int | None
    """Of these, those that were refused because of BUSY or an inhibit."""
    live_fraction: float | None
    """Accepted ÷ offered, 0 to 1."""
    real_time_s: float | None
    """Seconds for which triggers could come."""
    live_time_s: float | None
    """Of these, the seconds without BUSY."""
    live_time_quality: str
    """How well the live time is known: `exact` or `unknown`."""
    lost_before_building: int
    """Accepted triggers of which no event was built."""
    lost_before_building_quality: str
    """How well that is known: `exact` or `at_least`."""
    recorded: int
    """Events recorded."""
    loss_corrected: Corrected
    """Accepted triggers that the recorded events stand for."""
    rate_hz: Corrected
    """Triggers per second, refused and lost ones among them."""


@dataclass(frozen=True)
class Spectrum(Normalised):
    """A spectrum at the end of a run."""

    uhi: dict
    """The histogram as UHI says it: `boost_histogram.serialization.from_uhi` reads it."""

    @property
    def metadata(self) -> dict:
        """All that is said of it: its kind, where it was filled, its channel, its entries."""
        return self.uhi["metadata"]

    @property
    def entries(self) -> int:
        """Entries, those beside its axes among them."""
        return self.metadata["entries"]

    def values(self) -> numpy.ndarray:
        """Counts of its bins, without underflow and overflow."""
        import numpy

        counts = numpy.asarray(self.uhi["storage"]["values"])
        inner = [slice(int(axis["underflow"]), -1 if axis["overflow"] else None) for axis in self.uhi["axes"]]
        return counts[tuple(inner)]

    def edges(self) -> list[numpy.ndarray]:
        """Edges of the bins of each axis."""
        import numpy

        def of(axis: dict) -> numpy.ndarray:
            # As thalweg computes them for a value on an edge.
            low, bins = axis["lower"], axis["bins"]
            return low + numpy.arange(bins + 1) * (axis["upper"] - low) / bins

        return [of(axis) for axis in self.uhi["axes"]]


def _corrected(number: dict | None) -> Corrected:
    number = number or {}
    values = (number.get(key) for key in ("value", "uncertainty", "low_95", "high_95"))
    return Corrected(*values, quality=number.get("quality", "unknown"))


def _normalised(of: dict, loss_corrected: Corrected, rate_hz: Corrected) -> dict:
    return {
        "real_time_s": of.get("real_time_s"),
        "live_time_s": of.get("live_time_s"),
        # A run of an older version says nothing of it.
        "live_time_quality": of.get("live_time_quality", "unknown"),
        "dead_time_fraction": of.get("dead_time_fraction"),
        "loss_corrected": loss_corrected,
        "rate_hz": rate_hz,
    }


def channel_of(of: dict) -> Channel:
    """A channel as `run.json` says it."""
    numbers = _normalised(of, _corrected(of.get("loss_corrected")), _corrected(of.get("rate_hz")))
    return Channel(name=of["name"], channel=of["channel"], source=of["source"], hits=of["hits"], **numbers)


def events_of(of: dict) -> TriggeredEvents:
    """Events as `run.json` says them."""
    corrected = {key: _corrected(of[key]) for key in ("loss_corrected", "rate_hz")}
    return TriggeredEvents(**{**of, **corrected})


def spectrum_of(name: str, uhi: dict) -> Spectrum:
    """A spectrum as `spectra.json` says it."""
    metadata = uhi["metadata"]

    def corrected(key: str) -> Corrected:
        # UHI allows no objects in metadata.
        parts = {"value": key, **{part: f"{key}_{part}" for part in ("uncertainty", "low_95", "high_95", "quality")}}
        return _corrected({part: metadata[own] for part, own in parts.items() if own in metadata})

    numbers = _normalised(metadata, corrected("loss_corrected"), corrected("rate_hz"))
    return Spectrum(name=name, uhi=uhi, **numbers)
