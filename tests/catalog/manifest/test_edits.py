"""Edits are values: what JSON or pickle brings back is the same edit, and has the same effect."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from tiltyard.catalog.base import CreateMode, DropBehaviour, DropTerms
from tiltyard.catalog.manifest import edits
from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.catalog.manifest.edits import Edit, edit_from_json
from tiltyard.catalog.manifest.rows import (
    BOUNDARY,
    CREATED_AT,
    HIDDEN_AT,
    MANAGED,
    MOVED,
    NAMESPACE,
    TABLE,
    VERSIONS,
    Row,
    RowIdentity,
)
from tiltyard.catalog.manifest.snapshot import EMPTY
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import TiltyardError, UnsupportedOperationError

LIVE, LOCATION = ("lake", "live"), "00000001_lake$live"
MANAGED_TABLE, MANAGED_LOCATION = ("lake", "managed"), "00000002_lake$managed"
DROPPED, GENERATION = ("lake", "dropped"), "0" * 16
MOVED_ROW = RowIdentity("moved", "people.lance", "abcdef")
TERMS = DropTerms(ttl_ms=1_000, by="somebody", reason="it is old")


def _file(number: int) -> VersionFile:
    return VersionFile(number, f"{MANAGED_LOCATION}/_versions/{number}.manifest", 10, 20, "tag")


def _new(name: str, location: str) -> Row:
    return Row(name, TABLE, location, {"owner": "someone"}, {"base_objects": ["x"]})


# One of every kind, each of which changes the draft below.
EXAMPLES: list[Edit] = [
    edits.CreateNamespace(("new",), CreateMode.EXIST_OK, 7, {"owner": "someone"}),
    edits.DropNamespace(("empty",), DropBehaviour.RESTRICT),
    edits.AddTable(_new("new", "00000009_new"), (_file(1), _file(2))),
    edits.IndexTable(_new("new", "new.lance"), keep=True),
    edits.ReplaceTable(_new("lake$live", "00000009_lake$live")),
    edits.RemoveTable(LIVE, LOCATION),
    edits.RenameTable(MANAGED_TABLE, ("other",), MANAGED_LOCATION),
    edits.RemoveIndex(("indexed",), "indexed.lance"),
    edits.RemoveStaleRow(MOVED_ROW),
    edits.ClearRename(MOVED_ROW),
    edits.IfSameRow(MOVED_ROW, edits.ProtectTable(("moved",), True)),
    edits.AllOf((edits.RemoveTable(LIVE, LOCATION), edits.RemoveStaleRow(MOVED_ROW))),
    edits.DropTable(LIVE, LOCATION, "1" * 16, TERMS, 3, 99),
    edits.AdoptTable(("found",), "00000009_found", "1" * 16, DropTerms(None, "me"), 3, 99),
    edits.UndropTable(DROPPED, GENERATION, ("lake", "back")),
    edits.HoldTable(DROPPED, GENERATION, True),
    edits.ProtectTable(LIVE, True),
    edits.ClaimPurge(DROPPED, GENERATION),
    edits.FinishPurge(DROPPED, GENERATION),
    edits.AddVersion(MANAGED_TABLE, MANAGED_LOCATION, _file(4), 3, "uuid", "staged", 2),
    edits.RaiseBoundary(MANAGED_TABLE, MANAGED_LOCATION, 2),
    edits.RemoveVersions(
        MANAGED_TABLE, MANAGED_LOCATION, {1: Row.of_version("t", _file(1)).metadata}
    ),
    edits.ConfirmVersion(MANAGED_TABLE, MANAGED_LOCATION, 1, "nonce"),
    edits.HideVersion(MANAGED_TABLE, 2, 99, "it is wrong"),
    edits.ShowVersion(MANAGED_TABLE, 3),
    edits.StartManaging(LIVE, LOCATION),
    edits.FinishManaging(("lake", "starting"), "00000003_lake$starting", (_file(1),), 1),
    edits.AdoptVersions(MANAGED_TABLE, MANAGED_LOCATION, 3, (_file(4), _file(5)), 99),
]


def _draft() -> Draft:
    """Something for every edit to change."""
    draft = Draft(EMPTY)
    managed = {VERSIONS: MANAGED, BOUNDARY: "1"}
    rows = [
        Row("lake", NAMESPACE, None, {CREATED_AT: "1"}),
        Row("empty", NAMESPACE),
        Row("lake$live", TABLE, LOCATION),
        Row("lake$managed", TABLE, MANAGED_LOCATION, managed),
        Row("lake$starting", TABLE, "00000003_lake$starting"),
        Row("lake$dropped", TABLE, "00000004_lake$dropped"),
        Row("indexed", TABLE, "indexed.lance"),
        Row("moved", TABLE, "people.lance", {MOVED: "abcdef"}),
        *(Row.of_version("lake$managed", _file(number)) for number in (1, 2)),
        Row.of_version("lake$managed", _file(3), **{HIDDEN_AT: "5"}),
    ]
    draft.apply(Change(add=tuple(rows)))
    earlier = [
        edits.StartManaging(("lake", "starting"), "00000003_lake$starting"),
        edits.DropTable(DROPPED, "00000004_lake$dropped", GENERATION, TERMS, 1, 5),
    ]
    for edit in earlier:
        draft.apply(edit.apply(draft))
    return draft


def _kind(edit: Edit) -> str:
    return edit.kind


def test_every_kind_of_edit_has_an_example() -> None:
    assert sorted(map(_kind, EXAMPLES)) == sorted(edits.KINDS)


@pytest.mark.parametrize("edit", EXAMPLES, ids=_kind)
def test_an_edit_changes_something_and_the_same_each_time(edit: Edit) -> None:
    change = edit.apply(_draft())

    assert not change.is_empty
    assert edit.apply(_draft()) == change


@pytest.mark.parametrize("edit", EXAMPLES, ids=_kind)
@pytest.mark.parametrize("form", ["json", "pickle"])
def test_an_edit_that_was_sent_is_the_same_and_does_the_same(edit: Edit, form: str) -> None:
    sent: Any
    if form == "json":
        sent = edit_from_json(json.loads(json.dumps(edit.to_json())))
    else:
        sent = pickle.loads(pickle.dumps(edit))

    assert sent == edit
    assert sent.to_json() == edit.to_json()
    assert _outcome(sent) == _outcome(edit)


@pytest.mark.parametrize("edit", EXAMPLES, ids=_kind)
def test_a_refusal_is_the_same_too(edit: Edit) -> None:
    sent = edit_from_json(json.loads(json.dumps(edit.to_json())))

    assert _outcome(sent, Draft(EMPTY)) == _outcome(edit, Draft(EMPTY))


def _outcome(edit: Edit, draft: Draft | None = None) -> Change | str:
    try:
        return edit.apply(draft or _draft())
    except TiltyardError as error:
        return repr(error)


def test_an_edit_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="'fly'"):
        edit_from_json({"kind": "fly"})
