"""Indexes: every type that Lance builds, and what is told about them."""

from __future__ import annotations

from typing import Any

import lance_namespace as api
import numpy as np
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours import data
from tests.behaviours.calls import create, refused
from tests.behaviours.data import POINTS, ids, index, indexes, matching_ids
from tests.behaviours.modes import V2
from tests.behaviours.places import Place
from tests.behaviours.trash import on_disk
from tiltyard.tables.indexes import SCALAR_TYPES, VECTOR_TYPES

Catalog = api.LanceNamespace

one_mode = pytest.mark.parametrize("mode", [V2], indirect=True, ids=str)

ROWS = 300
_numbers = np.random.default_rng(7)
MANY = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "text": pa.array([f"word{row % 7} and {row}" for row in range(ROWS)]),
        "labels": pa.array([["a", "b"] if row % 2 else ["c"] for row in range(ROWS)]),
        "vector": pa.FixedSizeListArray.from_arrays(
            pa.array(_numbers.random(ROWS * 16, dtype=np.float32)), 16
        ),
        "place": pa.array(
            [{"x": float(row), "y": float(row)} for row in range(ROWS)],
            pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64(), False)]),
        ),
    },
    schema=pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("text", pa.string()),
            pa.field("labels", pa.list_(pa.string())),
            pa.field("vector", pa.list_(pa.float32(), 16)),
            pa.field(
                "place",
                pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64(), False)]),
                metadata={"ARROW:extension:name": "geoarrow.point"},
            ),
        ]
    ),
)
COLUMNS = {
    "LABEL_LIST": "labels",
    "NGRAM": "text",
    "MINHASHLSH": "text",
    "FTS": "text",
    "INVERTED": "text",
    "RTREE": "place",
}


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    create(catalog, "points", data=POINTS)
    return catalog


def _drop(catalog: Catalog, name: str | None) -> None:
    catalog.drop_table_index(api.DropTableIndexRequest(id=["points"], index_name=name))


def _stats(catalog: Catalog, name: str | None) -> api.DescribeTableIndexStatsResponse:
    request = api.DescribeTableIndexStatsRequest(id=["points"], index_name=name)
    return catalog.describe_table_index_stats(request)


def test_an_index_is_built_listed_described_and_dropped(points: Catalog) -> None:
    assert index(points, "id", "btree").transaction_id
    data.insert(points, POINTS.slice(0, 1))
    (listed,) = indexes(points).values()
    assert (listed.index_name, listed.columns, listed.status) == ("id_idx", ["id"], "SUCCEEDED")
    assert (listed.num_indexed_rows, listed.num_unindexed_rows) == (4, 1)
    stats = _stats(points, "id_idx")
    assert (stats.index_type, stats.num_indexed_rows, stats.num_unindexed_rows) == ("BTree", 4, 1)
    _drop(points, "id_idx")
    assert indexes(points) == {}
    assert list(indexes(points, version=2)) == ["id_idx"], "older versions keep it"


@on_disk
@one_mode
class TestTypes:
    """Where the catalog lies makes no difference to them."""

    @pytest.mark.parametrize("kind", VECTOR_TYPES)
    def test_vectors(self, catalog: Catalog, kind: str) -> None:
        create(catalog, "points", data=MANY)
        index(catalog, "vector", kind, num_partitions=2, distance_type="cosine")
        (built,) = indexes(catalog).values()
        assert built.index_type == kind
        assert _stats(catalog, "vector_idx").distance_type == "cosine"
        assert len(matching_ids(catalog, vector=[0.5] * 16, k=5)) == 5

    @pytest.mark.parametrize("kind", SCALAR_TYPES)
    def test_scalars_and_texts(self, catalog: Catalog, kind: str) -> None:
        create(catalog, "points", data=MANY)
        column = COLUMNS.get(kind, "id")
        request = api.CreateTableIndexRequest(
            id=["points"], column=column, index_type=kind, name="mine"
        )
        catalog.create_table_scalar_index(request)
        (built,) = indexes(catalog).values()
        assert (built.index_name, built.columns) == ("mine", [column])
        assert ids(catalog, filter="id = 7") == [7]

    def test_vectors_have_parameters(self, catalog: Catalog) -> None:
        create(catalog, "points", data=MANY)
        shape = {"num_partitions": 2, "sample_rate": 64, "max_iterations": 5}
        index(catalog, "vector", "IVF_PQ", num_sub_vectors=4, num_bits=8, name="a", **shape)
        index(catalog, "vector", "IVF_HNSW_SQ", m=10, ef_construction=50, name="b", **shape)
        index(catalog, "vector", "IVF_FLAT", target_partition_size=100, name="c")
        details = {name: content.index_details or "" for name, content in indexes(catalog).items()}
        assert '"num_sub_vectors": 4' in details["a"]
        assert '"lance.ivf.max_iters": "5"' in details["a"]
        assert '"lance.ivf.sample_rate": "64"' in details["a"]
        assert '"max_connections": 10' in details["b"]
        assert '"construction_ef": 50' in details["b"]

    def test_texts_have_parameters(self, catalog: Catalog) -> None:
        create(catalog, "points", data=MANY)
        index(
            catalog,
            "text",
            "FTS",
            with_position=True,
            base_tokenizer="whitespace",
            language="German",
            max_token_length=20,
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
        )
        details = indexes(catalog)["text_idx"].index_details or ""
        assert '"base_tokenizer": "whitespace"' in details
        assert '"language": "German"' in details
        assert '"with_position": true' in details
        assert '"stem": false' in details

    def test_they_are_listed_in_pages(self, points: Catalog) -> None:
        for name in ("b", "c", "a"):
            index(points, "id", "BTREE", name=name)
        request = api.ListTableIndicesRequest(id=["points"], limit=2)
        first = points.list_table_indices(request)
        assert [index.index_name for index in first.indexes] == ["a", "b"]
        rest = indexes(points, page_token=first.page_token)
        assert list(rest) == ["c"]

    @pytest.mark.parametrize(
        ("column", "kind", "asked", "code"),
        [
            ("nope", "BTREE", {}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ("id", "WOOD", {}, ErrorCode.INVALID_INPUT),
            ("text", "LABEL_LIST", {}, ErrorCode.INVALID_INPUT),
            ("id", "NGRAM", {}, ErrorCode.INVALID_INPUT),
            ("vector", "BTREE", {}, ErrorCode.INVALID_INPUT),
            ("id", "IVF_FLAT", {}, ErrorCode.INVALID_INPUT),
            ("id", "FTS", {}, ErrorCode.INVALID_INPUT),
            ("id", "BTREE", {"num_partitions": 2}, ErrorCode.INVALID_INPUT),
            ("id", "BTREE", {"with_position": True}, ErrorCode.INVALID_INPUT),
            ("text", "FTS", {"distance_type": "l2"}, ErrorCode.INVALID_INPUT),
            ("text", "FTS", {"language": "Elvish"}, ErrorCode.INVALID_INPUT),
            ("text", "FTS", {"base_tokenizer": "axe"}, ErrorCode.INVALID_INPUT),
            ("vector", "IVF_FLAT", {"num_sub_vectors": 2}, ErrorCode.INVALID_INPUT),
            ("vector", "IVF_FLAT", {"distance_type": "far"}, ErrorCode.INVALID_INPUT),
            ("vector", "IVF_PQ", {"num_sub_vectors": 3}, ErrorCode.INVALID_INPUT),
            ("text", "FTS", {"name": "taken"}, ErrorCode.TABLE_INDEX_ALREADY_EXISTS),
            ("id", "BTREE", {}, ErrorCode.TABLE_INDEX_ALREADY_EXISTS),
        ],
        ids=str,
    )
    def test_a_wrong_request_builds_nothing(
        self,
        points: Catalog,
        place: Place,
        column: str,
        kind: str,
        asked: dict[str, Any],
        code: ErrorCode,
    ) -> None:
        index(points, "id", "BTREE")
        index(points, "id", "BITMAP", name="taken")
        before = place.files()
        with refused(code):
            index(points, column, kind, **asked)
        assert set(indexes(points)) == {"id_idx", "taken"}
        assert place.files() == before

    def test_only_scalars_are_built_as_scalars(self, points: Catalog) -> None:
        request = api.CreateTableIndexRequest(id=["points"], column="vector", index_type="IVF_FLAT")
        with refused(ErrorCode.INVALID_INPUT):
            points.create_table_scalar_index(request)

    @pytest.mark.parametrize("call", [_drop, _stats])
    def test_a_missing_index_is_not_found(self, points: Catalog, call: Any) -> None:
        with refused(ErrorCode.TABLE_INDEX_NOT_FOUND):
            call(points, "nope")
        with refused(ErrorCode.INVALID_INPUT):
            call(points, None)
