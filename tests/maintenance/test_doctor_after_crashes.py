"""The doctor finds what a crash has left half done, and what he names mends it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.behaviours.calls import (
    PEOPLE,
    create,
    drop,
    rename,
    tables,
)
from tests.kit.stores import Crash, Fault
from tests.maintenance.batch import Lake, lake
from tests.maintenance.doctoring import ROOT, found, later, with_both
from tiltyard import DirectoryNamespace
from tiltyard.maintenance.findings import Severity


@pytest.fixture
def both(tmp_path: Path) -> DirectoryNamespace:
    return with_both(tmp_path)


def _crash(catalog: Lake, act: Callable[[DirectoryNamespace], object], **where: object) -> None:
    opened, store = catalog.open_faulty()
    store.plan(Fault.CRASH_BEFORE, **where)  # type: ignore[arg-type]
    with pytest.raises(Crash):
        act(opened)


@pytest.fixture
def room(both: DirectoryNamespace, tmp_path: Path) -> Lake:
    return Lake(tmp_path / ROOT, {}, [])


def test_a_create_that_was_cut_off(both: DirectoryNamespace, room: Lake) -> None:
    drop(both, "people")
    # Three swaps: the probe, and the two that show the table.
    _crash(room, lambda it: create(it, "people"), verb="replace", key="people.deleted", after=1)
    assert found(both) == []
    after = later(room)
    assert found(after) == [("warning", "unfinished create", "people")]
    (only,) = after.health.recover()
    assert (only.kind, only.outcome.value) == ("create", "rolled forward")
    assert found(after) == []
    assert after.open_table(["people"]).count_rows() == len(PEOPLE)


@pytest.mark.parametrize("after", [0, 1])
def test_a_rename_that_was_cut_off(both: DirectoryNamespace, room: Lake, after: int) -> None:
    """After the first swap of the marker no row has come; before the second it has."""
    if after:
        _crash(room, _rename, verb="replace", key="people.deleted", after=0)
    else:
        _crash(room, _rename, verb="put", key="people.lance/*")
    visitor = later(room)
    assert ("warning", "unfinished rename", "people") in found(visitor)
    (only,) = visitor.health.recover()
    assert (only.kind, only.outcome.is_final) == ("rename", True)
    assert found(visitor) == []
    name = "folk" if after else "people"
    assert tables(visitor) == [name]
    assert visitor.open_table([name]).count_rows() == len(PEOPLE)
    assert visitor.health.recover() == []


def _rename(catalog: DirectoryNamespace) -> None:
    rename(catalog, "people", to="folk")


def test_a_purge_that_was_cut_off(both: DirectoryNamespace, room: Lake) -> None:
    drop(both, "people")
    _crash(room, lambda it: it.purge_table(["people"]), verb="delete_many")
    assert found(both) == [("warning", "unfinished purge", "people")]
    both.purge_tables()
    assert found(both) == []


def test_what_is_due_in_the_trash(both: DirectoryNamespace) -> None:
    drop(both, "people", ttl="1m")
    assert found(both) == []
    assert found(later(both)) == [("info", "trash due", "people")]


def test_a_batch_that_was_cut_off(tmp_path: Path) -> None:
    tried = lake(tmp_path / ROOT, manifest_enabled=False)
    opened, store = tried.open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="put_new", key="*/_versions/*", after=1)
    with pytest.raises(Crash):
        opened.services.batches.create_all(tried.wanted)
    assert found(tried.open()) == []
    (only,) = later(tried).health.doctor()
    assert (only.severity, only.what) == (Severity.WARNING, "unfinished operation")
    (file,) = (tried.root / "__recovery").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 9}))
    assert [each[:2] for each in found(tried.open())] == [("error", "unreadable sidecar")]
