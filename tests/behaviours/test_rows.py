"""Changes of rows: insert, merge, update, delete."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours import data
from tests.behaviours.calls import create, ipc_file, refused
from tests.behaviours.data import POINTS, count, ids, insert, merge, query, update
from tests.behaviours.modes import V2
from tests.behaviours.places import Place
from tests.behaviours.trash import on_disk

Catalog = api.LanceNamespace

one_mode = pytest.mark.parametrize("mode", [V2], indirect=True, ids=str)

NEWER = pa.table({"id": [4, 5], "text": ["new", "new"]})


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    create(catalog, "points", data=POINTS)
    return catalog


def _texts(catalog: Catalog) -> dict[int, str]:
    rows = query(catalog, columns=["id", "text"]).to_pylist()
    return {row["id"]: row["text"] for row in rows}


def test_rows_are_added(points: Catalog) -> None:
    answer = insert(points, POINTS.slice(0, 2))
    assert (answer.version, answer.num_inserted_rows) == (2, 2)
    assert ids(points) == [1, 1, 2, 2, 3, 4]


def test_rows_take_the_place_of_all_others(points: Catalog) -> None:
    answer = insert(points, pa.table({"plant": ["oak"]}), mode="Overwrite")
    assert answer.version == 2
    assert query(points).to_pylist() == [{"plant": "oak"}]
    assert query(points, version=1) == POINTS


def test_rows_are_merged_by_their_keys(points: Catalog) -> None:
    answer = merge(points, NEWER, when_matched_update_all=True, when_not_matched_insert_all=True)
    assert (answer.num_updated_rows, answer.num_inserted_rows, answer.num_deleted_rows) == (1, 1, 0)
    assert answer.version == 2
    assert _texts(points) | {4: "new", 5: "new"} == _texts(points)
    assert count(points) == 5


def test_rows_are_updated(points: Catalog) -> None:
    answer = update(points, ("text", "upper(text)"), ("id", "id + 10"), where="id > 3")
    assert (answer.version, answer.updated_rows) == (2, 1)
    assert _texts(points)[14] == "A GREY CAT"
    assert update(points, ("text", "'same'")).updated_rows == 4


def test_rows_are_deleted(points: Catalog) -> None:
    assert data.delete(points, "id IN (1, 3)").version == 2
    assert ids(points) == [2, 4]


def test_a_change_that_finds_others_first_comes_after_them(points: Catalog) -> None:
    with _changing(points) as stale:
        insert(points, POINTS.slice(0, 1))
        data.delete(points, "id = 4")
        stale.insert(POINTS.slice(1, 1))
    assert ids(points) == [1, 1, 2, 2, 3]


def test_a_change_of_rows_that_others_changed_is_refused_or_made_on_theirs(
    points: Catalog,
) -> None:
    with _changing(points) as stale:
        insert(points, POINTS.slice(0, 1), mode="overwrite")
        with refused(ErrorCode.CONCURRENT_MODIFICATION):
            _delete_by(points, stale)
    assert ids(points) == [1]


def _changing(catalog: Any) -> AbstractContextManager[Any]:
    access = catalog.services.access
    changing: AbstractContextManager[Any] = access.change(access.find(["points"]))
    return changing


def _delete_by(catalog: Catalog, stale: Any) -> None:
    """What `delete_from_table` does once the table is open."""
    from tiltyard.namespace.base import operation

    class Stale(type(catalog)):  # type: ignore[misc]
        @operation("delete from table")
        def delete_stale(self) -> None:
            stale.delete("id = 2", conflict_retries=0)

    Stale(**catalog.context.settings.as_properties()).delete_stale()  # type: ignore[attr-defined]


@on_disk
@one_mode
class TestOptions:
    """Each field of a request, and what is wrong with requests."""

    def test_files_are_taken_as_streams_are(self, points: Catalog) -> None:
        request = api.InsertIntoTableRequest(id=["points"])
        answer = points.insert_into_table(request, ipc_file(POINTS))
        assert answer.num_inserted_rows == 4

    def test_columns_that_are_left_out_are_null(self, points: Catalog) -> None:
        insert(points, pa.table({"id": [9]}))
        assert query(points, filter="id = 9").to_pylist() == [
            {"id": 9, "text": None, "vector": None, "inner": None}
        ]

    def test_a_merge_without_flags_for_it_leaves_rows_alone(self, points: Catalog) -> None:
        merge(points, NEWER, when_not_matched_insert_all=True)
        assert _texts(points)[4] == "a grey cat"
        merge(points, NEWER.set_column(1, "text", [["x", "y"]]), when_matched_update_all=True)
        assert (count(points), _texts(points)[4], _texts(points)[5]) == (5, "x", "y")

    def test_a_merge_updates_by_a_condition(self, points: Catalog) -> None:
        both = pa.table({"id": [1, 4], "text": ["new", "new"]})
        answer = merge(points, both, when_matched_update_all_filt="target.id > 2")
        assert answer.num_updated_rows == 1
        assert _texts(points)[1] == "the red fox"

    def test_a_merge_deletes_what_the_data_lacks(self, points: Catalog) -> None:
        whole = POINTS.slice(3)
        answer = merge(
            points,
            whole,
            when_matched_update_all=True,
            when_not_matched_by_source_delete_filt="id < 3",
        )
        assert answer.num_deleted_rows == 2
        assert ids(points) == [3, 4]
        merge(points, whole, when_matched_update_all=True, when_not_matched_by_source_delete=True)
        assert ids(points) == [4]

    def test_a_merge_takes_several_keys_an_index_and_a_timeout(self, points: Catalog) -> None:
        data.index(points, "id", "BTREE")
        rows = POINTS.slice(0, 1)
        flags = {"when_not_matched_insert_all": True, "timeout": "30s"}
        assert merge(points, rows, on=["id", "text"], **flags).num_inserted_rows == 0
        assert merge(points, rows, use_index=False, **flags).num_inserted_rows == 0

    @pytest.mark.parametrize(
        ("rows", "code"),
        [
            (pa.table({"id": ["one"]}), ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR),
            (pa.table({"nope": [1]}), ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR),
            (pa.table({"connection": [1]}), ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR),
            (pa.table([[1], [1]], names=["id", "id"]), ErrorCode.INVALID_INPUT),
        ],
        ids=["type", "column", "word", "twice"],
    )
    def test_rows_that_do_not_fit_are_refused(
        self, points: Catalog, place: Place, rows: pa.Table, code: ErrorCode
    ) -> None:
        before = place.files()
        with refused(code):
            insert(points, rows)
        assert place.files() == before

    @pytest.mark.parametrize("body", [b"", b"nonsense", b"ARROW1\x00\x00", ipc_file(POINTS)[:900]])
    def test_bytes_that_are_no_rows_are_refused(self, points: Catalog, body: bytes) -> None:
        with refused(ErrorCode.INVALID_INPUT):
            points.insert_into_table(api.InsertIntoTableRequest(id=["points"]), body)
        assert count(points, version=None) == 4

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            ({"on": ["nope"]}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ({"on": ["vector"]}, ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR),
            ({"on": None}, ErrorCode.INVALID_INPUT),
            ({"when_matched_update_all_filt": "target.nope"}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ({"when_matched_update_all_filt": "target.id = 1 1"}, ErrorCode.INVALID_INPUT),
            ({"timeout": "soon"}, ErrorCode.INVALID_INPUT),
            ({"when_not_matched_insert_all": False}, ErrorCode.INVALID_INPUT),
        ],
        ids=str,
    )
    def test_a_wrong_merge_says_what_is_wrong(
        self, points: Catalog, place: Place, asked: dict[str, Any], code: ErrorCode
    ) -> None:
        before = place.files()
        with refused(code):
            merge(points, NEWER, **{"when_not_matched_insert_all": True, **asked})
        assert place.files() == before

    def test_keys_that_are_not_unique_are_refused(self, points: Catalog) -> None:
        twice = pa.concat_tables([NEWER, NEWER])
        with refused(ErrorCode.INVALID_INPUT):
            merge(points, twice, when_matched_update_all=True)
        assert count(points) == 4

    @pytest.mark.parametrize(
        ("updates", "where", "code"),
        [
            ([("nope", "1")], None, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ([("id", "nope + 1")], None, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ([("id", "1")], "nope = 1", ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ([("id", "1 1")], None, ErrorCode.INVALID_INPUT),
            ([("id", "")], None, ErrorCode.INVALID_INPUT),
            ([("id", "'x'")], None, ErrorCode.INVALID_INPUT),
            ([("id", "1")], "id =", ErrorCode.INVALID_INPUT),
            ([("id", "id / 0")], None, ErrorCode.INVALID_INPUT),
            ([("id", "1")], "id = 1 AN id = 2", ErrorCode.INVALID_INPUT),
            ([("id", "1"), ("id", "2")], None, ErrorCode.INVALID_INPUT),
            ([("inner.x", "1")], None, ErrorCode.UNSUPPORTED),
        ],
    )
    def test_a_wrong_update_says_what_is_wrong(
        self,
        points: Catalog,
        updates: list[tuple[str, str]],
        where: str | None,
        code: ErrorCode,
    ) -> None:
        with refused(code):
            update(points, *updates, where=where)
        assert query(points) == POINTS

    def test_properties_are_not_for_an_update(self, points: Catalog) -> None:
        with refused(ErrorCode.UNSUPPORTED):
            update(points, ("id", "1"), properties={"owner": "ada"})

    @pytest.mark.parametrize(
        ("where", "code"),
        [
            ("nope = 1", ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ("id =", ErrorCode.INVALID_INPUT),
            ("id = 1 AN text = 'x'", ErrorCode.INVALID_INPUT),
            ("", ErrorCode.INVALID_INPUT),
        ],
    )
    def test_a_wrong_condition_deletes_nothing(
        self, points: Catalog, where: str, code: ErrorCode
    ) -> None:
        with refused(code):
            data.delete(points, where)
        assert query(points) == POINTS
