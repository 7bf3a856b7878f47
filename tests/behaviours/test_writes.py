"""Writes in two halves: files by anybody, one commit by the first. Whatever happens in between, a
write that is acknowledged is in the table, and one that is refused has left nothing behind."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    dataset,
    declare,
    describe,
    drop,
    make_namespace,
    refused,
    rename,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import Mode, with_directory_listing, with_manifest
from tests.behaviours.places import Place
from tests.behaviours.trash import DAY, bytes_below, clocks_ahead, on_disk, write_unaware
from tests.kit.stores import Fault, FaultyStore
from tiltyard import DirectoryNamespace
from tiltyard.lifecycle.creation import Created
from tiltyard.lifecycle.writing import PendingWrite
from tiltyard.tables import fragments

MORE = pa.table({"id": pa.array([4, 5]), "name": pa.array(["di", "ed"])})


@dataclass
class Write:
    """A write under way: what a driver and its executors do, one after the other."""

    catalog: DirectoryNamespace
    pending: PendingWrite
    schema: pa.Schema
    written: list[str]

    def finish(self, **rest: Any) -> Created:
        return self.catalog.writes.finish(self.pending, self.written, self.schema, **rest)

    def abandon(self) -> bool:
        return self.catalog.writes.abandon(self.pending, self.written)

    @property
    def files(self) -> list[str]:
        location = self.pending.table.location
        return [f"{location}/data/{name}" for name in sorted(fragments.file_names(self.written))]


def begin(
    catalog: DirectoryNamespace,
    *table: str,
    mode: str,
    rows: pa.Table = MORE,
    tasks: int = 1,
    evolves: bool = False,
) -> Write:
    pending = replace(catalog.writes.begin(list(table), mode), evolves=evolves)
    there = pickle.loads(pickle.dumps(pending))
    size = -(-rows.num_rows // tasks)
    written = [
        fragment
        for start in range(0, rows.num_rows, size)
        for fragment in fragments.write(there, rows.slice(start, size).to_reader())
    ]
    return Write(catalog, pending, rows.schema, written)


def _leaves_nothing(place: Place, write: Write) -> None:
    assert write.files
    assert not set(write.files) & set(place.files()), "a refused write removes its files"


def _purge(catalog: DirectoryNamespace) -> None:
    drop(catalog, "people")
    catalog.purge_table(["people"])


# -- the modes


def test_a_write_creates_a_table(catalog: DirectoryNamespace, reopen: Reopen, place: Place) -> None:
    write = begin(catalog, "people", mode="create", rows=PEOPLE, tasks=3)

    created = write.finish()

    assert created.version == 1
    for client in (catalog, reopen()):
        assert tables(client) == ["people"]
        assert contents(client, place, "people") == PEOPLE
    assert len(dataset(catalog, place, "people").get_fragments()) == 3


def test_an_append_adds_rows(catalog: DirectoryNamespace, place: Place) -> None:
    create(catalog, "people")

    created = begin(catalog, "people", mode="append", tasks=2).finish()

    assert created.version == 2
    assert contents(catalog, place, "people") == pa.concat_tables([PEOPLE, MORE])


def test_an_overwrite_replaces_rows_and_columns(catalog: DirectoryNamespace, place: Place) -> None:
    create(catalog, "people")

    assert begin(catalog, "people", mode="overwrite", rows=PLANTS).finish().version == 2

    assert contents(catalog, place, "people") == PLANTS


@on_disk
def test_exist_ok_writes_only_if_there_is_no_table(
    catalog: DirectoryNamespace, place: Place
) -> None:
    first = begin(catalog, "people", mode="exist_ok", rows=PEOPLE)
    assert not first.pending.is_done
    assert first.finish().version == 1

    second = catalog.writes.begin(["people"], "exist_ok")
    assert second.is_done

    assert catalog.writes.finish(second, [], MORE.schema).version == 1
    assert contents(catalog, place, "people") == PEOPLE


@on_disk
@pytest.mark.parametrize("mode_of_write", ["append", "overwrite", "exist_ok"])
def test_a_table_that_does_not_exist_is_created_in_every_mode(
    catalog: DirectoryNamespace, place: Place, mode_of_write: str
) -> None:
    assert begin(catalog, "people", mode=mode_of_write).finish().version == 1
    assert contents(catalog, place, "people") == MORE


@on_disk
def test_a_create_over_a_table_is_refused_before_anything_is_written(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    before = place.files()

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        catalog.writes.begin(["people"], "create")
    with refused(ErrorCode.INVALID_INPUT):
        catalog.writes.begin(["people"], "upsert")

    assert place.files() == before


@on_disk
def test_a_declared_table_gets_its_first_rows(catalog: DirectoryNamespace, place: Place) -> None:
    declare(catalog, "people")

    begin(catalog, "people", mode="create", rows=PEOPLE).finish()

    assert contents(catalog, place, "people") == PEOPLE


@on_disk
@with_manifest
def test_a_write_below_a_namespace_keeps_its_properties(
    catalog: DirectoryNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    pending = catalog.writes.begin(["prod", "people"], "create", properties={"owner": "ada"})
    written = fragments.write(pending, PEOPLE.to_reader())

    catalog.writes.finish(pending, written, PEOPLE.schema)

    assert describe(catalog, "prod", "people").properties == {"owner": "ada"}
    assert contents(catalog, place, "prod", "people") == PEOPLE


@on_disk
def test_a_table_without_rows_can_be_written(catalog: DirectoryNamespace, place: Place) -> None:
    pending = catalog.writes.begin(["people"], "create")

    catalog.writes.finish(pending, [], PEOPLE.schema)

    assert contents(catalog, place, "people") == PEOPLE.slice(0, 0)


def test_what_the_caller_says_of_a_commit_is_in_it(
    catalog: DirectoryNamespace, place: Place
) -> None:
    for mode in ("create", "append", "overwrite"):
        write = begin(catalog, "people", mode=mode)
        version = write.finish(transaction_properties={"batch": mode}).version

        written = dataset(catalog, place, "people").read_transaction(version)
        assert written is not None
        assert (written.transaction_properties or {})["batch"] == mode


# -- new columns


def test_an_append_can_bring_columns_in_the_same_commit(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    table = dataset(catalog, place, "people")
    table.create_scalar_index("name", "BTREE")
    wider = pa.table(
        {
            "place": pa.array([{"town": "ulm", "spot": [1.0, 2.0]}]),
            "name": ["fay"],
            "age": pa.array([7], pa.int16()),
            "id": [6],
        }
    )

    created = begin(catalog, "people", mode="append", rows=wider, evolves=True).finish()

    table = dataset(catalog, place, "people")
    assert table.version == created.version == 3
    assert table.schema.names == ["id", "name", "place", "age"]
    assert table.to_table(filter="name = 'fay'").to_pylist() == [
        {"id": 6, "name": "fay", "place": {"town": "ulm", "spot": [1.0, 2.0]}, "age": 7}
    ]
    assert table.to_table(columns=["age"])["age"].to_pylist() == [None, None, None, 7]
    assert [index.name for index in table.describe_indices()] == ["name_idx"]
    begin(catalog, "people", mode="append", rows=wider).finish()
    assert dataset(catalog, place, "people").count_rows() == 5


@on_disk
def test_columns_that_were_dropped_before_do_not_come_back(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    dataset(catalog, place, "people").drop_columns(["id"])
    wider = pa.table({"name": ["fay"], "age": [7]})

    begin(catalog, "people", mode="append", rows=wider, evolves=True).finish()

    rows = contents(catalog, place, "people").to_pydict()
    assert rows == {"name": ["ada", "bo", "cy", "fay"], "age": [None, None, None, 7]}


@on_disk
def test_new_columns_come_on_top_of_other_appends(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    wider = begin(
        catalog, "people", mode="append", rows=MORE.append_column("age", [[1, 2]]), evolves=True
    )
    begin(catalog, "people", mode="append").finish()

    wider.finish()

    assert contents(catalog, place, "people")["age"].to_pylist() == [None] * 5 + [1, 2]


# -- together with others


def test_appends_go_together(catalog: DirectoryNamespace, reopen: Reopen, place: Place) -> None:
    create(catalog, "people")
    first, second = (
        begin(catalog, "people", mode="append"),
        begin(reopen(), "people", mode="append"),
    )

    versions = [second.finish().version, first.finish().version]

    assert versions == [2, 3]
    assert contents(catalog, place, "people").num_rows == 7


def test_an_overwrite_does_not_win_over_a_newer_append(
    catalog: DirectoryNamespace, reopen: Reopen, place: Place
) -> None:
    create(catalog, "people")
    late = begin(catalog, "people", mode="overwrite", rows=PLANTS)
    begin(reopen(), "people", mode="append").finish()

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert contents(catalog, place, "people") == pa.concat_tables([PEOPLE, MORE])
    _leaves_nothing(place, late)


def test_an_append_to_what_was_overwritten_meanwhile_is_refused(
    catalog: DirectoryNamespace, reopen: Reopen, place: Place
) -> None:
    create(catalog, "people")
    late = begin(catalog, "people", mode="append")
    begin(reopen(), "people", mode="overwrite", rows=PLANTS).finish()

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert contents(catalog, place, "people") == PLANTS
    _leaves_nothing(place, late)


@on_disk
def test_an_append_to_a_column_that_changed_its_type_is_refused(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    late = begin(catalog, "people", mode="append")
    dataset(catalog, place, "people").alter_columns({"path": "id", "data_type": pa.int32()})

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert contents(catalog, place, "people").num_rows == 3
    _leaves_nothing(place, late)


@on_disk
def test_an_append_with_an_expected_version_is_a_compare_and_swap(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    strict = begin(catalog, "people", mode="append")
    begin(catalog, "people", mode="append").finish()

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        strict.finish(expected_version=1)

    assert strict.finish(expected_version=2).version == 3, "its files are kept for another try"
    rows = dataset(catalog, place, "people").to_table(columns=["id"], with_row_id=True)
    assert rows["id"].to_pylist() == [1, 2, 3, 4, 5, 4, 5]
    assert len(set(rows["_rowid"].to_pylist())) == 7


@on_disk
def test_of_two_creates_one_wins_and_the_other_leaves_nothing(
    catalog: DirectoryNamespace, reopen: Reopen, place: Place
) -> None:
    first = begin(catalog, "people", mode="create", rows=PEOPLE)
    second = begin(reopen(), "people", mode="create", rows=PLANTS)
    third = begin(reopen(), "people", mode="exist_ok", rows=PLANTS)
    fourth = begin(reopen(), "people", mode="append", rows=MORE)
    assert second.finish().version == 1

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        first.finish()
    assert third.finish().version == 1
    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        fourth.finish()

    assert contents(catalog, place, "people") == PLANTS
    for loser in (first, third, fourth):
        _leaves_nothing(place, loser)


# -- against a drop, an undrop and a purge


@pytest.mark.parametrize("mode_of_write", ["append", "overwrite"])
def test_a_table_that_was_dropped_meanwhile_is_not_written(
    catalog: DirectoryNamespace, place: Place, mode_of_write: str
) -> None:
    create(catalog, "people")
    late = begin(catalog, "people", mode=mode_of_write)
    drop(catalog, "people")

    with refused(ErrorCode.TABLE_NOT_FOUND):
        late.finish()

    _leaves_nothing(place, late)
    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PEOPLE


@on_disk
@pytest.mark.parametrize("mode_of_write", ["append", "overwrite"])
def test_a_table_of_the_same_name_is_another_table(
    catalog: DirectoryNamespace, place: Place, mode_of_write: str
) -> None:
    create(catalog, "people")
    late = begin(catalog, "people", mode=mode_of_write)
    _purge(catalog)
    create(catalog, "people")

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert contents(catalog, place, "people") == PEOPLE
    _leaves_nothing(place, late)


@on_disk
def test_a_create_over_what_is_purged_meanwhile_is_refused(
    catalog: DirectoryNamespace, mode: Mode, place: Place
) -> None:
    """At a V1 location the purge has listed the files of the write, and deletes them."""
    create(catalog, "people")
    drop(catalog, "people")
    late = begin(catalog, "people", mode="create", rows=PLANTS)
    catalog.purge_table(["people"])

    if mode.lists_directories:
        with refused(ErrorCode.CONCURRENT_MODIFICATION):
            late.finish()
        _leaves_nothing(place, late)
        assert tables(catalog) == []
        late = begin(catalog, "people", mode="create", rows=PLANTS)

    late.finish()
    assert contents(catalog, place, "people") == PLANTS


@on_disk
def test_a_whole_life_between_the_two_halves_is_noticed(
    catalog: DirectoryNamespace, mode: Mode, place: Place
) -> None:
    """Nothing was there, and nothing is there again: yet a purge has taken the files."""
    late = begin(catalog, "people", mode="create", rows=PLANTS)
    create(catalog, "people")
    _purge(catalog)

    if mode.lists_directories:
        with refused(ErrorCode.CONCURRENT_MODIFICATION):
            late.finish()
        _leaves_nothing(place, late)
        assert tables(catalog) == []
        late = begin(catalog, "people", mode="create", rows=PLANTS)

    late.finish()
    assert contents(catalog, place, "people") == PLANTS


@on_disk
@with_directory_listing
def test_a_create_over_what_is_brought_back_meanwhile_is_refused(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    late = begin(catalog, "people", mode="create", rows=PLANTS)
    catalog.undrop_table(["people"])

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert contents(catalog, place, "people") == PEOPLE
    _leaves_nothing(place, late)


@on_disk
@with_directory_listing
@pytest.mark.parametrize("mode_of_write", ["append", "overwrite"])
def test_a_table_that_was_dropped_and_brought_back_is_not_as_it_was(
    catalog: DirectoryNamespace, place: Place, mode_of_write: str
) -> None:
    create(catalog, "people")
    late = begin(catalog, "people", mode=mode_of_write)
    drop(catalog, "people")
    catalog.undrop_table(["people"])

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert contents(catalog, place, "people") == PEOPLE
    _leaves_nothing(place, late)


@on_disk
@with_directory_listing
def test_a_create_that_has_to_start_over_does_not_use_its_files_again(
    catalog: DirectoryNamespace,
    reopen: Reopen,
    faulty: tuple[DirectoryNamespace, FaultyStore],
    place: Place,
) -> None:
    """It has claimed the name, and an unaware writer takes the number: its files are gone then."""
    create(catalog, "people")
    drop(catalog, "people")
    client, store = faulty
    late = begin(client, "people", mode="create", rows=MORE)
    store.plan(
        Fault.STALL_AFTER,
        verb="replace",
        key="people.deleted",
        hook=lambda: write_unaware(place, "people.lance", PLANTS),
    )

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert not store.pending
    _leaves_nothing(place, late)
    with clocks_ahead(DAY):
        later = reopen()
    create(later, "people", data=PEOPLE)
    assert contents(later, place, "people") == PEOPLE


@on_disk
def test_a_create_over_a_dropped_table_goes_on_counting(
    catalog: DirectoryNamespace, mode: Mode, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    created = begin(catalog, "people", mode="create", rows=PLANTS).finish()

    assert created.version == (2 if mode.lists_directories else 1)
    assert contents(catalog, place, "people") == PLANTS
    _purge(catalog)
    created = begin(catalog, "people", mode="overwrite", rows=MORE).finish()
    assert created.version == (3 if mode.lists_directories else 1)
    assert contents(catalog, place, "people") == MORE


@pytest.mark.parametrize("meanwhile", [lambda c: drop(c, "people"), _purge], ids=["drop", "purge"])
@pytest.mark.parametrize("mode_of_write", ["append", "overwrite"])
@on_disk
def test_a_drop_between_the_look_and_the_commit_is_noticed_after_it(
    catalog: DirectoryNamespace,
    reopen: Reopen,
    monkeypatch: pytest.MonkeyPatch,
    mode_of_write: str,
    meanwhile: Callable[[DirectoryNamespace], object],
) -> None:
    create(catalog, "people")
    client = reopen()
    late = begin(client, "people", mode=mode_of_write)
    commit = "stage" if mode_of_write == "overwrite" else "append"
    without_delay = getattr(client.services.files, commit)

    def slow(*given: Any) -> Any:
        meanwhile(catalog)
        return without_delay(*given)

    monkeypatch.setattr(client.services.files, commit, slow)

    with refused(ErrorCode.TABLE_NOT_FOUND, ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert tables(catalog) == []


@on_disk
@with_directory_listing
def test_a_create_that_is_overtaken_after_its_commit_is_not_acknowledged(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore]
) -> None:
    client, store = faulty
    late = begin(client, "people", mode="create", rows=PLANTS)
    store.plan(Fault.STALL, verb="get", key="people.deleted", after=1, hook=lambda: _purge(catalog))

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        late.finish()

    assert not store.pending
    assert tables(catalog) == []


@on_disk
@with_manifest
def test_a_renamed_table_is_not_written_under_its_old_name(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    late = begin(catalog, "people", mode="append")
    rename(catalog, "people", to="folk")

    with refused(ErrorCode.TABLE_NOT_FOUND):
        late.finish()

    assert contents(catalog, place, "folk") == PEOPLE


@on_disk
@with_manifest
def test_a_table_that_was_renamed_before_is_written_where_it_lies(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    rename(catalog, "people", to="folk")

    begin(catalog, "folk", mode="append").finish()
    begin(catalog, "people", mode="create", rows=PLANTS).finish()

    assert contents(catalog, place, "folk").num_rows == 5
    assert contents(catalog, place, "people") == PLANTS


# -- giving up


def test_a_write_that_is_abandoned_leaves_nothing(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    location = place.key(describe(catalog, "people").location or "")
    before = bytes_below(place, location)
    late = begin(catalog, "people", mode="append", tasks=2)
    assert len(bytes_below(place, location)) == len(before) + 2

    assert late.abandon()

    assert bytes_below(place, location) == before
    assert contents(catalog, place, "people") == PEOPLE


@on_disk
@pytest.mark.parametrize("mode_of_write", ["create", "append", "overwrite"])
def test_what_a_commit_owns_is_never_abandoned(
    catalog: DirectoryNamespace, place: Place, mode_of_write: str
) -> None:
    if mode_of_write != "create":
        create(catalog, "people")
    write = begin(catalog, "people", mode=mode_of_write)
    write.finish()
    begin(catalog, "people", mode="overwrite", rows=PLANTS).finish()

    assert not write.abandon()
    for key in place.files():
        if key.endswith(".txn"):
            catalog.context.store.delete(key)
    assert not write.abandon(), "the version tells, if the transaction was cleaned up"

    older = dataset(catalog, place, "people", version=write.pending.read_version + 1)
    assert older.to_table().num_rows >= 2


@on_disk
def test_what_a_commit_may_still_come_to_own_is_never_abandoned(
    catalog: DirectoryNamespace, place: Place
) -> None:
    """The answer was lost and the manifest is on its way: only its transaction is there yet."""
    create(catalog, "people")
    write = begin(catalog, "people", mode="append")
    version = write.finish().version
    location = write.pending.table.location
    (manifest,) = [
        key
        for key in bytes_below(place, location)
        if key.endswith(f"/{2**64 - 1 - version:020d}.manifest")
    ]
    late = place.read(manifest)
    catalog.context.store.delete(manifest)

    assert not write.abandon()

    place.write(manifest, late)
    assert contents(catalog, place, "people").num_rows == 5


@on_disk
def test_files_of_a_task_that_was_killed_are_swept_by_name(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    pending = catalog.writes.begin(["people"], "append")

    def task() -> list[str]:
        note = lambda name: catalog.writes.note_file(pending, name)  # noqa: E731
        return fragments.write(pending, MORE.to_reader(), note=note)

    killed, counted = task(), task()
    foreign = begin(catalog, "people", mode="append")
    catalog.writes.finish(pending, counted, MORE.schema)

    assert catalog.writes.sweep(pending, counted) == 1

    files = {key.rpartition("/")[2] for key in place.files()}
    assert not files & fragments.file_names(killed)
    assert not any(key.startswith("__writes/") and state for key, state in place.files().items())
    foreign.finish()
    assert contents(catalog, place, "people").num_rows == 7


@on_disk
def test_limits_of_files_hold(catalog: DirectoryNamespace, place: Place) -> None:
    pending = catalog.writes.begin(["people"], "create")
    limits = fragments.FileLimits(rows=2, storage_version="2.1")

    written = fragments.write(pending, PEOPLE.to_reader(), limits)
    catalog.writes.finish(pending, written, PEOPLE.schema)

    table = dataset(catalog, place, "people")
    assert [fragment.count_rows() for fragment in table.get_fragments()] == [2, 1]
    assert table.data_storage_version == "2.1"
    for wrong in ({"rows": 0}, {"bytes": -1}, {"storage_version": "7"}):
        with refused(ErrorCode.INVALID_INPUT):
            fragments.FileLimits(**wrong)
