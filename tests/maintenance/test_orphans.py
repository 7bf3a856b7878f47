"""What nothing refers to is found, exactly that, and removed only when it is old and still so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pytest

import tiltyard
from tests.behaviours.calls import PEOPLE, create, declare, deregister, drop
from tests.kit.catalogs import to_change
from tests.kit.stores import Fault
from tests.maintenance.batch import Lake, stage
from tests.maintenance.catalogs import LAKE, age, home, location
from tests.maintenance.catalogs import files as all_files
from tiltyard import DirectoryNamespace
from tiltyard.errors import InvalidInputError, InvalidTableStateError
from tiltyard.maintenance.orphan_candidates import OrphanKind
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind

MORE = PEOPLE.slice(0, 1)
UUID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def catalog(reopen: Callable[[], DirectoryNamespace]) -> DirectoryNamespace:
    """A table with everything: deleted rows, an index rewritten, a tag, a branch with rows."""
    opened = reopen()
    create(opened, "people")
    dataset = to_change(opened, "people")
    for _ in range(3):
        dataset.insert(MORE)
    dataset.delete("id = 2")
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    dataset.update({"name": "'x'"}, where="id = 3")
    dataset = opened.open_table(["people"])
    dataset.tags.create("first", 1)
    dataset.create_branch("dev/one", 4)
    lance.write_dataset(MORE, str(home(opened, "people") / "tree/dev/one"), mode="append")
    return opened


def found(catalog: DirectoryNamespace, **how: object) -> dict[str, OrphanKind]:
    orphans = list(catalog.health.find_orphans(**how))  # type: ignore[arg-type]
    assert len({orphan.path for orphan in orphans}) == len(orphans)
    return {orphan.path: orphan.kind for orphan in orphans}


def remove_all(catalog: DirectoryNamespace) -> set[str]:
    removed = catalog.health.remove_orphans(catalog.health.find_orphans())
    return {orphan.path for orphan in removed}


def files(root: Path) -> set[str]:
    return {file for file in all_files(root) if not file.startswith(".tiltyard/")}


def put(path: Path, body: bytes = b"bytes") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return path


PLANTED = {
    "data/0000stray.lance": OrphanKind.FILE,
    "data/0000stray/1.blob": OrphanKind.FILE,
    "tree/dev/one/data/1111stray.lance": OrphanKind.FILE,
    "_deletions/7-7-7.arrow": OrphanKind.FILE,
    f"_indices/{UUID}/page_data.lance": OrphanKind.FILE,
    f"_transactions/9-{UUID}.txn": OrphanKind.FILE,
    f"_versions/00000000000000000001.manifest-{UUID}": OrphanKind.STAGED,
    "data/.tmp_half": OrphanKind.TEMPORARY,
    "data/half.lance#1": OrphanKind.TEMPORARY,
}
FOREIGN = ("notes.txt", "data/readme", "_versions/latest_version_hint.json", "_stuff/thing")


def plant(catalog: DirectoryNamespace) -> dict[str, OrphanKind]:
    directory = home(catalog, "people")
    for path in (*PLANTED, *FOREIGN[:1], *FOREIGN[3:]):
        put(directory / path)
    age(directory)
    return {f"{directory.name}/{path}": kind for path, kind in PLANTED.items()}


def test_a_table_that_all_refer_to_has_none(catalog: DirectoryNamespace, tmp_path: Path) -> None:
    age(tmp_path / LAKE)
    assert found(catalog) == {}
    assert found(catalog, older_than=0) == {}


def test_what_was_planted_is_found_and_nothing_else(catalog: DirectoryNamespace) -> None:
    planted = plant(catalog)
    assert found(catalog) == planted
    assert found(catalog, ids=[["people"]]) == planted
    assert all(orphan.bytes == 5 for orphan in catalog.health.find_orphans())


def test_removing_takes_exactly_that(catalog: DirectoryNamespace, tmp_path: Path) -> None:
    before = files(tmp_path / LAKE)
    planted = plant(catalog)
    kept = files(tmp_path / LAKE) - set(planted)
    assert remove_all(catalog) == set(planted)
    assert files(tmp_path / LAKE) == kept
    assert before <= kept
    assert found(catalog) == {}
    assert catalog.open_table(["people"]).count_rows() == 5
    for file in catalog.services.versions.visible(("people",)):
        assert catalog.open_table(["people"], version=file.version).to_table().num_rows
    assert lance.dataset(str(home(catalog, "people") / "tree/dev/one")).to_table().num_rows


def test_looking_changes_nothing(catalog: DirectoryNamespace, tmp_path: Path) -> None:
    plant(catalog)
    before = files(tmp_path / LAKE)
    found(catalog)
    assert files(tmp_path / LAKE) == before


def test_what_is_young_is_no_orphan_unless_asked_for(catalog: DirectoryNamespace) -> None:
    stray = put(home(catalog, "people") / "data" / "stray.lance")
    health = catalog.health
    assert found(catalog) == {}
    assert list(found(catalog, older_than=0).values()) == [OrphanKind.FILE]
    with pytest.raises(InvalidInputError, match="seven days"):
        health.remove_orphans(health.find_orphans(older_than="1h"), older_than="1h")
    assert stray.exists()
    health.remove_orphans(health.find_orphans(older_than=0), older_than=0, even_if_young=True)
    assert not stray.exists()


def test_a_file_that_becomes_referenced_during_the_scan_survives(
    catalog: DirectoryNamespace,
) -> None:
    directory = location(catalog, "people")
    onto = to_change(catalog, "people")
    fragments = lance.fragment.write_fragments(MORE, onto)
    planted = plant(catalog)
    scan = list(catalog.health.find_orphans())
    new = {f"{directory}/data/{file.path}" for fragment in fragments for file in fragment.files}
    assert {orphan.path for orphan in scan} == set(planted) | new
    operation = lance.LanceOperation.Append(fragments)
    lance.LanceDataset.commit(onto, lance.Transaction(onto.version, operation))
    removed = catalog.health.remove_orphans(scan)
    assert {orphan.path for orphan in removed} == set(planted)
    assert catalog.open_table(["people"]).to_table().num_rows == 6


def test_what_pylance_tells_of_all_versions_is_what_each_has(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.services.access.find(["people"])
    together = catalog.services.orphans.referenced(table, 0)
    monkeypatch.setattr(lance.LanceDataset, "tracked_files", _raise)
    one_by_one = catalog.services.orphans.referenced(table, 0)
    assert together == one_by_one
    assert len(together.files) > 5
    assert len(together.uuids) > 5


def _raise(*_: object, **__: object) -> Iterator[object]:
    raise OSError("one can't be read")


def test_files_of_a_write_that_is_under_way_are_no_orphans(
    catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    pending = catalog.writes.begin(["people"], "append")
    age(put(home(catalog, "people") / "data" / "noted.lance"))
    catalog.writes.note_file(pending, "noted.lance")
    assert found(catalog) == {}
    age(tmp_path / LAKE / "__writes")
    assert found(catalog) == {
        f"{location(catalog, 'people')}/data/noted.lance": OrphanKind.FILE,
        f"__writes/{pending.token}/noted.lance": OrphanKind.NOTE,
    }


def test_a_write_that_was_given_up_leaves_a_note_that_goes(
    catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    pending = catalog.writes.begin(["people"], "append")
    catalog.writes.sweep(pending, [], close=True)
    assert found(catalog) == {}
    age(tmp_path / LAKE / "__writes")
    assert list(found(catalog).values()) == [OrphanKind.NOTE]
    remove_all(catalog)
    assert not (tmp_path / LAKE / "__writes").exists()


def test_what_a_staged_manifest_needs_stays_while_it_is_young_or_covered(
    catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    root, directory = tmp_path / LAKE, home(catalog, "people")
    before = files(root)
    staged = stage(root, directory.name, "people")
    new = files(root) - before
    assert len(new) == 3  # the manifest, a data file, a transaction
    age(directory)
    os.utime(root / staged.staged)
    assert found(catalog) == {}
    age(directory)
    assert set(found(catalog)) == new
    covered = CoveredTable(("people",), directory.name, 7, 7, "uuid", staged.staged)
    catalog.services.recovery.sidecars.arm(OperationKind.BATCH, [covered])
    assert found(catalog) == {}


def test_a_version_that_is_committed_and_not_copied_is_no_orphan(tmp_path: Path) -> None:
    opened = tiltyard.connect(tmp_path / LAKE, dir_listing_enabled=False)
    opened.versions.manage()
    create(opened, "people")
    directory = home(opened, "people")
    staged = stage(tmp_path / LAKE, directory.name, "people")
    faulty, store = Lake(tmp_path / LAKE, {"dir_listing_enabled": False}, []).open_faulty()
    store.plan(Fault.UNAVAILABLE, verb="move", key="*.manifest", times=2)
    faulty.services.versions.create(staged)
    age(directory)
    assert (tmp_path / LAKE / staged.staged).exists()
    assert found(opened) == {}
    assert opened.open_table(["people"]).count_rows() == len(PEOPLE) + 1


def test_if_a_version_can_not_be_read_nothing_is_an_orphan(catalog: DirectoryNamespace) -> None:
    plant(catalog)
    put(home(catalog, "people") / "_versions" / "18446744073709551614.manifest", b"broken")
    with pytest.raises(InvalidTableStateError, match="can't be read"):
        found(catalog, ids=[["people"]])
    create(catalog, "others")
    age(put(home(catalog, "others") / "data/stray.lance"))
    assert list(found(catalog)) == [f"{location(catalog, 'others')}/data/stray.lance"]


# -- directories


@pytest.fixture
def rows(by_rows: DirectoryNamespace) -> DirectoryNamespace:
    declare(by_rows, "shop", "later")
    create(by_rows, "shop", "old")
    drop(by_rows, "shop", "old")
    return by_rows


def test_directories_without_a_row_are_found_by_what_they_are(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    root = tmp_path / LAKE
    put(root / "0123abcd_shop$gone" / ".lance-reserved")
    put(root / "0123abcd_shop$half" / "data" / "x.lance")
    put(root / "elsewhere" / "readme")
    lance.write_dataset(PEOPLE, str(root / "0123abcd_shop$whole"))
    lance.write_dataset(PEOPLE, str(root / "plain.lance"))
    assert found(rows) == {"0123abcd_shop$whole": OrphanKind.TABLE, "plain.lance": OrphanKind.TABLE}
    age(root)
    assert found(rows) == {
        "0123abcd_shop$gone": OrphanKind.RESERVATION,
        "0123abcd_shop$half": OrphanKind.DIRECTORY,
        "0123abcd_shop$whole": OrphanKind.TABLE,
        "plain.lance": OrphanKind.TABLE,
    }
    assert remove_all(rows) == {"0123abcd_shop$gone", "0123abcd_shop$half"}
    assert (root / "elsewhere" / "readme").exists()
    assert lance.dataset(str(root / "plain.lance")).count_rows() == len(PEOPLE)
    rows.undrop_table(["shop", "old"])


def test_who_reads_no_rows_says_nothing_about_their_directories(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    age(tmp_path / LAKE)
    assert found(tiltyard.connect(tmp_path / LAKE, manifest_enabled=False)) == {}


def test_a_directory_that_gets_its_row_during_the_scan_survives(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    placed = rows.context.manifest.place(("shop", "new"), {})
    file = put(tmp_path / LAKE / placed.location / "data" / "x.lance")
    age(file.parent.parent)
    scan = list(rows.health.find_orphans())
    assert [orphan.kind for orphan in scan] == [OrphanKind.DIRECTORY]
    rows.context.manifest.publish(placed)
    assert rows.health.remove_orphans(scan) == []
    assert file.exists()


def test_a_table_without_a_name_is_adopted_into_the_trash(rows: DirectoryNamespace) -> None:
    directory = Path(deregister(rows, "shop", "users").location or "").name
    assert found(rows, older_than=0) == {directory: OrphanKind.TABLE}
    assert rows.health.adopt_orphan(directory) == ("shop", "users")
    assert found(rows, older_than=0) == {}
    rows.undrop_table(["shop", "users"])
    assert rows.open_table(["shop", "users"]).count_rows() == len(PEOPLE)
    with pytest.raises(InvalidTableStateError, match="belongs to"):
        rows.health.adopt_orphan(directory)


def test_a_directory_that_is_a_name_is_adopted_by_its_marker(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "plain.lance"))
    assert rows.health.adopt_orphan("plain.lance") == ("plain",)
    assert found(rows, older_than=0) == {}
    assert ("plain",) in [dropped.id for dropped in rows.list_trash()]


@pytest.mark.parametrize("directory", ["nowhere", "../outside"])
def test_where_nothing_is_nothing_is_adopted(rows: DirectoryNamespace, directory: str) -> None:
    with pytest.raises(InvalidInputError):
        rows.health.adopt_orphan(directory)


def test_what_is_left_of_purged_tables_goes(rows: DirectoryNamespace, tmp_path: Path) -> None:
    left = put(tmp_path / LAKE / "__gc" / "0123abcd_shop$gone" / "versions.boundary", b"3")
    users = rows.services.access.find(["shop", "users"])
    dataset = rows.open_table(["shop", "users"])
    rows.services.branches.create(users, "dev", dataset, lambda: None)
    age(tmp_path / LAKE)
    assert (tmp_path / LAKE / "__branches" / f"{users.location}.json").exists()
    assert list(found(rows).values()) == [OrphanKind.BOUNDARY]
    remove_all(rows)
    assert not left.parent.exists()


def test_a_boundary_of_a_name_that_may_come_back_stays(
    both: DirectoryNamespace, tmp_path: Path
) -> None:
    put(tmp_path / LAKE / "__gc" / "others.lance" / "versions.boundary", b"3")
    age(tmp_path / LAKE)
    assert found(both) == {}
