"""Queries: plain scans, vector and full-text search, and their plans."""

from __future__ import annotations

from typing import Any

import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client import models

from tests.behaviours import data
from tests.behaviours.calls import create, refused
from tests.behaviours.data import POINTS, count, ids, matching_ids, query
from tests.behaviours.modes import V2
from tests.behaviours.trash import on_disk

Catalog = api.LanceNamespace

one_mode = pytest.mark.parametrize("mode", [V2], indirect=True, ids=str)


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    create(catalog, "points", data=POINTS)
    return catalog


def test_without_a_vector_it_is_a_scan(points: Catalog) -> None:
    assert query(points) == POINTS
    assert query(points, k=0) == POINTS, "no limit"
    assert query(points, k=2)["id"].to_pylist() == [1, 2]
    assert query(points, k=2, offset=1)["id"].to_pylist() == [2, 3]
    assert ids(points, filter="id > 2 AND text LIKE '%bird'") == [3]


def test_the_nearest_come_first(points: Catalog) -> None:
    answer = query(points, vector=[2.2, 0], k=2)
    assert answer.schema.names == [*POINTS.schema.names, "_distance"]
    assert answer["id"].to_pylist() == [2, 3]


def test_older_versions_are_queried_and_counted(points: Catalog) -> None:
    data.delete(points, "id < 4")
    assert (count(points), count(points, version=1)) == (1, 4)
    assert (ids(points), ids(points, version=1)) == ([4], [1, 2, 3, 4])
    assert count(points, version=1, predicate="id > 1") == 3
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        query(points, version=9)


def test_texts_are_searched(points: Catalog) -> None:
    data.index(points, "text", "FTS", with_position=True)
    assert sorted(matching_ids(points, text="bird")) == [2, 3]
    assert matching_ids(points, text="bird", filter="id > 2") == [3]
    assert query(points, text="fox", columns=["id"]).schema.names == ["id", "_score"]
    phrase = models.FtsQuery(phrase=models.PhraseQuery(terms="red bird"))
    assert matching_ids(points, text=phrase) == [3]


@on_disk
@one_mode
class TestOptions:
    """Each field of a request; nothing about them depends on where the catalog lies."""

    def test_columns_are_chosen_renamed_and_computed(self, points: Catalog) -> None:
        assert query(points, columns=["id", "inner.x"]).schema.names == ["id", "inner.x"]
        computed = query(points, columns={"double": "id * 2", "x": "inner.x"}, k=1)
        assert computed.to_pylist() == [{"double": 2, "x": 1}]
        searched = query(points, columns={"n": "id"}, vector=[4, 0], k=1)
        assert searched.to_pylist() == [{"n": 4, "_distance": 0.0}]

    def test_row_ids_are_given_if_wanted(self, points: Catalog) -> None:
        assert query(points, k=1, columns=["id"], with_row_id=True).to_pylist() == [
            {"id": 1, "_rowid": 0}
        ]

    def test_a_filter_comes_first_unless_said_otherwise(self, points: Catalog) -> None:
        near = {"vector": [1, 0], "k": 2, "filter": "id > 2"}
        assert matching_ids(points, **near) == [3, 4]
        assert matching_ids(points, **near, prefilter=True) == [3, 4]
        assert matching_ids(points, **near, prefilter=False) == []

    def test_an_offset_is_counted_in_the_answer(self, points: Catalog) -> None:
        assert matching_ids(points, vector=[1, 0], k=2, offset=1) == [2, 3]

    def test_distances_have_bounds(self, points: Catalog) -> None:
        assert matching_ids(points, vector=[1, 0], lower_bound=1, upper_bound=4) == [2]

    @pytest.mark.parametrize(("kind", "best"), [("l2", 1), ("dot", 4), ("cosine", 1)])
    def test_distances_are_measured_as_asked(self, points: Catalog, kind: str, best: int) -> None:
        assert matching_ids(points, vector=[1, 0], k=1, distance_type=kind) == [best]

    def test_several_vectors_are_several_searches(self, points: Catalog) -> None:
        answer = query(points, vector=[[1, 0], [4, 0]], k=1, columns=["id"])
        assert answer.select(["query_index", "id"]).to_pylist() == [
            {"query_index": 0, "id": 1},
            {"query_index": 1, "id": 4},
        ]

    def test_several_vectors_are_one_search_in_a_column_of_lists(self, catalog: Catalog) -> None:
        kind = pa.list_(pa.list_(pa.float32(), 2))
        many = pa.array([[[1, 0], [1, 0]], [[0, 1], [1, 0]]], kind)
        create(catalog, "points", data=pa.table({"id": [1, 2], "many": many}))
        answer = query(catalog, vector=[[1, 0], [0, 1]], k=2, distance_type="cosine")
        assert answer["id"].to_pylist() == [2, 1]

    def test_an_index_is_used_and_tuned(self, points: Catalog) -> None:
        data.index(points, "vector", "IVF_FLAT", num_partitions=1)
        tuned = {"nprobes": 1, "refine_factor": 2, "ef": 10}
        assert matching_ids(points, vector=[4, 0], k=1, **tuned) == [4]
        assert matching_ids(points, vector=[4, 0], k=1, minimum_nprobes=1, maximum_nprobes=1) == [4]
        assert "ANN" in _plan(points, vector=[4, 0])
        assert "ANN" not in _plan(points, vector=[4, 0], bypass_vector_index=True)

    def test_fast_search_leaves_out_what_no_index_covers(self, points: Catalog) -> None:
        data.index(points, "vector", "IVF_FLAT", num_partitions=1)
        data.insert(points, POINTS.slice(3))
        assert matching_ids(points, vector=[4, 0], k=2) == [4, 4]
        assert matching_ids(points, vector=[4, 0], k=2, fast_search=True) == [4, 3]

    def test_the_vector_column_is_found_or_named(self, catalog: Catalog) -> None:
        two = POINTS.append_column("other", POINTS["vector"]).rename_columns(
            ["id", "text", "one", "inner", "other"]
        )
        create(catalog, "points", data=two)
        assert matching_ids(catalog, vector=[1, 0], k=1, vector_column="other") == [1]
        with refused(ErrorCode.INVALID_INPUT) as caught:
            query(catalog, vector=[1, 0])
        assert "one, other" in caught.value.message

    def test_structured_texts(self, points: Catalog) -> None:
        data.index(points, "text", "FTS")

        def match(terms: str, **rest: Any) -> models.FtsQuery:
            return models.FtsQuery(match=models.MatchQuery(terms=terms, **rest))

        assert sorted(matching_ids(points, text=match("red bird"))) == [1, 2, 3]
        assert matching_ids(points, text=match("red bird", operator="And")) == [3]
        assert matching_ids(points, text=match("bluw", fuzziness=1, column="text")) == [2]
        boolean = models.BooleanQuery(must=[match("red")], must_not=[match("fox")], should=[])
        assert matching_ids(points, text=models.FtsQuery(boolean=boolean)) == [3]
        boost = models.BoostQuery(positive=match("bird"), negative=match("red"))
        assert matching_ids(points, text=models.FtsQuery(boost=boost)) == [2, 3]
        several = models.MultiMatchQuery(
            match_queries=[models.MatchQuery(terms=term, column="text") for term in ("fox", "cat")]
        )
        assert sorted(matching_ids(points, text=models.FtsQuery(multi_match=several))) == [1, 4]

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            ({"filter": "nope > 1"}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ({"filter": "inner.nope > 1"}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ({"columns": ["nope"]}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ({"columns": {"a": "nope + 1"}}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ({"vector": [1, 0], "vector_column": "nope"}, ErrorCode.TABLE_COLUMN_NOT_FOUND),
            ({"filter": "id >>> 1"}, ErrorCode.INVALID_INPUT),
            ({"filter": "id = 1 AN id = 2"}, ErrorCode.INVALID_INPUT),
            ({"filter": "id = 1; id = 2"}, ErrorCode.INVALID_INPUT),
            ({"filter": "id"}, ErrorCode.INVALID_INPUT),
            ({"filter": " "}, ErrorCode.INVALID_INPUT),
            ({"filter": "connection(id)"}, ErrorCode.INVALID_INPUT),
            ({"columns": ["id", "id"]}, ErrorCode.INVALID_INPUT),
            ({"vector": [1, 0], "k": 0}, ErrorCode.INVALID_INPUT),
            ({"vector": [1]}, ErrorCode.INVALID_INPUT),
            ({"vector": [1, 0], "vector_column": "id"}, ErrorCode.INVALID_INPUT),
            ({"vector": [1, 0], "distance_type": "far"}, ErrorCode.INVALID_INPUT),
            ({"vector": [1, 0], "nprobes": 0}, ErrorCode.INVALID_INPUT),
            ({"vector": [1, 0], "text": "fox"}, ErrorCode.INVALID_INPUT),
            ({"nprobes": 2}, ErrorCode.INVALID_INPUT),
            ({"text": "fox"}, ErrorCode.INVALID_INPUT),
            ({"text": models.FtsQuery()}, ErrorCode.INVALID_INPUT),
            ({"branch": "nope"}, ErrorCode.TABLE_BRANCH_NOT_FOUND),
        ],
        ids=str,
    )
    def test_a_wrong_query_says_what_is_wrong(
        self, points: Catalog, asked: dict[str, Any], code: ErrorCode
    ) -> None:
        with refused(code):
            query(points, **asked)

    def test_a_wrong_predicate_of_a_count_says_what_is_wrong(self, points: Catalog) -> None:
        with refused(ErrorCode.TABLE_COLUMN_NOT_FOUND) as caught:
            count(points, predicate="txet = 'a'")
        assert "text" in str(caught.value)
        with refused(ErrorCode.INVALID_INPUT):
            count(points, predicate="id = 1 id")

    def test_a_comment_may_end_a_condition(self, points: Catalog) -> None:
        assert count(points, predicate="id > 2 -- the last ones") == 2

    def test_a_plan_is_explained_and_analyzed(self, points: Catalog) -> None:
        plan = _plan(points, filter="id > 2")
        assert "LanceRead" in plan
        assert "id > Int64(2)" in plan
        analyzed = points.analyze_table_query_plan(
            api.AnalyzeTableQueryPlanRequest(
                id=["points"], k=2, vector=models.QueryTableRequestVector(), filter="id > 2"
            )
        )
        assert "output_rows=2" in analyzed

    def test_a_plan_of_another_table_is_refused(self, points: Catalog) -> None:
        with refused(ErrorCode.INVALID_INPUT):
            points.explain_table_query_plan(
                api.ExplainTableQueryPlanRequest(id=["points"], query=data.query_request("other"))
            )

    def test_statistics_tell_of_rows_and_fragments(self, points: Catalog) -> None:
        for _ in range(3):
            data.insert(points)
        data.delete(points, "id > 2 AND id < 4")
        data.index(points, "id", "BTREE")
        stats = points.get_table_stats(api.GetTableStatsRequest(id=["points"]))
        assert (stats.num_rows, stats.num_indices) == (12, 1)
        assert stats.total_bytes > 0
        assert stats.fragment_stats.num_fragments == 4
        assert stats.fragment_stats.num_small_fragments == 4
        lengths = stats.fragment_stats.lengths
        assert (lengths.min, lengths.max, lengths.mean, lengths.p99) == (3, 3, 3, 3)


def _plan(catalog: Catalog, **rest: Any) -> str:
    return catalog.explain_table_query_plan(
        api.ExplainTableQueryPlanRequest(
            id=["points"], query=data.query_request(**rest), verbose=True
        )
    )
