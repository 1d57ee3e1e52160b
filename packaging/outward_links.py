#!/usr/bin/env python3
"""A preprocessor of mdbook: links of pages that leave the book lead to the repository.

    standard input: [context, book] as JSON ─► relative links beyond docs/ made absolute ─► standard output: book as JSON

A page that includes ARCHITECTURE.md has links that are relative to the root; these are made relative to the page.
"""

import json
import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)((?:#[^)]*)?)\)")


def outward(page, repository):
    """The text of a page with its outward links made absolute."""
    folder = posixpath.join("docs", posixpath.dirname(page["path"]))

    def place(found):
        target = found[1]
        path = posixpath.normpath(posixpath.join(folder, target))
        if "://" in target:
            return found[0]
        if not (ROOT / path).exists() and (ROOT / target).exists():
            path = target
        if path.startswith("docs/"):
            # mdbook calls a README.md index.html, and leaves links to it alone.
            path = re.sub(r"/README\.md$", "/index.md", path)
            return f"]({posixpath.relpath(path, folder)}{found[2]})"
        return f"]({repository}/blob/main/{path}{found[2]})"

    return LINK.sub(place, page["content"])


def walk(items, repository):
    """Changes every page below a list of the book's items."""
    for item in items:
        if isinstance(item, dict) and (page := item.get("Chapter")):
            if page["path"]:
                page["content"] = outward(page, repository)
            walk(page["sub_items"], repository)


def main():
    """Answers mdbook's question whether an output is supported, or changes the book."""
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    walk(book["sections"], context["config"]["output"]["html"]["git-repository-url"])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
