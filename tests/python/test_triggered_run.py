"""A triggered run of the real binary: what pyarrow finds on file is what the run says that it recorded.

    [trigger] ─► 105 emulated boards ─ TCP ─► thalweg run ─► events.arrows, fragments.arrows
"""

import pytest
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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The summary of a run that ended with its triggers, and its directory."""
    folder = tmp_path_factory.mktemp("triggered")
    file = folder / "run.toml"
    file.write_text(DETECTOR)
    summary = thalweg("run", file, "--seconds", 60, cwd=folder)
    return summary, folder / summary["run_directory"]


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
