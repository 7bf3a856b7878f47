"""Queries over a catalog: what they may say, what is read for them, and of which version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException

from tests.spark.lake import Lake, plan_text
from tiltyard import errors
from tiltyard.spark.sql import TableScan, explain, sql
from tiltyard.spark.table import FEW_ROWS, table

MANY = FEW_ROWS + 2_000

USERS = {
    "id": list(range(1, 7)),
    "name": ["ann", "bob", "cyd", "dan", None, "eve"],
    "city": ["Rome", "Oslo", "Rome", None, "Oslo", "Bonn"],
}
ORDERS = {"id": [10, 11, 12, 13], "user_id": [1, 1, 3, 9], "total": [5.0, 7.5, 1.0, 2.0]}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.put("prod.shop.users", USERS, files=2)
    lake.put("orders", ORDERS)
    return lake


def ask(lake: Lake, query: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> list[Any]:
    """The answer as sorted tuples."""
    answer = sql(lake.spark, lake.root, query, args).toArrow()
    rows = zip(*(column.to_pylist() for column in answer.columns), strict=True)
    return sorted(rows, key=repr)


def scans(lake: Lake, query: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    scans = explain(lake.spark, lake.root, query)
    return [(scan.table, scan.columns, scan.filter) for scan in scans]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT name FROM prod.shop.users WHERE id = 2", [("bob",)]),
        ("SELECT id FROM prod.shop.users WHERE city = 'Rome' OR name = 'eve'", [(1,), (3,), (6,)]),
        (
            (
                "SELECT u.name, sum(total) FROM orders o "
                "JOIN prod.shop.users u ON u.id = o.user_id GROUP BY u.name"
            ),
            [("ann", 12.5), ("cyd", 1.0)],
        ),
        (
            (
                "SELECT a.id, b.id FROM prod.shop.users a JOIN prod.shop.users b "
                "ON a.city = b.city AND a.id < b.id"
            ),
            [(1, 3), (2, 5)],
        ),
        (
            (
                "WITH rich AS (SELECT user_id FROM orders WHERE total > 4) "
                "SELECT x.user_id FROM rich x JOIN rich y USING (user_id)"
            ),
            [(1,)] * 4,
        ),
        (
            (
                "SELECT name FROM prod.shop.users u WHERE EXISTS "
                "(SELECT 1 FROM orders o WHERE o.user_id = u.id AND o.total < 2)"
            ),
            [("cyd",)],
        ),
        (
            (
                "SELECT id, (SELECT max(total) FROM orders o WHERE o.user_id = u.id) "
                "FROM prod.shop.users u WHERE id IN (SELECT user_id FROM orders)"
            ),
            [(1, 7.5), (3, 1.0)],
        ),
        (
            "SELECT id FROM prod.shop.users WHERE id NOT IN (SELECT user_id FROM orders)",
            [(2,), (4,), (5,), (6,)],
        ),
        ("SELECT id FROM orders WHERE id > 11 UNION ALL SELECT 0", [(0,), (12,), (13,)]),
        (
            (
                "SELECT u.id, t FROM prod.shop.users u, "
                "LATERAL (SELECT sum(total) t FROM orders o WHERE o.user_id = u.id) WHERE t > 1"
            ),
            [(1, 12.5)],
        ),
        ("SELECT id FROM (FROM orders |> WHERE total < 2)", [(12,)]),
        ("SELECT DISTINCT city FROM prod.shop.users", [("Bonn",), ("Oslo",), ("Rome",), (None,)]),
        ("SELECT id FROM orders ORDER BY total DESC LIMIT 1", [(11,)]),
        ("SELECT id FROM orders WHERE false", []),
        ("SELECT 1 + 1", [(2,)]),
    ],
)
def test_a_query_is_answered(shop: Lake, query: str, expected: list[Any]) -> None:
    assert ask(shop, query) == expected


def test_a_table_is_known_by_all_parts_of_its_name(shop: Lake) -> None:
    query = "SELECT prod.shop.users.id, shop.users.name, users.city FROM prod.shop.users"
    assert (1, "ann", "Rome") in ask(shop, query)
    shop.put('prod."v1.2"', {"id": [1]})
    assert ask(shop, "SELECT id FROM prod.`v1.2`") == [(1,)]


def test_parameters_have_names_or_places(shop: Lake) -> None:
    assert ask(shop, "SELECT id FROM orders WHERE total > :least", {"least": 7}) == [(11,)]
    assert ask(shop, "SELECT id FROM orders WHERE id = ? OR total = ?", [10, 1.0]) == [
        (10,),
        (12,),
    ]


def test_a_name_of_a_common_table_expression_hides_a_table(shop: Lake) -> None:
    query = "WITH orders AS (SELECT 7 AS id) SELECT id FROM orders"
    assert ask(shop, query) == [(7,)]
    assert explain(shop.spark, shop.root, query) == []


def test_a_name_that_the_catalog_does_not_have_may_be_a_view_of_the_session(shop: Lake) -> None:
    shop.spark.createDataFrame(pa.table({"id": [3]})).createOrReplaceTempView("chosen")
    query = "SELECT name FROM prod.shop.users JOIN chosen USING (id)"
    assert ask(shop, query) == [("cyd",)]


# ---------------------------------------------------------------- what is read


def test_only_the_columns_and_rows_that_the_plan_needs_are_read(shop: Lake) -> None:
    assert scans(shop, "SELECT name FROM prod.shop.users WHERE city = 'Rome'") == [
        ("prod.shop.users", ("name", "city"), "`city` = 'Rome'")
    ]


def test_each_use_of_a_table_is_a_scan_of_its_own(shop: Lake) -> None:
    query = (
        "SELECT a.name, b.city FROM prod.shop.users a JOIN prod.shop.users b ON a.id = b.id + 1 "
        "WHERE a.name = 'bob' AND b.city LIKE 'R%'"
    )
    assert scans(shop, query) == [
        ("prod.shop.users", ("id", "name"), "(`name` = 'bob') AND (`id` IS NOT NULL)"),
        ("prod.shop.users", ("id", "city"), "(starts_with(`city`, 'R')) AND (`id` IS NOT NULL)"),
    ]


def test_a_common_table_expression_is_read_once_for_all_of_its_uses(shop: Lake) -> None:
    query = (
        "WITH all AS (SELECT * FROM orders) SELECT x.id, y.total FROM all x CROSS JOIN all y "
        "WHERE x.id = 10 AND y.id = 11"
    )
    assert scans(shop, query) == [("orders", ("id", "total"), "(`id` = 10) OR (`id` = 11)")]
    assert ask(shop, query) == [(10, 7.5)]


def test_subqueries_are_looked_into(shop: Lake) -> None:
    query = (
        "SELECT id FROM orders WHERE total > (SELECT avg(total) FROM orders WHERE user_id = 1) "
        "AND user_id IN (SELECT id FROM prod.shop.users WHERE city = 'Rome')"
    )
    # Spark plans these subqueries apart from the query, and each has its conditions.
    filters = {(name, text) for name, _, text in scans(shop, query)}
    assert ("orders", "`user_id` = 1") in filters
    assert any(name == "prod.shop.users" and "'Rome'" in (text or "") for name, text in filters)
    assert ask(shop, query) == [(11,)]


def test_what_is_not_needed_does_not_change_the_answer(lake: Lake) -> None:
    """Columns that are left out come as null, and must not be missed, whatever Lance knows."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.string())])
    lake.put("t", pa.table({"id": [1, 2, 3], "x": ["a", None, "c"]}, schema=schema))

    assert ask(lake, "SELECT count(id), count(x), count(*) FROM t") == [(3, 2, 3)]
    assert ask(lake, "SELECT x FROM t WHERE id IS NOT NULL") == [("a",), ("c",), (None,)]
    assert ask(lake, "SELECT count(*) FROM (SELECT DISTINCT * FROM t)") == [(3,)]
    assert ask(lake, "SELECT x FROM (SELECT *, 1 AS one FROM t) WHERE one = 1 AND x = 'a'") == [
        ("a",)
    ]
    assert ask(lake, "SELECT count(*) FROM t a WHERE EXISTS (SELECT * FROM t b)") == [(3,)]


def test_a_recursive_query_reads_what_it_repeats(lake: Lake) -> None:
    lake.put("edges", {"source": [1, 2, 3, 7], "target": [2, 3, 4, 8], "x": ["a"] * 4})
    query = (
        "WITH RECURSIVE reached AS (SELECT source AS at FROM edges WHERE source = 1 UNION ALL "
        "SELECT target FROM reached JOIN edges ON source = at) SELECT at FROM reached"
    )
    assert ask(lake, query) == [(1,), (2,), (3,), (4,)]


def test_columns_of_every_kind_pass_through(lake: Lake) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.uint8()),
            "huge": pa.array([2**64 - 1, None], pa.uint64()),
            "half": pa.array([1.5, None], pa.float16()),
            "time": pa.array([1, None], pa.time64("us")),
            "span": pa.array([1, None], pa.duration("us")),
            "second": pa.array([1, None], pa.timestamp("s")),
            "word": pa.array(["a", None]).dictionary_encode(),
            "four": pa.array([b"abcd", None], pa.binary(4)),
            "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
            "pairs": pa.array([[{"a": 1, "b": None}], None]),
        }
    )
    lake.put("t", rows)
    assert len(ask(lake, "SELECT * FROM t")[0]) == len(rows.column_names)
    for name in rows.column_names[1:]:
        assert ask(lake, f"SELECT id FROM t WHERE {name} IS NULL") == [(2,)]
    assert ask(lake, "SELECT id FROM t WHERE huge > 5 AND half = 1.5 AND id < 300") == [(1,)]
    assert ask(lake, "SELECT id FROM t WHERE word = 'a' AND second < TIMESTAMP'2020-01-01'") == [
        (1,)
    ]


def test_a_condition_on_a_blob_is_left_to_spark(lake: Lake) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    lake.put("t", pa.table({"id": [1, 2, 3], "b": [b"x", None, b""]}, schema=schema))
    assert scans(lake, "SELECT id FROM t WHERE b = X'78'") == [("t", ("id", "b"), None)]
    assert ask(lake, "SELECT id FROM t WHERE b = X'78' OR b IS NULL") == [(1,), (2,)]


def test_rows_are_counted_without_reading_them(lake: Lake) -> None:
    lake.put("t", {"id": list(range(MANY)), "x": ["x"] * MANY}).delete("id < 10")

    assert scans(lake, "SELECT count(*) FROM t") == [("t", (), None)]
    assert ask(lake, "SELECT count(*), count(1) AS n FROM t") == [(MANY - 10, MANY - 10)]
    assert ask(lake, "SELECT count(*) FROM t WHERE id < 100") == [(90,)]
    twice = "SELECT count(*) FROM (SELECT id FROM t UNION ALL SELECT id + 1 FROM t)"
    assert (scans(lake, twice), ask(lake, twice)) == ([("t", (), None)] * 2, [(2 * MANY - 20,)])
    assert sql(lake.spark, lake.root, "SELECT count(*) FROM t").schema.simpleString() == (
        "struct<count(1):bigint>"
    )


def test_only_the_first_rows_are_read_where_a_query_wants_no_more(shop: Lake) -> None:
    query = "SELECT name FROM prod.shop.users LIMIT 2"
    (scan,) = explain(shop.spark, shop.root, query)
    assert (scan.limit, len(ask(shop, query))) == (2, 2)
    skipping = "SELECT id FROM orders LIMIT 2 OFFSET 1"
    assert ask(shop, skipping) == [(11,), (12,)]
    filtered = "SELECT id FROM orders WHERE total < 3 LIMIT 2"
    assert explain(shop.spark, shop.root, filtered)[0].limit is None
    assert ask(shop, filtered) == [(12,), (13,)]


def test_a_large_table_is_not_broadcast_and_a_small_one_is(lake: Lake) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.nulls(MANY * 256, pa.float32()), 256)
    lake.put("large", {"id": list(range(MANY)), "v": vectors}, files=2)
    lake.put("small", {"id": [1, 2]})

    def joined(other: str) -> str:
        query = f"SELECT a.*, b.* FROM large a JOIN {other} b ON a.id = b.id"
        return plan_text(sql(lake.spark, lake.root, query))

    assert "BroadcastHashJoin" in joined("small")
    assert "BroadcastHashJoin" not in joined("large")
    assert ask(lake, "SELECT a.id FROM large a JOIN large b ON a.id = b.id WHERE b.id = 7") == [
        (7,)
    ]


def test_many_rows_come_from_the_executors(lake: Lake) -> None:
    lake.put("t", {"id": list(range(MANY)), "x": [number % 3 for number in range(MANY)]}, files=3)
    expected = sum(range(1, MANY, 3))
    assert ask(lake, "SELECT x, sum(id) FROM t WHERE x = 1 GROUP BY x") == [(1, expected)]


def test_of_a_table_that_is_grouped_only_the_groups_are_sent(lake: Lake) -> None:
    lake.put("many", {"k": [number % 3 for number in range(MANY)], "x": list(range(MANY))})
    lake.put("few", {"k": [1, 1, 2]})
    (scan,) = explain(lake.spark, lake.root, "SELECT k, sum(x) FROM many WHERE x > 5 GROUP BY k")
    expected = (("k", "x"), "(`x` IS NOT NULL) AND (`x` > 5)", True)
    assert (scan.columns, scan.filter, scan.grouped) == expected
    (scan,) = explain(lake.spark, lake.root, "SELECT k, count(*) FROM few GROUP BY k")
    assert not scan.grouped
    sums = [(k, sum(range(k, MANY, 3))) for k in range(3)]
    assert ask(lake, "SELECT k, sum(x) FROM many GROUP BY k") == sums
    assert ask(lake, "SELECT k, count(*) FROM few GROUP BY k") == [(1, 2), (2, 1)]


def test_a_condition_of_table_is_told_to_lance_too(shop: Lake) -> None:
    def ids(where: str, **options: Any) -> list[int]:
        rows = table(shop.spark, "prod.shop.users", root=shop.root, where=where, **options)
        return sorted(row.id for row in rows.collect())

    assert ids("city = 'Rome' AND length(name) = 3") == [1, 3]
    assert ids("city = 'Rome'", filter="id > 1") == [3]
    assert ids("id > 1 AND id < 1") == []
    with pytest.raises(AnalysisException):
        ids("nothing = 1")


# ---------------------------------------------------------------- versions


def test_versions_are_pinned_when_the_query_is_made(lake: Lake) -> None:
    lake.put("t", {"id": list(range(MANY))})
    rows = sql(lake.spark, lake.root, "SELECT a.id FROM t a JOIN t b ON a.id = b.id")
    lake.append("t", {"id": [MANY]})
    assert rows.count() == MANY
    assert ask(lake, "SELECT max(id) FROM t") == [(MANY,)]


def test_a_query_can_ask_for_another_version(shop: Lake) -> None:
    dataset = shop.append("orders", {"id": [14], "user_id": [2], "total": [3.0]})
    dataset.tags.create("audited", 1)

    assert ask(shop, "SELECT count(*) FROM orders") == [(5,)]
    assert ask(shop, "SELECT count(*) FROM orders VERSION AS OF 1") == [(4,)]
    assert ask(shop, "SELECT count(*) FROM orders VERSION AS OF 'audited' o") == [(4,)]
    assert ask(shop, "SELECT count(*) FROM orders WITH (version = 1)") == [(4,)]
    assert ask(
        shop, "SELECT n.id FROM orders n LEFT ANTI JOIN orders VERSION AS OF 1 o ON n.id = o.id"
    ) == [(14,)]
    now = datetime.now(UTC) + timedelta(hours=1)
    assert ask(shop, f"SELECT count(*) FROM orders TIMESTAMP AS OF '{now.isoformat()}'") == [(5,)]
    with pytest.raises(errors.TableVersionNotFoundError):
        ask(shop, "SELECT * FROM orders VERSION AS OF 9")
    with pytest.raises(errors.TableTagNotFoundError):
        ask(shop, "SELECT * FROM orders VERSION AS OF 'nobody'")
    with pytest.raises(errors.TableVersionNotFoundError):
        ask(shop, "SELECT * FROM orders TIMESTAMP AS OF '2001-01-01'")
    with pytest.raises(errors.InvalidInputError, match="no time"):
        ask(shop, "SELECT * FROM orders TIMESTAMP AS OF CAST(NULL AS TIMESTAMP)")


def test_what_is_read_can_be_asked_for(shop: Lake) -> None:
    assert explain(shop.spark, shop.root, "SELECT id FROM orders WHERE total >= 2") == [
        TableScan(
            table="orders",
            version=1,
            columns=("id", "total"),
            filter="(`total` >= CAST('2.0' AS DOUBLE) OR isnan(`total`))",
            limit=None,
        )
    ]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders VALUES (1, 2, 3)",
        "WITH c AS (SELECT 1) INSERT INTO orders SELECT 1, 2, 3.0 FROM c",
        "FROM orders INSERT INTO orders SELECT *",
        "CREATE TABLE x AS SELECT 1",
        "DROP TABLE orders",
        "DELETE FROM orders",
        "SHOW TABLES",
        "EXPLAIN SELECT * FROM orders",
        "SET a = 1",
    ],
)
def test_what_is_not_a_query_is_refused(shop: Lake, statement: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="something else"):
        ask(shop, statement)


def test_a_table_that_nobody_knows_is_told_with_one_of_a_similar_name(shop: Lake) -> None:
    with pytest.raises(errors.TableNotFoundError) as missing:
        ask(shop, "SELECT * FROM prod.shop.Users")
    assert missing.value.hint == "did you mean 'users'?"
    with pytest.raises(errors.NamespaceNotFoundError):
        ask(shop, "SELECT * FROM nowhere.users")
    with pytest.raises(errors.InvalidInputError, match="foo"):
        ask(shop, "SELECT * FROM orders WITH (foo = 1)")


def test_errors_of_the_query_itself_are_sparks_own(shop: Lake) -> None:
    with pytest.raises(ParseException):
        ask(shop, "SELEC 1")
    with pytest.raises(AnalysisException, match="nothing"):
        ask(shop, "SELECT nothing FROM orders")


def test_spark_connect_is_told_what_it_can_do_instead() -> None:
    class Connected:
        """A session without a JVM beside it."""

    with pytest.raises(errors.UnsupportedOperationError, match="attach"):
        sql(Connected(), "lake", "SELECT 1")  # type: ignore[arg-type]
