#!/usr/bin/env python3
"""Writes the tables of docs/PERFORMANCE.md, docs/capabilities.md and README.md from what `make bench` has written, so that nobody copies a figure.

    performance_table.py DIRECTORY

    DIRECTORY/NAME.json ─┬► docs/PERFORMANCE.md: one row each, in the order in which they were measured, and a table of its
                         │  own for each bench at several sizes, and for the stages of `process`
                         ├► docs/capabilities.md: the rows of CAPABILITIES_ROWS
                         └► README.md: those of them in README_ROWS
"""

import json
import re
import sys
from pathlib import Path

CLOCKS = {"wall": "wall clock", "processor": "processor time"}
ROOT = Path(__file__).resolve().parent.parent
CAPABILITIES_ROWS = [
    ("UDP receive, 8972-byte datagrams", "receive-udp"),
    ("the same, 1024-byte datagrams", "receive-udp-1024"),
    ("TCP receive", "receive-tcp"),
    ("decode 16-byte hits", "decode"),
    ("decode hits with waveforms", "decode-waveforms"),
    ("time order, 8 boards, uniform", "order"),
    ("the same, bursty", "order-bursty"),
    ("the same, 1:100 with disorder and an idle board", "order-unequal"),
    ("record hits, uncompressed", "record"),
    ("memory → decode → order → file", "path"),
    ("memory → decode → order → cuts → coincidence → spectra → file, 512 channels (goal 40 M)", "process"),
    ("one board at its limit over loopback UDP, decoded and ordered", "live"),
    ("the same, every hit recorded in memory", "live-record"),
    ("half of that, with coincidence and all spectra of 64 channels", "live-process"),
    ("receive and build events of 2 to 512 boards over TCP, the slowest point", "build"),
    ("record events of 105 × 380 B", "record-events"),
]
README_ROWS = [row for row in CAPABILITIES_ROWS if row[1] in {"receive-udp", "live"}]
# What a point of a bench at several sizes is reported by: lines of the table, then its columns.
AXES = [("links", "fragment_bytes"), ("line", "fragment_bytes"), ("units", "fragment_bytes"), ("fragments", "offered_hz"),
        ("nodes", "message_bytes"), ("arrival", "sources"), ("line", "boards"), ("line", "words"), ("line", "clients"),
        ("connection", "streams"), ("compression", "compression_workers"),
        ("stage", "content"), ("line", "record_samples"), ("line", "channels"), ("line", "datagram_bytes"),
        ("workers", "boards")]


def short(value):
    """Three digits and an SI prefix."""
    for scale, prefix in [(1e9, "G"), (1e6, "M"), (1e3, "k")]:
        if value >= scale:
            return f"{value / scale:.3g} {prefix} "
    return f"{value:.3g} "


def spread(ratio, between):
    """A ratio, with the lowest and the highest of its pairs where there were any."""
    return f"{ratio:.2f}" + (f" ({between[0]:.2f} to {between[1]:.2f})" if between else "")


def row(name, measured):
    """One bench as a row."""
    subject, baseline = (short(measured[key]) + measured["unit"] for key in ("value", "baseline_value"))
    of = measured["baseline"]
    files = measured["parameters"].get("directory", "none")
    return (
        f"| `{name}` | {subject} | {spread(measured['ratio'], measured['ratio_range'])} | {of}: {baseline} "
        f"| {CLOCKS[measured['clock']]} | {files} | {measured['cores']} | {measured['repeats']} |"
    )


def sweep(name, measured):
    """The points of one bench at several sizes: figure, and ratio with its spread."""
    points = measured["parameters"]["sweep"]
    changing = [key for key in points[0]["parameters"]
                if len({str(point["parameters"].get(key)) for point in points}) > 1]
    lines, columns = next((axes for axes in AXES if set(axes) <= set(changing)), (None, changing[0]))

    def at(point, key):
        return point["parameters"].get(key, "") if key else ""

    def cell(line, size):
        found = [point for point in points if (at(point, lines), at(point, columns)) == (line, size)]
        return f"{short(found[0]['value'])}{found[0]['unit']}, {spread(found[0]['ratio'], found[0].get('ratio_range'))}" if found else ""

    names = list(dict.fromkeys(at(point, lines) for point in points))
    sizes = list(dict.fromkeys(at(point, columns) for point in points))
    yield f"\n**`{name}`**, {measured['repeats']} repeats, {CLOCKS[measured['clock']]}, against: {measured['baseline']}\n"
    words = [f"{lines} {name}" if isinstance(name, (int, float)) else str(name) for name in names]
    yield f"| {columns.replace('_', ' ')} | " + " | ".join(words) + " |"
    yield "|" + "---|" * (len(names) + 1)
    for size in sizes:
        yield f"| {size} | " + " | ".join(cell(line, size) for line in names) + " |"


def stages(measured):
    """What each stage of `process` adds."""
    parameters = measured["parameters"]
    yield f"\n**`process`** by stage, {measured['repeats']} repeats, {CLOCKS[measured['clock']]}\n"
    yield "| all stages up to | hits/s | ns per hit for the stage |\n|---|---|---|"
    before_ns = 0.0
    for stage, rate in sorted(parameters["up_to_stage"].items(), key=lambda each: -each[1]):
        ns = 1e9 / rate
        yield f"| {stage} | {short(rate)}| {ns - before_ns:.1f} |"
        before_ns = ns
    ratio = spread(parameters["two_cores_to_one"], parameters.get("two_cores_to_one_range"))
    yield f"\nOn two cores, wall clock: {short(parameters['two_cores'])}hits/s, {ratio} of one."


def performance(measured):
    """The tables of docs/PERFORMANCE.md."""
    yield "| bench | figure | ratio (lowest to highest) | baseline | clock | files in | cores | repeats |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, figures in measured.items():
        yield row(name, figures)
    for name, figures in measured.items():
        if "sweep" in figures["parameters"]:
            yield from sweep(name, figures)
        if "up_to_stage" in figures["parameters"]:
            yield from stages(figures)


def chosen(measured, rows):
    """A table of some benches, each by its words."""
    yield "| what | figure | ratio (lowest to highest) | to | cores |"
    yield "|---|---|---|---|---|"
    for words, name in rows:
        if name in measured:
            figures = measured[name]
            figure = f"{short(figures['value'])}{figures['unit']}, {CLOCKS[figures['clock']]}"
            ratio = spread(figures["ratio"], figures["ratio_range"])
            yield f"| {words} | {figure} | {ratio} | {figures['baseline']} | {figures['cores']} |"


def write(file, lines):
    """Replaces what stands between the marks of a document."""
    text = file.read_text()
    between = re.compile(r"(<!-- figures -->\n).*(<!-- end of figures -->)", re.DOTALL)
    if not between.search(text):
        sys.exit(f"{file}: no `<!-- figures -->` and `<!-- end of figures -->` to write between")
    table = "\n".join(lines) + "\n"
    file.write_text(between.sub(lambda found: found[1] + table + found[2], text))


def main():
    """Reads a directory, oldest file first, which is the order in which they were measured, and writes the documents."""
    files = sorted(Path(sys.argv[1]).glob("*.json"), key=lambda file: file.stat().st_mtime)
    if not files:
        sys.exit(f"{sys.argv[1]}: no figures; `make bench` writes them")
    measured = {file.stem: json.loads(file.read_text()) for file in files}
    write(ROOT / "docs/PERFORMANCE.md", performance(measured))
    write(ROOT / "docs/capabilities.md", chosen(measured, CAPABILITIES_ROWS))
    write(ROOT / "README.md", chosen(measured, README_ROWS))


if __name__ == "__main__":
    main()
