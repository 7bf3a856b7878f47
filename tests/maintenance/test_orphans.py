"""What nothing refers to is found, exactly that, and removed only when it is old and still so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import PEOPLE, create, declare, deregister, drop, make_namespace
from tests.kit.catalogs import to_change
from tests.kit.stores import Fault
from tests.maintenance.batch import Lake, stage
from tiltyard import DirectoryNamespace
from tiltyard.errors import InvalidInputError, InvalidTableStateError
from tiltyard.maintenance import needed
from tiltyard.maintenance.orphan import Kind
from tiltyard.maintenance.sidecars import Covered
from tiltyard.maintenance.sidecars import Kind as Operation

MODES = {
    "directory": {"manifest_enabled": False},
    "manifest": {"dir_listing_enabled": False},
    "both": {},
    "managed": {"dir_listing_enabled": False},
}
MORE = PEOPLE.slice(0, 1)
LONG_AGO = time.time() - 30 * 86400


@pytest.fixture(params=MODES, ids=str)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    """A table with everything: deleted rows, an index rewritten, a tag, a branch with rows."""
    opened = tiltyard.connect(tmp_path / "lake", **MODES[request.param])
    if request.param == "managed":
        opened.versions.manage()
    create(opened, "people")
    for _ in range(3):
        _write(opened, lambda it: it.insert(MORE))
    _write(opened, lambda it: it.delete("id = 2"))
    _write(opened, lambda it: it.create_scalar_index("id", "BTREE"))
    _write(opened, lambda it: it.optimize.compact_files())
    _write(opened, lambda it: it.update({"name": "'x'"}, where="id = 3"))
    dataset = opened.open_table(["people"])
    dataset.tags.create("first", 1)
    dataset.create_branch("dev/one", 4)
    lance.write_dataset(MORE, str(_home(opened) / "tree/dev/one"), mode="append")
    return opened


def _write(catalog: DirectoryNamespace, change: Callable[[lance.LanceDataset], object]) -> None:
    with catalog.services.access.change(catalog.context.catalog.find(("people",))) as dataset:
        change(dataset)


def _home(catalog: DirectoryNamespace) -> Path:
    return Path(catalog.context.settings.root) / catalog.context.catalog.find(("people",)).location


def age(*paths: Path) -> None:
    """Let everything below look as if nobody had touched it for a month."""
    for path in paths:
        for each in [path, *path.rglob("*")]:
            os.utime(each, (LONG_AGO, LONG_AGO))


def found(catalog: DirectoryNamespace, **how: object) -> dict[str, Kind]:
    every = list(catalog.health.find_orphans(**how))  # type: ignore[arg-type]
    assert len({each.path for each in every}) == len(every)
    return {each.path: each.kind for each in every}


def files(catalog: DirectoryNamespace) -> set[str]:
    root = Path(catalog.context.settings.root)
    every = {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}
    return {each for each in every if not each.startswith(".tiltyard/")}


PLANTED = {
    "data/0000stray.lance": Kind.FILE,
    "data/0000stray/1.blob": Kind.FILE,
    "tree/dev/one/data/1111stray.lance": Kind.FILE,
    "_deletions/7-7-7.arrow": Kind.FILE,
    "_indices/00000000-0000-4000-8000-000000000000/page_data.lance": Kind.FILE,
    "_transactions/9-00000000-0000-4000-8000-000000000000.txn": Kind.FILE,
    "_versions/00000000000000000001.manifest-00000000-0000-4000-8000-000000000000": Kind.STAGED,
    "data/.tmp_half": Kind.TEMPORARY,
    "data/half.lance#1": Kind.TEMPORARY,
}
FOREIGN = ("notes.txt", "data/readme", "_versions/latest_version_hint.json", "_stuff/thing")


def plant(catalog: DirectoryNamespace) -> dict[str, Kind]:
    home = _home(catalog)
    for each in (*PLANTED, *FOREIGN[:1], *FOREIGN[3:]):
        (home / each).parent.mkdir(parents=True, exist_ok=True)
        (home / each).write_bytes(b"bytes")
    age(home)
    return {f"{home.name}/{path}": kind for path, kind in PLANTED.items()}


def test_a_table_that_all_refer_to_has_none(catalog: DirectoryNamespace) -> None:
    age(Path(catalog.context.settings.root))
    assert found(catalog) == {}
    assert found(catalog, older_than=0) == {}


def test_what_was_planted_is_found_and_nothing_else(catalog: DirectoryNamespace) -> None:
    planted = plant(catalog)
    assert found(catalog) == planted
    assert found(catalog, ids=[["people"]]) == planted
    assert all(each.bytes == 5 for each in catalog.health.find_orphans())


def test_removing_takes_exactly_that(catalog: DirectoryNamespace) -> None:
    before = files(catalog)
    planted = plant(catalog)
    kept = files(catalog) - set(planted)
    removed = catalog.health.remove_orphans(catalog.health.find_orphans())
    assert {each.path for each in removed} == set(planted)
    assert files(catalog) == kept
    assert before <= kept
    assert found(catalog) == {}
    dataset = catalog.open_table(["people"])
    assert dataset.count_rows() == 5
    for each in catalog.services.versions.visible(("people",)):
        assert catalog.open_table(["people"], version=each.version).to_table().num_rows
    assert lance.dataset(str(_home(catalog) / "tree/dev/one")).to_table().num_rows


def test_looking_changes_nothing(catalog: DirectoryNamespace) -> None:
    plant(catalog)
    before = files(catalog)
    found(catalog)
    assert files(catalog) == before


def test_what_is_young_is_no_orphan_unless_asked_for(catalog: DirectoryNamespace) -> None:
    stray = _home(catalog) / "data" / "stray.lance"
    stray.write_bytes(b"young")
    assert found(catalog) == {}
    assert list(found(catalog, older_than=0).values()) == [Kind.FILE]
    with pytest.raises(InvalidInputError, match="seven days"):
        catalog.health.remove_orphans(catalog.health.find_orphans(older_than="1h"), older_than="1h")
    assert stray.exists()
    catalog.health.remove_orphans(
        catalog.health.find_orphans(older_than=0), older_than=0, even_if_young=True
    )
    assert not stray.exists()


def test_a_file_that_becomes_referenced_during_the_scan_survives(
    catalog: DirectoryNamespace,
) -> None:
    home = _home(catalog)
    onto = to_change(catalog, "people")
    fragments = lance.fragment.write_fragments(MORE, onto)
    planted = plant(catalog)
    scan = list(catalog.health.find_orphans())
    new = {f"{home.name}/data/{each.path}" for fragment in fragments for each in fragment.files}
    assert {each.path for each in scan} == set(planted) | new
    operation = lance.LanceOperation.Append(fragments)
    lance.LanceDataset.commit(onto, lance.Transaction(onto.version, operation))
    removed = catalog.health.remove_orphans(scan)
    assert {each.path for each in removed} == set(planted)
    assert catalog.open_table(["people"]).to_table().num_rows == 6


def test_what_pylance_tells_of_all_versions_is_what_each_has(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = catalog.services.orphans._needed(catalog.context.catalog.find(("people",)), 0)
    monkeypatch.setattr(needed, "_of_versions", _raise)
    each = catalog.services.orphans._needed(catalog.context.catalog.find(("people",)), 0)
    assert told == each
    assert len(told.files) > 5
    assert len(told.uuids) > 5


def _raise(*_: object) -> Iterator[object]:
    raise OSError("one can't be read")


def test_files_of_a_write_that_is_under_way_are_no_orphans(catalog: DirectoryNamespace) -> None:
    pending = catalog.writes.begin(["people"], "append")
    stray = _home(catalog) / "data" / "noted.lance"
    stray.write_bytes(b"noted")
    age(stray)
    catalog.writes.note_file(pending, "noted.lance")
    assert found(catalog) == {}
    age(Path(catalog.context.settings.root) / "__writes")
    home = _home(catalog).name
    assert found(catalog) == {
        f"{home}/data/noted.lance": Kind.FILE,
        f"__writes/{pending.token}/noted.lance": Kind.NOTE,
    }


def test_a_write_that_was_given_up_leaves_a_note_that_goes(catalog: DirectoryNamespace) -> None:
    pending = catalog.writes.begin(["people"], "append")
    catalog.writes.sweep(pending, [], close=True)
    assert found(catalog) == {}
    age(Path(catalog.context.settings.root) / "__writes")
    assert list(found(catalog).values()) == [Kind.NOTE]
    catalog.health.remove_orphans(catalog.health.find_orphans())
    assert not (Path(catalog.context.settings.root) / "__writes").exists()


def test_what_a_staged_manifest_needs_stays_while_it_is_young_or_covered(
    catalog: DirectoryNamespace,
) -> None:
    root, home = Path(catalog.context.settings.root), _home(catalog)
    before = files(catalog)
    staged = stage(root, home.name, "people")
    new = files(catalog) - before
    assert len(new) == 3  # the manifest, a data file, a transaction
    age(home)
    os.utime(root / staged.staged)
    assert found(catalog) == {}
    age(home)
    assert set(found(catalog)) == new
    covered = Covered(("people",), home.name, 7, 7, "uuid", staged.staged)
    sidecar = catalog.services.recovery.sidecars.arm(Operation.BATCH, [covered])
    assert found(catalog) == {}
    catalog.services.recovery.sidecars.done(sidecar)


def test_a_version_that_is_committed_and_not_copied_is_no_orphan(tmp_path: Path) -> None:
    opened = tiltyard.connect(tmp_path / "lake", dir_listing_enabled=False)
    opened.versions.manage()
    create(opened, "people")
    home = _home(opened)
    staged = stage(Path(opened.context.settings.root), home.name, "people")
    faulty, store = Lake(tmp_path / "lake", {"dir_listing_enabled": False}, []).open_faulty()
    store.plan(Fault.UNAVAILABLE, verb="move", key="*.manifest", times=2)
    faulty.services.versions.create(staged)
    age(home)
    assert (tmp_path / "lake" / staged.staged).exists()
    assert found(opened) == {}
    assert opened.open_table(["people"]).count_rows() == len(PEOPLE) + 1


def test_if_a_version_can_not_be_read_nothing_is_an_orphan(catalog: DirectoryNamespace) -> None:
    plant(catalog)
    oldest = _home(catalog) / "_versions" / "18446744073709551614.manifest"
    oldest.write_bytes(b"broken")
    with pytest.raises(InvalidTableStateError, match="can't be read"):
        found(catalog, ids=[["people"]])
    create(catalog, "others")
    stray = (
        Path(catalog.context.settings.root)
        / catalog.context.catalog.find(("others",)).location
        / "data/stray.lance"
    )
    stray.write_bytes(b"x")
    age(stray)
    assert list(found(catalog)) == [str(stray.relative_to(catalog.context.settings.root))]


# -- directories


@pytest.fixture
def rows(tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / "lake", dir_listing_enabled=False)
    make_namespace(opened, "shop")
    create(opened, "shop", "users")
    declare(opened, "shop", "later")
    create(opened, "shop", "old")
    drop(opened, "shop", "old")
    return opened


def test_directories_without_a_row_are_found_by_what_they_are(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    root = tmp_path / "lake"
    (root / "0123abcd_shop$gone").mkdir()
    (root / "0123abcd_shop$gone" / ".lance-reserved").write_bytes(b"reserved")
    (root / "0123abcd_shop$half" / "data").mkdir(parents=True)
    (root / "0123abcd_shop$half" / "data" / "x.lance").write_bytes(b"x")
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "readme").write_bytes(b"of a person")
    lance.write_dataset(PEOPLE, str(root / "0123abcd_shop$whole"))
    lance.write_dataset(PEOPLE, str(root / "plain.lance"))
    assert found(rows) == {"0123abcd_shop$whole": Kind.TABLE, "plain.lance": Kind.TABLE}
    age(root)
    assert found(rows) == {
        "0123abcd_shop$gone": Kind.RESERVATION,
        "0123abcd_shop$half": Kind.DIRECTORY,
        "0123abcd_shop$whole": Kind.TABLE,
        "plain.lance": Kind.TABLE,
    }
    removed = rows.health.remove_orphans(rows.health.find_orphans())
    assert sorted(each.path for each in removed) == ["0123abcd_shop$gone", "0123abcd_shop$half"]
    assert (root / "elsewhere" / "readme").exists()
    assert lance.dataset(str(root / "plain.lance")).count_rows() == len(PEOPLE)
    rows.undrop_table(["shop", "old"])


def test_who_reads_no_rows_says_nothing_about_their_directories(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    age(tmp_path / "lake")
    assert found(tiltyard.connect(tmp_path / "lake", manifest_enabled=False)) == {}


def test_a_directory_that_gets_its_row_during_the_scan_survives(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    placed = rows.context.manifest.place(("shop", "new"), {})  # type: ignore[union-attr]
    folder = tmp_path / "lake" / placed.location / "data"
    folder.mkdir(parents=True)
    (folder / "x.lance").write_bytes(b"x")
    age(folder.parent)
    scan = list(rows.health.find_orphans())
    assert [each.kind for each in scan] == [Kind.DIRECTORY]
    rows.context.manifest.publish(placed)  # type: ignore[union-attr]
    assert rows.health.remove_orphans(scan) == []
    assert (folder / "x.lance").exists()


def test_a_table_without_a_name_is_adopted_into_the_trash(rows: DirectoryNamespace) -> None:
    location = deregister(rows, "shop", "users").location or ""
    directory = Path(location).name
    assert found(rows, older_than=0) == {directory: Kind.TABLE}
    assert rows.health.adopt_orphan(directory) == ("shop", "users")
    assert found(rows, older_than=0) == {}
    rows.undrop_table(["shop", "users"])
    assert rows.open_table(["shop", "users"]).count_rows() == len(PEOPLE)
    with pytest.raises(InvalidTableStateError, match="belongs to"):
        rows.health.adopt_orphan(directory)


def test_a_directory_that_is_a_name_is_adopted_by_its_marker(
    rows: DirectoryNamespace, tmp_path: Path
) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / "lake" / "plain.lance"))
    assert rows.health.adopt_orphan("plain.lance") == ("plain",)
    assert found(rows, older_than=0) == {}
    assert ("plain",) in [each.id for each in rows.list_trash()]


def test_where_nothing_is_nothing_is_adopted(rows: DirectoryNamespace) -> None:
    for directory in ("nowhere", "../outside"):
        with pytest.raises(InvalidInputError):
            rows.health.adopt_orphan(directory)


def test_what_is_left_of_purged_tables_goes(rows: DirectoryNamespace, tmp_path: Path) -> None:
    left = tmp_path / "lake" / "__gc" / "0123abcd_shop$gone"
    left.mkdir(parents=True)
    (left / "versions.boundary").write_bytes(b"3")
    users = rows.context.catalog.find(("shop", "users")).location
    rows.services.branches.create(
        rows.context.catalog.find(("shop", "users")),
        "dev",
        rows.open_table(["shop", "users"]),
        lambda: None,
    )
    age(tmp_path / "lake")
    assert (tmp_path / "lake" / "__branches" / f"{users}.json").exists()
    assert list(found(rows).values()) == [Kind.BOUNDARY]
    rows.health.remove_orphans(rows.health.find_orphans())
    assert not left.exists()


def test_a_boundary_of_a_name_that_may_come_back_stays(tmp_path: Path) -> None:
    opened = tiltyard.connect(tmp_path / "lake")
    kept = tmp_path / "lake" / "__gc" / "people.lance"
    create(opened, "others", data=pa.table({"id": [1]}))
    kept.mkdir(parents=True)
    (kept / "versions.boundary").write_bytes(b"3")
    age(tmp_path / "lake")
    assert found(opened) == {}
