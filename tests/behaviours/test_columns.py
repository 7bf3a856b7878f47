"""Changes of columns, and of what is noted about them."""

from __future__ import annotations

from typing import Any

import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client import models

from tests.behaviours import data
from tests.behaviours.calls import create, refused
from tests.behaviours.data import POINTS, add_column, query
from tests.behaviours.modes import V2
from tests.behaviours.places import Place
from tests.behaviours.trash import on_disk

Catalog = api.LanceNamespace

one_mode = pytest.mark.parametrize("mode", [V2], indirect=True, ids=str)


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    create(catalog, "points", data=POINTS)
    return catalog


def _alter(catalog: Catalog, path: str, **rest: Any) -> int:
    request = api.AlterTableAlterColumnsRequest(
        id=["points"], alterations=[models.AlterColumnsEntry(path=path, **rest)]
    )
    return catalog.alter_table_alter_columns(request).version


def _drop(catalog: Catalog, *columns: str) -> int:
    request = api.AlterTableDropColumnsRequest(id=["points"], columns=list(columns))
    return catalog.alter_table_drop_columns(request).version


def _note(catalog: Catalog, **metadata: str) -> dict[str, str] | None:
    request = api.UpdateTableSchemaMetadataRequest(id=["points"], metadata=metadata)
    return catalog.update_table_schema_metadata(request).metadata


def _note_fields(
    catalog: Catalog, *updates: tuple[str, dict[str, str | None], bool]
) -> dict[str, dict[str, str]] | None:
    entries = [
        models.UpdateFieldMetadataEntry(path=path, metadata=metadata, replace=replace)
        for path, metadata, replace in updates
    ]
    request = api.UpdateFieldMetadataRequest(id=["points"], updates=entries)
    return catalog.update_field_metadata(request).fields


def test_columns_are_added_by_expressions(points: Catalog) -> None:
    entries = [
        models.AddColumnsEntry(name="twice", expression="id * 2"),
        models.AddColumnsEntry(name="loud", expression="upper(text)"),
    ]
    request = api.AlterTableAddColumnsRequest(id=["points"], new_columns=entries)
    assert points.alter_table_add_columns(request).version == 2
    assert query(points, columns=["twice", "loud"], k=1).to_pylist() == [
        {"twice": 2, "loud": "THE RED FOX"}
    ]


def test_columns_are_renamed_cast_and_made_nullable(points: Catalog) -> None:
    assert _alter(points, "id", rename="number", data_type={"type": "int32"}) == 2
    assert query(points).schema.field("number").type == pa.int32()
    assert _alter(points, "text", nullable=False) == 3
    assert not query(points).schema.field("text").nullable
    assert _alter(points, "inner.x", rename="y") == 4
    assert query(points, columns=["inner.y"], k=1).to_pylist() == [{"inner.y": 1}]


def test_columns_are_dropped(points: Catalog) -> None:
    assert _drop(points, "text", "inner") == 2
    assert query(points).schema.names == ["id", "vector"]
    assert query(points, version=1) == POINTS


def test_the_schema_has_notes(points: Catalog) -> None:
    assert _note(points, owner="ada") == {"owner": "ada"}
    assert _note(points, team="blue") == {"owner": "ada", "team": "blue"}


def test_fields_have_notes(points: Catalog) -> None:
    assert _note_fields(points, ("id", {"unit": "none"}, False)) == {"id": {"unit": "none"}}
    kept = _note_fields(points, ("id", {"since": "1"}, False), ("inner.x", {"a": "b"}, False))
    assert kept == {"id": {"unit": "none", "since": "1"}, "inner.x": {"a": "b"}}
    kept = _note_fields(
        points, ("id", {"unit": None, "more": "2"}, False), ("inner.x", {"c": "d"}, True)
    )
    assert kept == {"id": {"since": "1", "more": "2"}, "inner.x": {"c": "d"}}


@on_disk
@one_mode
class TestRefusals:
    """What is wrong with a request changes nothing."""

    @pytest.mark.parametrize(
        ("name", "expression", "code"),
        [
            ("new", "nope + 1", ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ("new", "id id", ErrorCode.INVALID_INPUT),
            ("new", "", ErrorCode.INVALID_INPUT),
            ("new", None, ErrorCode.INVALID_INPUT),
            ("", "id", ErrorCode.INVALID_INPUT),
            ("id", "id + 1", ErrorCode.INVALID_INPUT),
        ],
    )
    def test_a_wrong_new_column(
        self,
        points: Catalog,
        place: Place,
        name: str,
        expression: str | None,
        code: ErrorCode,
    ) -> None:
        before = place.files()
        with refused(code):
            points.alter_table_add_columns(add_column(name, expression))
        assert place.files() == before

    @pytest.mark.parametrize(
        ("path", "asked", "code"),
        [
            ("nope", {"rename": "x"}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ("inner.nope", {"rename": "x"}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ("id", {}, ErrorCode.INVALID_INPUT),
            ("id", {"rename": ""}, ErrorCode.INVALID_INPUT),
            ("text", {"rename": "a.b"}, ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR),
            ("id", {"data_type": {"type": "wood"}}, ErrorCode.INVALID_INPUT),
            ("id", {"data_type": {"kind": "int64"}}, ErrorCode.INVALID_INPUT),
            ("id", {"data_type": {"type": "utf8", "unit": "s"}}, ErrorCode.INVALID_INPUT),
            ("text", {"data_type": {"type": "int32"}}, ErrorCode.INVALID_INPUT),
            ("text", {"rename": "id"}, ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR),
            (
                "id",
                {"virtual_column": models.AlterVirtualColumnEntry(udf="x")},
                ErrorCode.UNSUPPORTED,
            ),
        ],
        ids=str,
    )
    def test_a_wrong_alteration(
        self, points: Catalog, path: str, asked: dict[str, Any], code: ErrorCode
    ) -> None:
        with refused(code):
            _alter(points, path, **asked)
        assert query(points) == POINTS

    def test_a_column_with_nulls_stays_nullable(self, points: Catalog) -> None:
        data.insert(points, pa.table({"id": [9]}))
        with refused(ErrorCode.INVALID_INPUT):
            _alter(points, "text", nullable=False)

    def test_a_type_that_is_too_small_for_the_values(self, points: Catalog) -> None:
        data.update(points, ("id", "3000000000"), where="id = 1")
        with refused(ErrorCode.INVALID_INPUT):
            _alter(points, "id", data_type={"type": "int32"})

    def test_columns_that_functions_would_fill(self, points: Catalog) -> None:
        entry = models.AddColumnsEntry(name="new", computed="id * 2")
        request = api.AlterTableAddColumnsRequest(id=["points"], new_columns=[entry])
        with refused(ErrorCode.UNSUPPORTED) as caught:
            points.alter_table_add_columns(request)
        assert "runs no functions" in caught.value.message

    @pytest.mark.parametrize(
        ("columns", "code"),
        [
            (["nope"], ErrorCode.TABLE_COLUMN_NOT_FOUND),
            (["text", "nope"], ErrorCode.TABLE_COLUMN_NOT_FOUND),
            (POINTS.schema.names, ErrorCode.INVALID_INPUT),
            ([], ErrorCode.INVALID_INPUT),
        ],
    )
    def test_wrong_columns_to_drop(
        self, points: Catalog, columns: list[str], code: ErrorCode
    ) -> None:
        with refused(code):
            _drop(points, *columns)
        assert query(points) == POINTS

    def test_wrong_notes(self, points: Catalog) -> None:
        with refused(ErrorCode.INVALID_INPUT):
            _note(points)
        with refused(ErrorCode.TABLE_COLUMN_NOT_FOUND):
            _note_fields(points, ("nope", {"a": "b"}, False))
        with refused(ErrorCode.INVALID_INPUT):
            _note_fields(points, ("id", {"a": "b"}, False), ("ID", {"c": "d"}, False))

    def test_a_column_that_is_nearly_right_is_suggested(self, points: Catalog) -> None:
        with refused(ErrorCode.TABLE_COLUMN_NOT_FOUND) as caught:
            _drop(points, "txt")
        assert caught.value.hint == "did you mean 'text'?"
