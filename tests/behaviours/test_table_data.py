"""What holds for every operation on the data of a table, whatever it does."""

from __future__ import annotations

import inspect
from typing import Any

import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours import data
from tests.behaviours.calls import contents, create, declare, drop, exists, refused
from tests.behaviours.data import CHANGES, DATA_CALLS, POINTS, READS, REFUSALS
from tests.behaviours.modes import V2
from tests.behaviours.places import Place
from tests.behaviours.trash import on_disk
from tiltyard import DirectoryNamespace

Catalog = api.LanceNamespace

one_mode = pytest.mark.parametrize("mode", [V2], indirect=True, ids=str)


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    """A table with an index, a tag, a branch and two versions."""
    create(catalog, "points", data=POINTS)
    data.index(catalog, "id", "BTREE")
    data.tag(catalog, "first", 1)
    data.branch(catalog, "side", from_version=1)
    return catalog


def _version(catalog: Catalog) -> int:
    request = api.ListTableVersionsRequest(id=["points"], descending=True, limit=1)
    return catalog.list_table_versions(request).versions[0].version


def test_no_operation_of_the_interface_is_missing() -> None:
    without = [
        name
        for name, method in inspect.getmembers(api.LanceNamespace, inspect.isfunction)
        if not name.startswith("_") and getattr(DirectoryNamespace, name) is method
    ]
    assert without == []


@pytest.mark.parametrize("name", DATA_CALLS)
def test_each_operation_works(points: Catalog, name: str) -> None:
    before = _version(points)
    DATA_CALLS[name](points)
    assert _version(points) == before + (name in CHANGES)


def test_every_wrong_request_changes_nothing(points: Catalog, place: Place) -> None:
    before = place.files()
    for name, (call, code) in REFUSALS.items():
        with refused(code) as caught:
            call(points)
        assert caught.value.message, name
    assert place.files() == before
    listed = points.list_table_tags, points.list_table_branches
    assert set(REFUSALS) == set(DATA_CALLS) - {call.__name__ for call in listed}


def test_nothing_can_be_done_with_a_dropped_table(points: Catalog, place: Place) -> None:
    drop(points, "points")
    before = place.files()
    for call in DATA_CALLS.values():
        with refused(ErrorCode.TABLE_NOT_FOUND) as caught:
            call(points)
        assert "undrop_table" in (caught.value.hint or "")
    assert place.files() == before


@on_disk
@one_mode
@pytest.mark.parametrize("name", DATA_CALLS)
def test_a_table_without_data_says_so(catalog: Catalog, name: str) -> None:
    declare(catalog, "points")
    if name == "insert_into_table":
        data.insert(catalog)
        assert data.count(catalog) == len(POINTS)
        return
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND) as caught:
        DATA_CALLS[name](catalog)
    assert "holds no data yet" in caught.value.message


@on_disk
@pytest.mark.parametrize("name", READS)
def test_reading_writes_nothing(points: Catalog, place: Place, name: str) -> None:
    before = place.files()
    READS[name](points)
    assert place.files() == before


@pytest.mark.parametrize("name", ["insert_into_table", "delete_from_table", "create_table_index"])
def test_a_table_that_is_dropped_under_a_change_does_not_change(
    points: Catalog, place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = points.services.versions.create  # type: ignore[attr-defined]

    def dropping(new: object) -> object:
        monkeypatch.undo()
        drop(points, "points")
        return publish(new)

    monkeypatch.setattr(points.services.versions, "create", dropping)  # type: ignore[attr-defined]
    with refused(ErrorCode.TABLE_NOT_FOUND, ErrorCode.CONCURRENT_MODIFICATION):
        DATA_CALLS[name](points)
    assert not exists(points, "points")


def test_what_is_done_here_is_seen_by_pylance(points: Catalog, place: Place) -> None:
    data.insert(points, POINTS.slice(0, 1))
    data.delete(points, "id > 2")
    assert contents(points, place, "points")["id"].to_pylist() == [1, 2, 1]


@on_disk
@one_mode
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            lambda c: c.create_materialized_view(
                api.CreateMaterializedViewRequest(
                    id=["view"], kind="query", source_query="SELECT 1", output_schema="{}"
                )
            ),
            "nothing would refresh",
        ),
        (
            lambda c: c.refresh_materialized_view(api.RefreshMaterializedViewRequest(id=["view"])),
            "nothing would refresh",
        ),
        (
            lambda c: c.alter_table_backfill_columns(
                api.AlterTableBackfillColumnsRequest(id=["points"], column="id")
            ),
            "runs no functions",
        ),
    ],
)
def test_what_a_directory_can_not_do_is_refused_with_the_reason(
    points: Catalog, call: object, reason: str
) -> None:
    with refused(ErrorCode.UNSUPPORTED) as caught:
        call(points)  # type: ignore[operator]
    assert reason in caught.value.message


@on_disk
@one_mode
def test_requests_may_be_plain_mappings(points: Catalog) -> None:
    counting: Any = {"id": ["points"], "predicate": "id > 2"}
    assert points.count_table_rows(counting).count == 2
    with refused(ErrorCode.INVALID_INPUT) as caught:
        points.count_table_rows({**counting, "version": -1})
    assert "version" in caught.value.message


def test_a_table_is_made_without_data_as_older_clients_ask_for_it(catalog: Catalog) -> None:
    request = api.CreateTableRequest(id=["points"])
    assert catalog.create_empty_table(request).location
    data.insert(catalog)
    assert data.count(catalog) == len(POINTS)
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        catalog.create_empty_table(request)
    with refused(ErrorCode.INVALID_INPUT):
        catalog.create_empty_table(api.CreateTableRequest(id=["other"], mode="overwrite"))


def test_rows_of_every_shape_come_back_as_they_went_in(catalog: Catalog) -> None:
    odd = pa.table(
        {
            "id": pa.array([1]),
            "price": pa.array([1], pa.decimal128(10, 2)),
            "at": pa.array([0], pa.timestamp("us", "UTC")),
            "bytes": pa.array([b"\x00\xff"], pa.large_binary()),
            "none": pa.array([None], pa.string()),
            "list": pa.array([["a", None]], pa.list_(pa.string())),
        }
    )
    create(catalog, "points", data=odd)
    data.insert(catalog, odd)
    assert data.query(catalog).to_pylist() == odd.to_pylist() * 2
