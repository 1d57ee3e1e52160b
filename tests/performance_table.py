#!/usr/bin/env python3
"""The rows of docs/PERFORMANCE.md from what `make bench` has written.

    target/bench/NAME.json ─► one Markdown row each, in path order
"""

import json
import sys
from pathlib import Path


def short(value):
    """Three digits and an SI prefix."""
    for scale, prefix in [(1e9, "G"), (1e6, "M"), (1e3, "k")]:
        if value >= scale:
            return f"{value / scale:.3g} {prefix} "
    return f"{value:.3g} "


def row(name, measured):
    """One bench as a row."""
    subject, yardstick = (short(measured[key]) + measured["unit"] for key in ("value", "yardstick_value"))
    of = measured["yardstick"]
    spread = measured["ratio_range"]
    ratio = f"{measured['ratio']:.2f}" + (f" ({spread[0]:.2f} to {spread[1]:.2f})" if spread else "")
    clock = {"wall": "wall clock", "processor": "processor time"}[measured["clock"]]
    files = measured["parameters"].get("directory", "none")
    return (
        f"| `{name}` | {subject} | {ratio} | {of}: {yardstick} | {clock} | {files} | {measured['cores']} "
        f"| {measured['repeats']} |"
    )


def main():
    """Prints the table of a directory, oldest file first: the order in which they were measured."""
    files = sorted(Path(sys.argv[1]).glob("*.json"), key=lambda file: file.stat().st_mtime)
    print("| bench | figure | ratio (lowest to highest) | baseline | clock | files in | cores | repeats |")
    print("|---|---|---|---|---|---|---|---|")
    for file in files:
        print(row(file.stem, json.loads(file.read_text())))


if __name__ == "__main__":
    main()
