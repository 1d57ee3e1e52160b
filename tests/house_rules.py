#!/usr/bin/env python3
"""Rules of the house that no compiler checks.

    sources, documents ─► findings, one a line ─► exit code 1 when there are any
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES_PER_FILE = 800
LINES_PER_FUNCTION = 70
NAMELESS_ROOMS = {"util", "utils", "common", "helper", "helpers", "misc", "core"}
UNFINISHED = re.compile(r"\btodo!\(|\bunimplemented!\(|\bFIXME\b|\bTODO\b|#\[ignore\]")
ABBREVIATED = re.compile(r"\b(seqno|evtno|trigno|tstamp|nhits|nchan|nsamples|pktcnt)\b")
# These panic when nobody reads any more; a run must not end for that.
PRINTS = re.compile(r"\be?print(?:ln)?!\s*\(|\bdbg!\s*\(|\bio::std(?:out|err)\(\)(?!\.is_terminal)")
TERMINAL = Path("crates/thalweg/src/terminal.rs")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# Instructions are named once, so that what is compiled is what the processor was asked for.
INSTRUCTIONS = re.compile(r"\btarget_feature\(|\bis_x86_feature_detected!")
INSTRUCTIONS_PLACE = Path("crates/data/src/wide.rs")
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


def print_findings(path, lines):
    """Product code that writes to the terminal in another way than the one that cannot fail a run."""
    is_product = path.parts[0] == "crates" and path.parts[2:3] == ("src",) and "bench" not in path.parts
    if not is_product or path.name == "tests.rs" or path == TERMINAL:
        return
    for number, line in enumerate(lines, 1):
        if line.startswith("mod tests {"):
            return
        if PRINTS.search(line) and not line.lstrip().startswith("//"):
            yield f"{path}:{number}: write to the terminal through {TERMINAL}"


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


def link_findings(path, text):
    """Links of documents to files that are not there."""
    for target in LINK.findall(text):
        if "://" not in target and not (ROOT / path.parent / target).exists():
            yield f"{path}: link to {target}, which is not there"


def findings():
    """All findings of the tree."""
    for file in tracked_files():
        path = file.relative_to(ROOT)
        if path.stem in NAMELESS_ROOMS or NAMELESS_ROOMS & set(path.parts[:-1]):
            yield f"{path}: a room needs a noun"
        if path.suffix in {".rs", ".py"}:
            yield from source_findings(path, file.read_text())
        elif path.suffix == ".md":
            yield from link_findings(path, file.read_text())


def main():
    """Prints the findings."""
    found = list(findings())
    print("\n".join(found) if found else "house rules: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
