"""A triggered run of the real binary: what pyarrow finds on file is what the run says that it recorded.

    [trigger] ─► 105 emulated boards ─ TCP ─► thalweg run ─► events.arrows, fragments.arrows
"""

import polars as pl
import pyarrow as pa
import pytest
import thalweg as thalweg_package
from conftest import read, thalweg

BOARDS, TRIGGERS = 105, 100

DETECTOR = f"""
[[source]]
name = "cdc"
format = "sitcp"
url = "emulate://"
boards = {BOARDS}

[trigger]
program = "constant"
rate_hz = 500.0
triggers = {TRIGGERS}

[record]
directory = "runs"
tables = ["events", "fragments"]
"""


FILTER = """
[filter]
keep = "trigger >= 50"
prescale = 4
"""


def recorded(configuration, folder):
    """The summary of a run that ended with its triggers, and its directory."""
    file = folder / "run.toml"
    file.write_text(configuration)
    summary = thalweg("run", file, "--seconds", 60, cwd=folder)
    return summary, folder / summary["run_directory"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of all triggers."""
    return recorded(DETECTOR, tmp_path_factory.mktemp("triggered"))


def test_selected_says_why_an_event_filter_let_an_event_be_recorded(run, tmp_path):
    few = DETECTOR.replace(f"boards = {BOARDS}", "boards = 4")
    summary, directory = recorded(few + FILTER, tmp_path)
    events = thalweg_package.open(directory).table("events")
    words = events["selected"].cast(pa.string()).to_pylist()
    assert words == ["kept" if trigger >= 50 else "prescaled" for trigger in events["trigger"].to_pylist()]
    selection = summary["events"]["selection"]
    assert words.count("prescaled") == selection["prescaled"] > 0
    assert len(words) + selection["rejected"] == summary["events"]["events_built"]
    assert pl.read_ipc_stream(directory / "events.arrows")["selected"].to_list() == words
    verified = thalweg("verify", directory)
    assert verified["ok"] and verified["events"]["selected"] == {word: words.count(word) for word in set(words)}
    assert "selected" not in thalweg_package.open(run[1]).table("events").column_names


def test_every_accepted_trigger_has_a_fragment_of_every_board(run):
    summary, directory = run
    accepted = summary["events"]["triggers_offered"] - summary["events"]["triggers_refused"]
    events, fragments = read(directory / "events.arrows"), read(directory / "fragments.arrows")
    assert 0 < accepted <= TRIGGERS
    assert events["trigger"].to_pylist() == list(range(accepted))
    assert events["fragments"].to_pylist() == [BOARDS] * accepted
    sources = fragments["source"].to_pylist()
    assert sources == sorted(set(sources)) * accepted
    assert len(set(sources)) == BOARDS


def test_sizes_of_events_are_those_of_their_payload(run):
    _, directory = run
    events, fragments = read(directory / "events.arrows"), read(directory / "fragments.arrows")
    lengths = [len(payload) for payload in fragments["payload"].to_pylist()]
    sums = [sum(lengths[first : first + BOARDS]) for first in range(0, len(lengths), BOARDS)]
    assert events["bytes"].to_pylist() == sums
