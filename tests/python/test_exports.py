"""Spectra as UHI JSON, from the page's interface and from a run's directory, read by boost-histogram.

    thalweg serve ─► stop ─┬─► /api/spectra, /api/spectra/counts ───────────────┐
                           ├─► /api/spectra/ID/export?format=uhi ─► from_uhi ─► the same
                           └─► runs/…/spectra.json ─► from_uhi ─────────────────┘
"""

import json
import re
import shutil
import signal
import struct
import subprocess
import time
import urllib.request

import numpy as np
import pytest
from boost_histogram.serialization import from_uhi
from conftest import BINARY, ROOT

# The calibration puts counts below and above the axis of keV.
MORE = """
[[channel]]
number = 0
energy_kev = [-40.0, 0.1]

[spectra]
highest_kev = 512.0
energy_bins = 1024
plane_bins = [64, 32]
"""
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A server whose run has ended, so that counts stay: its address and the directory of its runs."""
    folder = tmp_path_factory.mktemp("exports")
    file = folder / "experiment.toml"
    shutil.copy(ROOT / "tests/web/hits.toml", file)
    file.write_text(file.read_text() + MORE)
    command = [BINARY, "serve", file, "--listen", "127.0.0.1:0", "--start"]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
    try:
        address = wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), process, log).group()
        wait_for(lambda: is_filled(address), process, log)
        post(f"{address}/api/run/stop")
        wait_for(lambda: get(f"{address}/api/state")["state"] == "stopped", process, log)
        yield address, folder / "runs"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def wait_for(look, process, log):
    """What `look` gives as soon as it gives something."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    return found


def is_filled(address):
    """Whether there are counts beside the axis, too."""
    of_channel = [spectrum for spectrum in get(f"{address}/api/spectra") if spectrum["channel"] == 0]
    filled = [spectrum for spectrum in of_channel if spectrum["at"] == "received"]
    return len(filled) > 0 and all(spectrum["entries"] > 2000 for spectrum in filled)


def get_bytes(url):
    with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as answer:
        return answer.read()


def get(url):
    return json.loads(get_bytes(url))


def post(url):
    headers = {"content-type": "application/json", "x-thalweg": "1"}
    with urllib.request.urlopen(urllib.request.Request(url, b"{}", headers), timeout=WAIT_SECONDS) as answer:
        return json.loads(answer.read())


def counts_of(address, spectrum):
    """The counts as the page takes them; LEB128 numbers, where a zero is followed by the length of its run."""
    answer = get_bytes(f"{address}/api/spectra/counts?ids={spectrum['id']}")
    number, _, entries, bins, size = struct.unpack_from("<IQQII", answer)
    assert (number, entries, size) == (spectrum["id"], spectrum["entries"], len(answer) - 28)
    numbers, value, shift = [], 0, 0
    for byte in answer[28:]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value, shift = 0, 0
    counts, numbers = [], iter(numbers)
    for number in numbers:
        counts.extend([0] * next(numbers) if number == 0 else [number])
    assert len(counts) == bins
    # The first axis runs fastest.
    return np.array(counts).reshape([axis["bins"] for axis in reversed(spectrum["axes"])]).T


def compare(histogram, spectrum, counts):
    """Axes and contents of what was loaded with what the page shows."""
    assert len(histogram.axes) == len(spectrum["axes"])
    for loaded, told in zip(histogram.axes, spectrum["axes"], strict=True):
        assert (loaded.size, loaded.edges[0], loaded.edges[-1]) == (told["bins"], told["low"], told["high"])
    assert np.array_equal(histogram.values(), counts)


def test_every_spectrum_loads_with_its_axes_and_contents(stopped):
    address, _ = stopped
    spectra = [spectrum for spectrum in get(f"{address}/api/spectra") if spectrum["channel"] in (0, 9)]
    assert {spectrum["what"] for spectrum in spectra} >= {"energy", "kev", "plane"}
    # Of the uncalibrated channel there is none in keV.
    assert [spectrum["channel"] for spectrum in spectra if spectrum["what"] == "kev" and spectrum["at"] == "received"] == [0]
    for spectrum in spectra:
        text = get(f"{address}/api/spectra/{spectrum['id']}/export?format=uhi")
        compare(from_uhi(text), spectrum, counts_of(address, spectrum))
        assert text["metadata"]["entries"] == spectrum["entries"]


def test_what_lies_beside_an_axis_is_in_the_flow_bins(stopped):
    address, _ = stopped
    spectra = get(f"{address}/api/spectra")
    kev = next(each for each in spectra if each["what"] == "kev" and each["at"] == "received")
    energy = next(
        each for each in spectra if each["what"] == "energy" and each["at"] == "received" and each["channel"] == 0
    )
    text = get(f"{address}/api/spectra/{kev['id']}/export?format=uhi")
    histogram = from_uhi(text)
    flow = histogram.values(flow=True)
    assert flow[0] == text["metadata"]["below"] > 0 and flow[-1] == text["metadata"]["above"] > 0
    assert histogram.sum(flow=True) == kev["entries"] == energy["entries"]
    # -40 keV + 0.1 keV per channel: below 0 keV is below channel 400, at or above 512 keV is from channel 5520 on.
    raw = from_uhi(get(f"{address}/api/spectra/{energy['id']}/export?format=uhi"))
    bins = 65536 // 1024
    assert raw.values()[: 400 // bins].sum() <= flow[0] <= raw.values()[: 400 // bins + 1].sum()
    assert raw.values()[5520 // bins + 1 :].sum() <= flow[-1] <= raw.values()[5520 // bins :].sum()


def test_what_was_saved_with_the_run_is_what_was_shown(stopped):
    address, runs = stopped
    (file,) = runs.glob("*/spectra.json")
    saved = json.loads(file.read_text())
    for spectrum in get(f"{address}/api/spectra"):
        if spectrum["entries"] > 0:
            text = saved[f"{spectrum['name']} ({spectrum['at']})"]
            # The schema of UHI allows nothing else in metadata.
            assert all(isinstance(value, str | int | float) for value in text["metadata"].values())
            qualities = [text["metadata"][f"{number}_quality"] for number in ("live_time", "loss_corrected", "rate_hz")]
            assert set(qualities) <= {"exact", "at_least", "unknown"}
            histogram = from_uhi(text)
            compare(histogram, spectrum, counts_of(address, spectrum))
