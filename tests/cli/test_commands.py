"""What the commands do, on a real catalog in a temporary directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from tests.cli.conftest import Tiltyard

ROWS = pa.table({"id": [1, 2, 3], "word": ["a", "b", "c"]})


def _json_lines(rows: pa.Table, path: Path) -> None:
    path.write_text("\n".join(map(json.dumps, rows.to_pylist())))


def _stream(rows: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.parquet", parquet.write_table),
        ("rows.csv", csv.write_csv),
        ("rows.jsonl", _json_lines),
        ("rows.arrow", feather.write_feather),
        ("rows.arrows", _stream),
    ],
)
def test_a_table_is_created_from_any_of_the_file_formats(
    tiltyard: Tiltyard, tmp_path: Path, name: str, write: Callable[[pa.Table, Path], None]
) -> None:
    write(ROWS, tmp_path / name)
    assert tiltyard("table", "create", "t", name).status == 0
    assert json.loads(tiltyard("-o", "json", "table", "head", "t").out) == ROWS.to_pylist()


def test_the_format_can_be_said_where_the_name_does_not_tell(
    tiltyard: Tiltyard, tmp_path: Path
) -> None:
    (tmp_path / "rows").write_text("id\n1\n")
    refused = tiltyard("table", "create", "t", "rows")
    assert (refused.status, "--format" in refused.err) == (2, True)
    assert tiltyard("table", "create", "t", "rows", "--format", "csv").status == 0


def test_overwriting_makes_a_new_version(products: Tiltyard) -> None:
    products("table", "create", "products", "products.csv", "--mode", "overwrite")
    shown = products("-o", "json", "table", "describe", "products")
    assert json.loads(shown.out)["version"] == 2


def test_versions_are_listed_newest_first(products: Tiltyard) -> None:
    products("table", "create", "products", "products.csv", "--mode", "overwrite")
    shown = json.loads(products("-o", "json", "table", "versions", "products").out)
    assert [row["version"] for row in shown] == [2, 1]
    assert all(row["manifest_bytes"] > 0 for row in shown)
    limited = products("-o", "json", "table", "versions", "products", "--limit", "1")
    assert [load["version"] for load in json.loads(limited.out)] == [2]
    assert products("table", "versions", "nothing").status == 4


def test_an_existing_table_can_be_accepted(products: Tiltyard) -> None:
    arguments = ("table", "create", "products", "products.csv", "--mode", "exist_ok")
    assert products(*arguments).status == 0


def test_count_counts(products: Tiltyard) -> None:
    counted = products("-o", "jsonl", "table", "count", "products").out
    assert json.loads(counted) == {"table": "products", "rows": 2}


def test_exists_answers_by_its_status(products: Tiltyard) -> None:
    assert products("table", "exists", "products").status == 0
    missing = products("-o", "json", "table", "exists", "nothing")
    assert (missing.status, json.loads(missing.out)["exists"]) == (4, False)


def test_a_deregistered_table_comes_back_when_registered(products: Tiltyard) -> None:
    products("table", "deregister", "products")
    assert products("table", "list").out == ""
    products("table", "register", "products", "products.lance")
    assert "products" in products("table", "list").lines


def test_list_can_leave_out_tables_without_data_and_stop_early(products: Tiltyard) -> None:
    products("table", "declare", "aaa")
    filled = products("-o", "csv", "table", "list", "--no-declared")
    first = products("-o", "csv", "table", "list", "--limit", "1")
    assert (filled.lines, first.lines) == (["table", "products"], ["table", "aaa"])


def test_a_name_with_a_dot_is_shown_as_it_must_be_typed(products: Tiltyard) -> None:
    products("table", "create", '"v1.2"', "products.csv")
    assert '"v1.2"' in products("table", "list").lines
    assert products("table", "exists", '"v1.2"').status == 0


def test_the_root_namespace_can_be_described(tiltyard: Tiltyard) -> None:
    shown = tiltyard("ns", "describe", "-o", "json")
    assert json.loads(shown.out)["properties"] == {}


def test_shared_options_may_follow_the_verb_and_win_there(products: Tiltyard) -> None:
    assert products("table", "list", "--mode", "directory", "-o", "csv").lines == [
        "table",
        "products",
    ]
    elsewhere = products("table", "list", "--root", "other", "-o", "json")
    assert elsewhere.out == "[]\n"


def test_an_option_wins_over_the_environment(products: Tiltyard) -> None:
    assert products("--root", "other", "-o", "json", "table", "list").out == "[]\n"
