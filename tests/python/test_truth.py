"""What the emulated boards say they emitted, against what was recorded."""

from pathlib import Path

import numpy as np
import pytest
from conftest import read, thalweg

KEY = ["time_ps", "channel", "energy", "energy_short"]
EXTRA, LATE = 1 << 15, 1 << 13
# Of the two boards of a demo.
CHANNELS = 16


def sorted_rows(table):
    """Hits as sorted rows; absent energies as 0; flags without those that the receiving side adds."""
    columns = [table[name].fill_null(0).to_numpy().astype(np.int64) for name in KEY]
    columns.append(table["flags"].to_numpy().astype(np.int64) & ~(EXTRA | LATE))
    rows = np.stack(columns, axis=1)
    return rows[np.lexsort(rows.T[::-1])]


@pytest.mark.parametrize("boards", [1, 3])
def test_without_loss_the_recording_is_the_truth(tmp_path, boards):
    truth = tmp_path / "truth.arrows"
    summary = thalweg("demo", "--seconds", 1.5, "--boards", boards, "--rate", 500, "--truth", truth, cwd=tmp_path)
    assert summary["hits_lost"] == 0 and summary["ledger_closed"]
    emitted, recorded = read(truth), read(tmp_path / summary["run_directory"] / "hits.arrows")
    assert emitted.num_rows == recorded.num_rows == summary["hits_sent"]
    np.testing.assert_array_equal(sorted_rows(emitted), sorted_rows(recorded))


def test_with_loss_the_recording_is_the_truth_without_what_was_lost(tmp_path):
    truth = tmp_path / "truth.arrows"
    summary = thalweg("demo", "--seconds", 1.5, "--loss", 0.02, "--seed", 5, "--truth", truth, cwd=tmp_path)
    assert summary["ledger_closed"]
    emitted, recorded = read(truth), read(tmp_path / summary["run_directory"] / "hits.arrows")
    assert emitted.num_rows == summary["hits_sent"] == recorded.num_rows + summary["hits_lost"]
    known = {row.tobytes() for row in sorted_rows(emitted)}
    assert all(row.tobytes() in known for row in sorted_rows(recorded)), "no hit is invented"


def emitted(folder, name, least):
    """What a demo of a seed has emitted, sorted: of one that had time for so many hits of every channel, however busy the machine is."""
    for seconds in [1, 4, 16, 64]:
        truth = folder / f"{name}-{seconds}.arrows"
        thalweg("demo", "--seconds", seconds, "--seed", 3, "--rate", 500, "--truth", truth, cwd=folder)
        rows = sorted_rows(read(truth))
        _, counts = np.unique(rows[:, 1], return_counts=True)
        if len(counts) == CHANNELS and counts.min() >= least:
            return rows
    raise AssertionError(f"{len(rows)} hits in {seconds} s")


def test_a_seed_gives_the_same_physics(tmp_path):
    one, two = (emitted(tmp_path, name, 20) for name in ["one", "two"])
    # Boards come to different ends: of each channel, what both runs have had time for.
    for channel in range(CHANNELS):
        of_one, of_two = (rows[rows[:, 1] == channel] for rows in (one, two))
        shorter = min(len(of_one), len(of_two)) * 9 // 10
        np.testing.assert_array_equal(of_one[:shorter], of_two[:shorter])
