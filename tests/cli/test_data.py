"""The verbs that look into a table, and go back in its history."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tiltyard as package
from tests.cli.conftest import Tiltyard


@pytest.fixture
def words(tiltyard: Tiltyard) -> Tiltyard:
    """A table with a full-text index, an older version, and a branch."""
    from tests.behaviours.calls import create
    from tests.behaviours.data import POINTS, branch, delete, index

    catalog = package.connect("lake")
    create(catalog, "points", data=POINTS)
    index(catalog, "text", "FTS")
    delete(catalog, "id = 4")
    branch(catalog, "side", from_version=1)
    return tiltyard


def _json(tiltyard: Tiltyard, *arguments: str) -> Any:
    ran = tiltyard("-o", "json", "table", *arguments)
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def test_rows_are_queried(words: Tiltyard) -> None:
    found = _json(words, "query", "points", "--where", "id > 1", "--columns", "id,text", "-n", "1")
    assert found == [{"id": 2, "text": "a blue bird"}]
    assert [row["id"] for row in _json(words, "query", "points", "--search", "fox")] == [1]
    older = _json(words, "query", "points", "--version", "1", "--where", "id = 4")
    assert len(older) == 1
    assert len(_json(words, "query", "points", "--branch", "side")) == 4


def test_a_wrong_query_says_what_is_wrong(words: Tiltyard) -> None:
    assert words("table", "query", "points", "--where", "id >").status == 2
    missing = words("table", "query", "points", "--where", "idd = 1")
    assert (missing.status, "No field named" in missing.err) == (4, True)


def test_indexes_are_listed(words: Tiltyard) -> None:
    (found,) = _json(words, "indexes", "points")
    assert (found["index"], found["type"], found["columns"]) == ("text_idx", "Inverted", ["text"])


def test_a_version_is_tagged_found_and_restored(words: Tiltyard) -> None:
    assert _json(words, "tag", "points", "now")["version"] == 3, "the latest"
    assert words("table", "tag", "points", "now", "1").status == 5
    assert words("table", "tag", "points", "now", "1", "--move").status == 0
    assert _json(words, "tags", "points") == [{"tag": "now", "version": 1, "branch": None}]
    assert words("table", "restore", "points", "1").status == 0
    assert _json(words, "count", "points")[0]["rows"] == 4
    assert words("table", "untag", "points", "now").status == 0
    assert words("table", "untag", "points", "now").status == 4
    assert words("table", "restore", "points", "9").status == 4


def test_branches_are_listed(words: Tiltyard) -> None:
    (found,) = _json(words, "branches", "points")
    assert (found["branch"], found["from_version"], found["from_branch"]) == ("side", 1, None)
