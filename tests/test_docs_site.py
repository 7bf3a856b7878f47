"""The navigation of the documentation's site has every page; `make docs` builds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def _entries(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for below in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(below, list):
                yield from _entries(below)
            else:
                yield below


def test_the_navigation_has_every_page_once() -> None:
    listed: list[str] = []
    for entry in _entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]):
        if entry.endswith("/"):  # stands for the pages of a directory
            listed += [page.relative_to(DOCS).as_posix() for page in (DOCS / entry).glob("*.md")]
        else:
            listed.append(entry)

    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    beside = [page.name for page in ROOT.glob("*.md")]
    assert sorted(listed) == sorted([*pages, *beside])
