#!/usr/bin/env python3
"""The tables of docs/PERFORMANCE.md from what `make bench` has written.

    target/bench/NAME.json ─► one row of the first table each, in the order in which they were measured
                          └► a table of its own for each bench at several sizes, and for the stages of `process`
"""

import json
import sys
from pathlib import Path

CLOCKS = {"wall": "wall clock", "processor": "processor time"}
# What a point of a bench at several sizes is told by: lines of the table, then its columns.
AXES = [("links", "fragment_bytes"), ("line", "fragment_bytes"), ("units", "fragment_bytes"), ("fragments", "offered_hz"),
        ("processes", "message_bytes"), ("sources", "pattern")]


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
    subject, baseline = (short(measured[key]) + measured["unit"] for key in ("value", "yardstick_value"))
    of = measured["yardstick"]
    files = measured["parameters"].get("directory", "none")
    return (
        f"| `{name}` | {subject} | {spread(measured['ratio'], measured['ratio_range'])} | {of}: {baseline} "
        f"| {CLOCKS[measured['clock']]} | {files} | {measured['cores']} | {measured['repeats']} |"
    )


def sweep(name, measured):
    """The points of one bench at several sizes: its figure and, below it, the ratio."""
    points = measured["parameters"]["sweep"]
    changing = [key for key in points[0]["parameters"]
                if len({str(point["parameters"].get(key)) for point in points}) > 1]
    lines, columns = next((axes for axes in AXES if axes[1] in changing), (None, changing[0]))
    told = lambda point, key: point["parameters"].get(key, "") if key else ""
    names = list(dict.fromkeys(told(point, lines) for point in points))
    sizes = list(dict.fromkeys(told(point, columns) for point in points))
    clock = CLOCKS[measured["clock"]]
    print(f"\n**`{name}`**, {measured['repeats']} repeats, {clock}, divided by: {measured['yardstick']}\n")
    print(f"| {lines or ''} | " + " | ".join(f"{columns.replace('_', ' ')} {size:g}" if isinstance(size, (int, float))
                                              else str(size) for size in sizes) + " |")
    print("|" + "---|" * (len(sizes) + 1))
    for line in names:
        cells = []
        for size in sizes:
            at = [point for point in points if told(point, lines) == line and told(point, columns) == size]
            cells += [f"{short(at[0]['value'])}{at[0]['unit']}, {spread(at[0]['ratio'], at[0].get('ratio_range'))}"] if at else [""]
        print(f"| {line} | " + " | ".join(cells) + " |")


def stages(measured):
    """What each stage of `process` adds."""
    parameters = measured["parameters"]
    print(f"\n**`process`** by stage, {measured['repeats']} repeats, {CLOCKS[measured['clock']]}\n")
    print("| all stages up to | hits/s | ns per hit for the stage |\n|---|---|---|")
    before_ns = 0.0
    for stage, rate in sorted(parameters["up_to_stage"].items(), key=lambda each: -each[1]):
        ns = 1e9 / rate
        print(f"| {stage} | {short(rate)}| {ns - before_ns:.1f} |")
        before_ns = ns
    ratio = spread(parameters["two_cores_to_one"], parameters.get("two_cores_to_one_range"))
    print(f"\nOn two cores, wall clock: {short(parameters['two_cores'])}hits/s, {ratio} of one.")


def main():
    """Prints the tables of a directory, oldest file first: the order in which they were measured."""
    files = sorted(Path(sys.argv[1]).glob("*.json"), key=lambda file: file.stat().st_mtime)
    measured = {file.stem: json.loads(file.read_text()) for file in files}
    print("| bench | figure | ratio (lowest to highest) | baseline | clock | files in | cores | repeats |")
    print("|---|---|---|---|---|---|---|---|")
    for name, figures in measured.items():
        print(row(name, figures))
    for name, figures in measured.items():
        if "sweep" in figures["parameters"]:
            sweep(name, figures)
        if "up_to_stage" in figures["parameters"]:
            stages(figures)


if __name__ == "__main__":
    main()
