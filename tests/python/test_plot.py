"""The picture of a run is well-formed, says the right numbers, and its map is a valid image."""

import base64
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib

from conftest import BINARY, BOARDS, record

SVG = "{http://www.w3.org/2000/svg}"


def image_rows(address):
    """Rows of palette indices of the PNG in a data: address; every check sum is checked."""
    png = base64.b64decode(address.removeprefix("data:image/png;base64,"), validate=True)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", png[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + content)
        chunks[kind] = content
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == height * (width + 1)
    return [rows[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(height)]


def test_the_plot_of_two_boards(tmp_path):
    recording = record(BOARDS.format(compression="none", hits=60_000), tmp_path)
    subprocess.run([BINARY, "plot", recording.directory, "--output", "plot.svg"], cwd=tmp_path, check=True)
    page = ElementTree.parse(tmp_path / "plot.svg").getroot()
    assert page.tag == f"{SVG}svg"
    words = " ".join(text.text or "" for text in page.iter(f"{SVG}text"))
    recorded = f"{recording.summary['hits_recorded']:,}".replace(",", "\u202f")
    assert f"{recorded} hits recorded" in words and "no hits lost" in words
    for expected in ["energy (ADC channels)", "hits/s", "the ledger balances", "Pulse shape against energy"]:
        assert expected in words
    outlines = [path.get("d") for path in page.iter(f"{SVG}path")]
    assert len(outlines) >= 4 and not any("NaN" in outline or "inf" in outline for outline in outlines)
    (address,) = [image.get("href") for image in page.iter(f"{SVG}image")]
    assert any(any(row) for row in image_rows(address)), "the map is not empty"
