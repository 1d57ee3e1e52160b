"""Live time and corrected numbers of channels and spectra, by the Python package.

    boards that report their counters, boards that do not, a hundredth lost ─► run.json, spectra.json ─► thalweg.open ─► the same numbers
"""

import json

import numpy as np
import pytest
import thalweg
from boost_histogram.serialization import from_uhi
from conftest import record

# Both boards are dead for 2.5 µs behind a hit: at 40 kHz, a tenth of the time.
RUN = """
[run]
hits = 400_000

[[source]]
name = "reports"
format = "digitizer2"
url = "emulate://"
channels = 4
faults = { drop = 0.01, seed = 3 }
[source.emulate]
board = 0
boards = 2
channels = 4
rate_hz = 40_000
statistics_interval_ms = 50
detector = { dead_time_ns = 2500 }

[[source]]
name = "silent"
format = "digitizer2"
url = "emulate://"
channels = 4
first_channel = 4
[source.emulate]
board = 1
boards = 2
channels = 4
rate_hz = 40_000
detector = { dead_time_ns = 2500 }

[record]
directory = "runs"
"""
RATE_HZ = 40_000

# A board that reads out each trigger for 50 µs, and loses every hundredth answer.
TRIGGERED = """
[[source]]
name = "board"
format = "sitcp"
url = "emulate://"
emulate = { faults = { lose_every = 100 } }

[trigger]
program = "poisson"
rate_hz = 5000
dead_time_ns = 0
readout_ns = 50_000
triggers = 3000

[record]
directory = "runs"
tables = ["events", "fragments"]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return thalweg.open(record(RUN, tmp_path_factory.mktemp("live-time")).directory)


def test_channels_have_the_live_time_and_the_rate_of_the_run_s_record(run):
    assert [channel.channel for channel in run.channels] == list(range(8))
    for channel, said in zip(run.channels, run.record["details"]["channels"], strict=True):
        assert (channel.name, channel.source, channel.hits) == (said["name"], said["source"], said["hits"])
        assert (channel.live_time_s, channel.live_time_quality) == (said["live_time_s"], said["live_time_quality"])
        assert vars(channel.loss_corrected) == said["loss_corrected"] and vars(channel.rate_hz) == said["rate_hz"]
        if channel.source == "silent":
            assert (channel.live_time_s, channel.live_time_quality, channel.rate_hz.quality) == (None, "unknown", "unknown")
            continue
        assert abs(channel.rate_hz.value - RATE_HZ) < 6 * channel.rate_hz.uncertainty, channel
        assert 0.05 < channel.dead_time_fraction < 0.15 and channel.live_time_s < channel.real_time_s, channel
        assert channel.loss_corrected.value > channel.hits and channel.loss_corrected.quality == "exact", channel


def test_spectra_have_counts_edges_and_what_they_stand_for(run):
    saved = json.loads((run.directory / "spectra.json").read_text())
    spectra = run.spectra()
    assert spectra.keys() == saved.keys()
    for name, spectrum in spectra.items():
        histogram = from_uhi(saved[name])
        assert np.array_equal(spectrum.values(), histogram.values()), name
        for edges, axis in zip(spectrum.edges(), histogram.axes, strict=True):
            assert np.allclose(edges, axis.edges), name
    for channel in run.channels:
        energy = spectra[f"{channel.name}: energy (received)"]
        assert (energy.entries, energy.live_time_s) == (channel.hits, channel.live_time_s)
        assert energy.loss_corrected == channel.loss_corrected
        assert energy.rate_hz.quality == channel.rate_hz.quality
        if channel.source == "reports":
            assert abs(energy.rate_hz.value - RATE_HZ) < 6 * energy.rate_hz.uncertainty


def test_events_have_what_they_stand_for(tmp_path):
    run = thalweg.open(record(TRIGGERED, tmp_path).directory)
    events, said = run.events, run.record["details"]["events"]
    assert run.channels == [] and events.recorded == run.table("events").num_rows > 1000
    assert vars(events.rate_hz) == said["rate_hz"] and vars(events.loss_corrected) == said["loss_corrected"]
    assert events.triggers_offered == events.triggers_accepted + events.triggers_refused == 3000
    assert events.triggers_accepted == events.recorded + events.lost_before_building
    assert (events.live_time_quality, events.lost_before_building_quality) == ("exact", "exact")
    # On a busy machine the board's last answers come late, and the run takes longer than its triggers.
    offered_hz = events.triggers_offered / events.real_time_s
    assert abs(events.rate_hz.value - offered_hz) < 6 * events.rate_hz.uncertainty and offered_hz < 5500
    # The board is set to lose a number of events, not to lose them for a time.
    assert events.lost_before_building == events.triggers_accepted // 100, events


def test_a_run_that_goes_on_has_no_spectra_and_says_so(tmp_path):
    (tmp_path / "run.json").write_text('{"number": 1, "title": ""}')
    run = thalweg.open(tmp_path)
    assert run.channels == [] and run.events is None
    with pytest.raises(FileNotFoundError, match="spectra.json; .* when it ends"):
        run.spectra()
