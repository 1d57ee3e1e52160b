#!/usr/bin/env python3
"""Rules of the house that no compiler checks.

    sources, documents ─► findings, one a line ─► exit code 1 when there are any
"""

import re
import subprocess
import sys
from pathlib import Path

import book

ROOT = Path(__file__).resolve().parent.parent
LINES_PER_FILE = 800
LINES_PER_FUNCTION = 70
NAMELESS_ROOMS = {"util", "utils", "common", "helper", "helpers", "misc", "core"}
UNFINISHED = re.compile(r"\btodo!\(|\bunimplemented!\(|\bFIXME\b|\bTODO\b|#\[ignore\]")
ABBREVIATED = re.compile(r"\b(seqno|evtno|trigno|tstamp|nhits|nchan|nsamples|pktcnt)\b")
# Private words that the field's own have taken the place of.
RETIRED = {
    "tally": "counters", "tallies": "counters", "station": "run control", "watchman": "unattended operation",
    "roster": "source table", "tray": "fill buffer", "trays": "fill buffers", "collector": "order thread",
    "filing": "write log", "door": "unit endpoint", "stranger": "unexpected sender", "strangers": "unexpected senders",
    "books": "the ledger",
    "witnesses": "kernel drop counters",
    "witness": "kernel drop counter",
    "parking": "deferred",
    "parked": "deferred",
    "yardsticks": "baselines",
    "yardstick": "baseline",
}
RETIRED_WORD = re.compile(rf"(?<![a-z])({'|'.join(RETIRED)})(?![a-z])", re.IGNORECASE)
# Words that mean too many things in code: the verb says what is done, the noun what it is.
VAGUE = {
    "told": "reported", "tell": "report", "tells": "reports", "telling": "reporting", "heed": "follow", "tend": "serve",
    "heard": "received", "hear": "receive", "hears": "receives", "piece": "chunk", "pieces": "chunks",
}
VAGUE_WORD = re.compile(rf"(?<![a-z])({'|'.join(VAGUE)})(?![a-z])", re.IGNORECASE)
VAGUE_PLACES = tuple(
    f"crates/{name}"
    for name in (
        "analysis", "bench", "build", "data", "export", "frontend", "ipbus", "monitor",
        "order", "qualify", "readout", "record", "run", "ship", "thalweg", "transport",
    )
)
# History keeps its words.
RETIRED_PLACES = ("CHANGELOG.md", "tests/house_rules.py", "docs/decisions", "crates/data/src/ledger/vocabulary.rs")
# These panic when nobody reads any more; a run must not end for that.
PRINTS = re.compile(r"\be?print(?:ln)?!\s*\(|\bdbg!\s*\(|\bio::std(?:out|err)\(\)(?!\.is_terminal)")
TERMINAL = Path("crates/thalweg/src/terminal.rs")
# Instructions are named once, so that what is compiled is what the processor was asked for.
INSTRUCTIONS = re.compile(r"\btarget_feature\(|\bis_x86_feature_detected!")
INSTRUCTIONS_PLACE = Path("crates/data/src/simd.rs")
# Readers ask for what a stage is (`Stage::role`) or for its place in the topology. By its name it is known to itself and to who makes paths.
STAGES = re.compile(
    r"\bStage::(?:Trigger|Sender|Wire|Receive|Raw|Unpack|Decode|Order|Cut|Coincide|Spectra|TimeSlice|Build|Ship|Filter|Record)\b"
    r"|\buse\b.*\bStage::[*{]"
)
STAGES_PLACES = {
    "crates/data/src/ledger/stages.rs": "what each stage is",
    "crates/data/src/topology/legacy.rs": "the paths of files that do not say theirs",
    "crates/run/src/plan/topology": "the paths of today",
    "crates/run/src/assemble": "who makes a stage opens its account",
    "crates/run/src/bench/filter.rs": "the same, to be measured alone",
    "crates/export/src/import.rs": "who makes a recording of a file opens its ledger",
    "crates/export/src/import_tables.rs": "the same",
    "crates/record/src/advice.rs": "what to do about a loss depends on where it was counted",
    "crates/record/src/loss_row.rs": "the recording says of itself where it was cut",
    "crates/frontend/src/check": "ledgers of checks, which run without a path",
}
# What flows knows no configuration: what to do by its keys is said by whoever has them.
KEYLESS = Path("crates/data/src")
KEYS = re.compile(r"`(?:\[[a-z_.]+\] ?)?[a-z][a-z_]+(?: = [^`]*)?`|\"[^\"]*\[[a-z_.]+\] [a-z]")
# Crates whose table of contents is their layers: a module uses those above it there, and none below.
LAYERED = ("crates/run/src",)
CONTENTS_ENTRY = re.compile(r"^//! - \[?`(\w+)`", re.MULTILINE)
OF_THE_CRATE = re.compile(r"(?<![\w:])(crate|super(?:::super)*)::(\w+|\{)")
# A family of front ends is found in `FORMATS`. Outside of its folder only those know it by its name who drive its boards over its own protocol.
FAMILIES = re.compile(r"\bthalweg_frontend::(?:abcd|compass|digitizer2|example|fragment|generic|sitcp)\b")
FAMILIES_PLACES = {
    "crates/readout/src/dig2.rs": "the control protocol of x27xx boards",
    "crates/readout/src/open.rs": "opens boards by that protocol",
    "crates/readout/src/board_link.rs": "opens them again",
    "crates/readout/src/url.rs": "its port",
    "crates/readout/src/register_control.rs": "the register protocol of SiTCP boards",
    "crates/readout/src/host/triggered": "the registers of emulated ones",
    "crates/run/src/emulate/mod.rs": "`thalweg emulate` serves boards with the control protocol of x27xx boards",
    "crates/export/src/compass.rs": "writes files of CoMPASS",
    "crates/bench": "measures single families",
}
# The guide for contributors quotes code, each piece behind the paragraph that links to its file.
EXCERPTS_PAGE = Path("CONTRIBUTING.md")
MODULE = re.compile(r"^(?:pub )?mod (\w+);", re.MULTILINE)
FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([a-z]+\))? )?(?:const )?(?:unsafe )?fn (\w+)")


def tracked_files():
    """Everything under version control or about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )
    return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def function_findings(path, lines):
    """Functions longer than a thought. Relies on the formatter: a body ends at its own indentation."""
    opened = None
    for number, line in enumerate(lines, 1):
        found = FUNCTION.match(line)
        if opened is None and found and not line.rstrip().endswith((";", "}")):
            opened = (number, found[1], found[2])
        elif opened and line.rstrip() == opened[1] + "}":
            length = number - opened[0] + 1
            if length > LINES_PER_FUNCTION:
                yield f"{path}:{opened[0]}: function {opened[2]} has {length} lines, at most {LINES_PER_FUNCTION}"
            opened = None


def product_lines(path, lines):
    """Numbered lines of code that users run: no tests, no comments."""
    if path.parts[0] != "crates" or path.parts[2:3] != ("src",) or path.name == "tests.rs":
        return
    for number, line in enumerate(lines, 1):
        if line.startswith("mod tests {"):
            return
        if not line.lstrip().startswith("//"):
            yield number, line


def print_findings(path, lines):
    """Product code that writes to the terminal in another way than the one that cannot fail a run."""
    if "bench" in path.parts or path == TERMINAL:
        return
    for number, line in product_lines(path, lines):
        if PRINTS.search(line):
            yield f"{path}:{number}: write to the terminal through {TERMINAL}"


def stage_findings(path, lines):
    """Product code that knows a stage by its name and is neither that stage nor what makes paths of stages."""
    if any(path.is_relative_to(place) for place in STAGES_PLACES):
        return
    for number, line in product_lines(path, lines):
        if found := STAGES.search(line):
            yield f"{path}:{number}: `{found[0]}`: ask for the role of a stage or for its place in the topology"


def key_findings(path, lines):
    """Product code of a room without configuration that names a key of one."""
    if not path.is_relative_to(KEYLESS):
        return
    for number, line in product_lines(path, lines):
        if found := KEYS.search(line):
            yield f"{path}:{number}: {found[0]}: `data` knows no configuration; name keys in a room that has them"


def family_findings(path, lines):
    """Product code that names a family of front ends which it could find in the table."""
    if any(path.is_relative_to(place) for place in FAMILIES_PLACES):
        return
    for number, line in product_lines(path, lines):
        if found := FAMILIES.search(line):
            yield f"{path}:{number}: `{found[0]}`: ask the settings, or find the family in FORMATS"


def excerpt_findings(path, text):
    """Code in the guide for contributors that stands in no file which the paragraph before it links to."""
    before, *quoted = text.split("\n```rust\n")
    for piece in quoted:
        paragraph, (code, _, rest) = before.rstrip().rsplit("\n\n", 1)[-1], piece.partition("```")
        before = rest
        files = [target for target, _ in book.LINK.findall(paragraph) if target.endswith(".rs")]
        if not any(code in (ROOT / file).read_text() for file in files):
            yield f"{path}: no file that the paragraph before links to has these lines: {code.splitlines()[0].strip()} …"


def word_findings(path, text):
    """Words that are not used any more."""
    if any(path.is_relative_to(place) for place in RETIRED_PLACES):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if found := RETIRED_WORD.search(line):
            yield f"{path}:{number}: `{found[1]}`: write {RETIRED[found[1].lower()]}"
    if path.suffix != ".rs" or not any(path.is_relative_to(place) for place in VAGUE_PLACES):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if found := VAGUE_WORD.search(line):
            yield f"{path}:{number}: `{found[1]}`: write {VAGUE[found[1].lower()]}, or what it does or is"


def source_findings(path, text):
    """What holds for every source file."""
    lines = text.splitlines()
    if len(lines) > LINES_PER_FILE:
        yield f"{path}: {len(lines)} lines, at most {LINES_PER_FILE}"
    for number, line in enumerate(lines, 1):
        if path.name != "house_rules.py" and UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished: {line.strip()}"
        if path.name != "house_rules.py" and (found := ABBREVIATED.search(line)):
            yield f"{path}:{number}: write {found[0]} in full"
        if path.suffix == ".rs" and path != INSTRUCTIONS_PLACE and INSTRUCTIONS.search(line):
            yield f"{path}:{number}: instructions are named in {INSTRUCTIONS_PLACE} only; use `Wide` there"
    if path.suffix == ".rs":
        if "src" in path.parts and path.name != "tests.rs" and not text.startswith("//!"):
            yield f"{path}: a module opens with what it is for (//!)"
        yield from function_findings(path, lines)
        yield from print_findings(path, lines)
        yield from stage_findings(path, lines)
        yield from key_findings(path, lines)
        yield from family_findings(path, lines)
        yield from contents_findings(path, text)


def contents_findings(path, text):
    """Modules of a crate that its table of contents does not name."""
    if path.name != "lib.rs" or path.parts[0] != "crates":
        return
    contents = "".join(line for line in text.splitlines(keepends=True) if line.startswith("//!"))
    for name in MODULE.findall(text):
        if not re.search(rf"^//! - (?:\[`{name}`\](?:\(\S+\))?|`{name}`): ", contents, re.MULTILINE):
            yield f"{path}: the opening documentation has a line for every module: `- [`{name}`]: what it is for`"


def layer_findings(folder):
    """Modules that use one which stands below them in the table of contents of their crate."""
    layers = CONTENTS_ENTRY.findall((ROOT / folder / "lib.rs").read_text())
    for file in sorted((ROOT / folder).rglob("*.rs")):
        path = file.relative_to(ROOT / folder)
        own = path.with_suffix("").parts
        if own[-1] == "mod":
            own = own[:-1]
        if own[0] not in layers:
            continue
        for number, line in product_lines(file.relative_to(ROOT), file.read_text().splitlines()):
            for start, name in OF_THE_CRATE.findall(line):
                if start != "crate" and start.count("super") < len(own):
                    continue
                place = f"{folder}/{path}:{number}"
                if name not in layers:
                    yield f"{place}: `{start}::{name}`: name the module, as the table of contents in lib.rs does"
                elif layers.index(name) > layers.index(own[0]):
                    yield f"{place}: `{own[0]}` uses `{name}`, which stands below it in the layers of {folder}/lib.rs"


def findings():
    """All findings of the tree."""
    for file in tracked_files():
        path = file.relative_to(ROOT)
        if path.stem in NAMELESS_ROOMS or NAMELESS_ROOMS & set(path.parts[:-1]):
            yield f"{path}: a room needs a noun"
        if path.suffix in {".rs", ".py", ".md"}:
            yield from word_findings(path, file.read_text())
        if path.suffix in {".rs", ".py"}:
            yield from source_findings(path, file.read_text())
        elif path.suffix == ".md" and path.parts[0] != "docs":
            yield from book.link_findings(file)
        if path == EXCERPTS_PAGE:
            yield from excerpt_findings(path, file.read_text())
    for folder in LAYERED:
        yield from layer_findings(folder)
    yield from book.findings()


def main():
    """Prints the findings."""
    found = list(findings())
    print("\n".join(found) if found else "house rules: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
