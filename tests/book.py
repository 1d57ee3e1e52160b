#!/usr/bin/env python3
"""What must hold for the book in docs/, checked without mdbook.

    docs/SUMMARY.md, pages, sources ─► findings, one a line ─► exit code 1 when there are any

Every page is in SUMMARY.md once, every link of a page leads to a file and a heading that exist, and every message that the
page on troubleshooting quotes stands in the sources.
"""

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# A message in the page on troubleshooting: a heading that is nothing but code. `…` stands for what the program fills in.
MESSAGE = re.compile(r"^### `` ?(.+?) ?``$|^### `([^`]+)`$", re.MULTILINE)
MESSAGES_PAGE = Path("docs/operation/troubleshooting.md")
PLACEHOLDER = re.compile(r"\{[^{}\"]*\}")


@cache
def headings(page):
    """The anchors of a page, as mdbook and the forges make them from headings."""
    anchors = set()
    for line in FENCED.sub("", page.read_text()).splitlines():
        if found := re.match(r"#{1,6} (.+)", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", found[1]).strip().lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = 0
            while (numbered := f"{anchor}-{count}" if count else anchor) in anchors:
                count += 1
            anchors.add(numbered)
    return anchors


def link_findings(page):
    """Links of a page that lead nowhere."""
    for target, anchor in LINK.findall(FENCED.sub("", page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)}: link to {target}, which does not exist"
        elif anchor and file.suffix == ".md" and anchor not in headings(file):
            yield f"{page.relative_to(ROOT)}: link to {target}#{anchor}, and no such heading exists there"


def summary_findings(pages):
    """Pages that SUMMARY.md does not name, or names more than once."""
    summary = ROOT / "docs/SUMMARY.md"
    named = [(summary.parent / target).resolve() for target, _ in LINK.findall(summary.read_text())]
    for page in pages:
        if page != summary and named.count(page) != 1:
            yield f"{page.relative_to(ROOT)}: docs/SUMMARY.md names it {named.count(page)} times, and once is right"


def program_texts():
    """The sources as the compiler sees their texts: continued lines joined, and `…` where the program fills something in."""
    for source in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        text = re.sub(r"\\\n\s*", "", source.read_text()).replace('\\"', '"').replace("{{", "").replace("}}", "")
        yield PLACEHOLDER.sub("…", text)


def message_findings():
    """Messages that the page on troubleshooting quotes and no source has."""
    texts = "\n".join(program_texts())
    page = (ROOT / MESSAGES_PAGE).read_text()
    messages = ["".join(found) for found in MESSAGE.findall(page)]
    if not messages:
        yield f"{MESSAGES_PAGE}: quotes no message"
    for heading in re.findall(r"^### (.+)$", page, re.MULTILINE):
        if not heading.startswith("`"):
            yield f"{MESSAGES_PAGE}: `### {heading}` is no message between backticks"
    for message in messages:
        if message not in texts:
            yield f"{MESSAGES_PAGE}: no source has the message `{message}`"


def findings():
    """All findings of the book."""
    pages = sorted((ROOT / "docs").glob("**/*.md"))
    yield from summary_findings(pages)
    for page in pages:
        yield from link_findings(page)
    yield from message_findings()


if __name__ == "__main__":
    found = list(findings())
    print("\n".join(found) if found else "book: whole")
    sys.exit(1 if found else 0)
