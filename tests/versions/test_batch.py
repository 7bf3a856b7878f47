"""A commit of two tables at once: whatever dies on the way, readers see both or neither."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import lance
import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.calls import PEOPLE, create, drop, refused
from tests.behaviours.processes import context
from tests.kit.catalogs import open_faulty
from tests.kit.stores import Crash, Fault
from tests.versions.staging import publish, stage
from tiltyard import DirectoryNamespace
from tiltyard.catalog.manifest.table import ManifestTable

MORE = PEOPLE.slice(0, 1)
BOTH = ("one", "two")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    catalog = tiltyard.connect(tmp_path / "root", dir_listing_enabled=False)
    catalog.versions.manage()
    for table in BOTH:
        create(catalog, table)
    return tmp_path / "root"


def _open(root: Path) -> DirectoryNamespace:
    return tiltyard.connect(root, dir_listing_enabled=False)


def _seen(root: Path) -> set[tuple[int, int]]:
    """What a newcomer sees of each table: its version and its rows, by every way to read it."""
    catalog = _open(root)
    snapshot = catalog.versions.snapshot()
    found = set()
    for table in BOTH:
        opened = [
            snapshot.open([table]),
            catalog.open_table([table]),
            lance.dataset(namespace_client=catalog, table_id=[table]),
        ]
        found |= {(version.version, version.count_rows()) for version in opened}
    return found


BEFORE, AFTER = (1, len(PEOPLE)), (2, len(PEOPLE) + 1)


def test_two_tables_are_committed_together(root: Path) -> None:
    catalog = _open(root)
    before = catalog.versions.snapshot().version
    assert publish(catalog, stage(catalog, MORE, *BOTH)) == [2, 2]
    assert _seen(root) == {AFTER}
    assert catalog.versions.snapshot().version == before + 1
    assert not [entry for entry in catalog.context.store.walk("") if "manifest-" in entry.key], (
        "staged"
    )


def test_or_none_of_them_is(root: Path) -> None:
    catalog = _open(root)
    entries = stage(catalog, MORE, *BOTH)
    lance.write_dataset(MORE, namespace_client=catalog, table_id=["two"], mode="append")
    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        publish(catalog, entries)
    assert catalog.open_table(["one"]).version == 1
    assert catalog.open_table(["two"]).version == 2


def test_not_even_if_one_is_dropped(root: Path) -> None:
    catalog = _open(root)
    entries = stage(catalog, MORE, *BOTH)
    drop(catalog, "two")
    with refused(ErrorCode.TABLE_NOT_FOUND):
        publish(catalog, entries)
    assert catalog.open_table(["one"]).version == 1


def test_the_same_batch_again_is_the_same(root: Path) -> None:
    catalog = _open(root)
    entries = stage(catalog, MORE, *BOTH)
    bodies = [Path("/" + entry.manifest_path).read_bytes() for entry in entries]
    publish(catalog, entries)
    for each, body in zip(entries, bodies, strict=True):
        Path("/" + each.manifest_path).write_bytes(body)
    assert publish(catalog, entries) == [2, 2]
    assert _seen(root) == {AFTER}


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_crash_at_any_request_leaves_both_or_neither(root: Path, fault: Fault) -> None:
    base = [BEFORE]
    seen = set()
    for at in range(100):
        client, store = open_faulty(_open(root), bulk=1)
        entries = stage(client, MORE, *BOTH)
        plan = store.plan(fault, after=at)
        with suppress(Crash):
            publish(client, entries)
        found = _seen(root)
        assert len(found) == 1, f"half a commit after {store.requests[-1]}"
        (now,) = found
        assert now in (base[-1], (base[-1][0] + 1, base[-1][1] + 1))
        seen.add(now == base[-1])
        base.append(now)
        if not plan.is_spent:
            break
    assert not plan.is_spent, "it was tried at every request"
    assert at > 5
    assert seen == {True, False}


@pytest.mark.parametrize("lands", [False, True])
def test_a_crash_at_the_commit_leaves_both_or_neither(
    root: Path, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    commit = ManifestTable.commit

    def dying(self: ManifestTable, draft: object) -> None:
        if lands:
            commit(self, draft)  # type: ignore[arg-type]
        raise Crash

    client = _open(root)
    entries = stage(client, MORE, *BOTH)
    with monkeypatch.context() as patched:
        patched.setattr(ManifestTable, "commit", dying)
        with pytest.raises(Crash):
            publish(client, entries)
    assert _seen(root) == ({AFTER} if lands else {BEFORE})
    publish(client, stage(client, MORE, *BOTH))
    assert len(_seen(root)) == 1


def test_whoever_is_killed_meanwhile(root: Path) -> None:
    reached = 0
    for _ in range(3):
        with _committing(root) as child:
            for _ in range(8):
                child.recv()
                snapshot = _open(root).versions.snapshot()
                assert len({each.version for each in snapshot}) == 1
        ((version, rows),) = _seen(root)
        assert rows == len(PEOPLE) + version - 1
        assert version > reached + 4
        reached = version


@contextmanager
def _committing(root: Path) -> Iterator[Connection]:
    """Another process that commits to both tables for ever, and is killed at the end."""
    here, there = context().Pipe()
    process = context().Process(target=_commit_for_ever, args=(there, str(root)), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        here.close()


def _commit_for_ever(parent: Connection, root: str) -> None:
    catalog = _open(Path(root))
    while True:
        with suppress(tiltyard.TiltyardError):
            publish(catalog, stage(catalog, MORE, *BOTH))
        with suppress(OSError):
            parent.send(None)


def test_files_and_rows_do_not_mix_in_one_commit(root: Path) -> None:
    """A table that keeps its versions as files follows; that is all that can be had."""
    catalog = tiltyard.connect(root, table_version_tracking_enabled=True)
    lance.write_dataset(PEOPLE, root / "files.lance")
    assert sorted(catalog.list_tables(api.ListTablesRequest(id=[])).tables) == [
        "files",
        "one",
        "two",
    ]
    assert publish(catalog, stage(catalog, MORE, "files", "one")) == [2, 2]
