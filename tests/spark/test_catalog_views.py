"""SQL over the catalog: views of a namespace, options in a query, the catalog's own tables."""

from __future__ import annotations

import lance_namespace as api
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from tests.spark.lake import Lake
from tiltyard.errors import InvalidInputError, NamespaceNotFoundError, TiltyardError
from tiltyard.spark import AttachedView, attach
from tiltyard.spark.options import ReadOptions
from tiltyard.spark.scan import Scan


def test_every_table_gets_a_view(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2]})
    lake.put("prod.orders", {"id": [10], "person": [2]})
    lake.put('prod.eu."odd `name`"', {"id": [7]})

    attached = attach(lake.spark, lake.root, prefix="all_")

    assert attached == [
        AttachedView("people", "all_people", 1),
        AttachedView("prod.eu.odd `name`", "all_prod_eu_odd `name`", 1),
        AttachedView("prod.orders", "all_prod_orders", 1),
    ]
    joined = "SELECT p.id, o.id FROM all_people p JOIN all_prod_orders o ON p.id = o.person"
    assert [tuple(row) for row in lake.spark.sql(joined).collect()] == [(2, 10)]
    assert lake.spark.sql("SELECT * FROM `all_prod_eu_odd ``name```").count() == 1


def test_one_namespace_can_be_attached(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2]})
    lake.put("prod.orders", {"id": [10]})

    attached = attach(lake.spark, lake.root, namespace="prod", prefix="p_")

    assert [view.view for view in attached] == ["p_orders"]
    with pytest.raises(NamespaceNotFoundError):
        attach(lake.spark, lake.root, namespace="nowhere")


def test_a_view_is_pinned_until_it_is_attached_again(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2]})
    attach(lake.spark, lake.root, prefix="v_")

    lake.append("people", {"id": [3]})

    assert lake.spark.table("v_people").count() == 2
    attach(lake.spark, lake.root, prefix="v_")
    assert lake.spark.table("v_people").count() == 3


def test_what_can_not_be_shown_is_told_and_the_rest_is_shown(lake: Lake) -> None:
    lake.put("people", {"id": [1]})
    lake.put("wide", pa.table({"wide": pa.array([None], pa.decimal256(60, 2))}))
    lake.catalog.declare_table(api.DeclareTableRequest(id=["promised"]))

    attached = {view.table: view for view in attach(lake.spark, lake.root, prefix="t_")}

    assert attached["people"].version == 1
    assert "'wide'" in str(attached["wide"].reason)
    assert "'promised'" in str(attached["promised"].reason)
    assert not lake.spark.catalog.tableExists("t_promised")


def test_two_tables_never_share_a_view(lake: Lake) -> None:
    lake.put("prod_users", {"id": [1]})
    lake.put("prod.users", {"id": [2]})

    with pytest.raises(InvalidInputError, match=r"'prod\.users' and 'prod_users'"):
        attach(lake.spark, lake.root, prefix="w_")
    assert not lake.spark.catalog.tableExists("w_prod_users")


def test_a_view_can_not_be_written(lake: Lake) -> None:
    lake.put("people", {"id": [1]})
    attach(lake.spark, lake.root, prefix="r_")

    with pytest.raises(PySparkException):
        lake.spark.sql("INSERT INTO r_people VALUES (2)")
    assert lake.open("people").count_rows() == 1


def _define(lake: Lake, view: str, **options: str) -> None:
    listed = ", ".join(
        f"`{key}` '{value}'" for key, value in {"root": lake.root, **options}.items()
    )
    lake.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} USING tiltyard OPTIONS ({listed})")


def test_a_view_takes_options(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2, 3], "name": ["a", "b", "c"]}, files=3)
    _define(lake, "by_hand", table="people")
    _define(lake, "old", table="people", version="2", columns="id")

    assert lake.spark.sql("SELECT * FROM by_hand WHERE id > 1").count() == 2
    assert lake.spark.sql("SELECT * FROM old").count() == 2
    assert lake.spark.table("old").columns == ["id"]


def test_a_query_takes_options_for_a_table_that_has_only_a_schema(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2, 3], "name": ["a", "b", "c"]}, files=3)
    lake.spark.sql("CREATE TABLE shape (name STRING, id BIGINT) USING tiltyard")

    def read(**options: str) -> list[tuple[str, int]]:
        given = {"root": lake.root, "table": "people", **options}
        listed = ", ".join(f"`{name}` = '{value}'" for name, value in given.items())
        return [
            tuple(row) for row in lake.spark.sql(f"SELECT * FROM shape WITH ({listed})").collect()
        ]

    try:
        assert read(version="2") == [("a", 1), ("b", 2)]
        assert read(version="3", filter="id > 1", limit="1") == [("b", 2)]
        with pytest.raises(PySparkException, match="name the version"):
            read()
        with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
            lake.spark.sql("SELECT * FROM shape").collect()
    finally:
        lake.spark.sql("DROP TABLE shape")


@pytest.mark.parametrize("columns", ["id INT", "id BIGINT NOT NULL", "age INT"])
def test_another_schema_than_the_tables_is_refused(lake: Lake, columns: str) -> None:
    lake.put("people", {"id": [1]})
    schema = StructType.fromDDL(columns)
    options = ReadOptions.parse({"root": lake.root, "table": "people", "version": "1"})

    with pytest.raises(TiltyardError, match=schema.names[0]):
        Scan.with_schema(schema, options)


@pytest.mark.parametrize("options", [{"columns": "id"}, {"version": "1"}], ids=str)
def test_a_view_of_a_part_can_not_be_written(lake: Lake, options: dict[str, str]) -> None:
    lake.put("people", {"id": [1], "name": ["a"]})
    _define(lake, "part", table="people", **options)
    values = "(2)" if "columns" in options else "(2, 'b')"

    with pytest.raises(PySparkException, match=f"through the option '{next(iter(options))}'"):
        lake.spark.sql(f"INSERT INTO part VALUES {values}")
    assert lake.open("people").count_rows() == 1


def test_a_table_of_sparks_own_catalog_is_refused_with_what_to_do(lake: Lake) -> None:
    lake.put("people", {"id": [1]})
    options = f"OPTIONS (root '{lake.root}', table 'people')"

    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
        lake.spark.sql(f"CREATE TABLE not_ours USING tiltyard {options}")
    assert not lake.spark.catalog.tableExists("not_ours")


# ---------------------------------------------------------------- the catalog's own tables


def test_the_catalog_is_read_by_table_functions(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2]})
    lake.append("people", {"id": [3]})
    lake.put("prod.orders", {"id": [10]})
    lake.put("gone", {"id": [10]})
    lake.catalog.drop_table(api.DropTableRequest(id=["gone"]), reason="no longer needed")

    tables = lake.spark.sql(f"SELECT * FROM tiltyard_tables('{lake.root}') ORDER BY id")
    trash = lake.spark.sql(f"SELECT * FROM tiltyard_trash('{lake.root}')").first()
    versions = lake.spark.sql(f"SELECT * FROM tiltyard_versions('{lake.root}', 'people')")

    assert [tuple(row) for row in tables.collect()] == [
        ("people", [], "people"),
        ("prod.orders", ["prod"], "orders"),
    ]
    assert trash is not None
    (dropped,) = lake.catalog.list_trash()
    assert (trash.id, trash.reason, trash.held) == ("gone", "no longer needed", False)
    assert trash.dropped_at.timestamp() == dropped.dropped_at.timestamp()
    listed = [(row.version, row.rows, row.fragments) for row in versions.collect()]
    assert listed == [(1, 2, 1), (2, 3, 2)]


def test_a_table_function_tells_what_is_not_there(lake: Lake) -> None:
    with pytest.raises(PySparkException, match="'nobody'"):
        lake.spark.sql(f"SELECT * FROM tiltyard_versions('{lake.root}', 'nobody')").collect()
