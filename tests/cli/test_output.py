"""The faces of the output, byte by byte: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import getpass
import io
import json
import re
import socket
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.cli.conftest import Tiltyard

ACTOR = f"{getpass.getuser()}@{socket.gethostname()}"


def test_tables_are_listed_one_per_line(products: Tiltyard) -> None:
    products("table", "declare", "later")
    assert products("table", "list").lines == ["table", "────────", "later", "products"]


@pytest.mark.parametrize(
    ("format", "printed"),
    [
        ("json", '[\n  {\n    "table": "later"\n  },\n  {\n    "table": "products"\n  }\n]\n'),
        ("jsonl", '{"table": "later"}\n{"table": "products"}\n'),
        ("csv", "table\nlater\nproducts\n"),
    ],
)
def test_programs_get_the_same_list(products: Tiltyard, format: str, printed: str) -> None:
    products("table", "declare", "later")
    assert products("table", "list", "-o", format).out == printed


def test_an_empty_list_says_so_to_people_only(tiltyard: Tiltyard) -> None:
    shown = tiltyard("table", "list")
    assert (shown.out, shown.err) == ("", "(none)\n")
    assert tiltyard("-o", "json", "table", "list").out == "[]\n"


def test_describe_shows_a_table_to_people(products: Tiltyard, tmp_path: Path) -> None:
    shown = products("table", "describe", "products").lines
    shown = [re.sub(r"[\d.]+ (bytes|kB)", "N", line.replace(str(tmp_path), "")) for line in shown]
    assert shown == [
        "table          products",
        "location       /lake/products.lance",
        "declared only  no",
        "version        1",
        "rows           2",
        "fragments      1",
        "bytes          N",
        "modified       just now",
        "properties     {}",
        "",
        "column   type      null",
        "───────────────────────",
        "sku      utf8      yes",
        "name     utf8      yes",
        "price    float64   yes",
    ]


def test_describe_gives_programs_exact_values(products: Tiltyard, tmp_path: Path) -> None:
    answer = json.loads(products("table", "describe", "products", "-o", "json").out)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", answer.pop("modified"))
    assert answer.pop("bytes") > 100
    assert answer == {
        "table": "products",
        "location": f"{tmp_path}/lake/products.lance",
        "declared_only": False,
        "version": 1,
        "rows": 2,
        "fragments": 1,
        "properties": {},
        "columns": [
            {"column": "sku", "type": "utf8", "null": True},
            {"column": "name", "type": "utf8", "null": True},
            {"column": "price", "type": "float64", "null": True},
        ],
    }


def test_head_shortens_vectors_for_people_and_not_for_programs(
    tiltyard: Tiltyard, tmp_path: Path
) -> None:
    vectors = pa.array([[0.5, 0.25, -1.0, 2.0]], pa.list_(pa.float32(), 4))
    texts = ["[bold]not markup[/]"]
    parquet.write_table(pa.table({"text": texts, "vector": vectors}), tmp_path / "v.parquet")
    tiltyard("table", "create", "v", "v.parquet")
    assert tiltyard("table", "head", "v").lines == [
        "text                  vector",
        "────────────────────────────────────────────",
        "[bold]not markup[/]   [0.5, 0.25, -1, …] (4)",
    ]
    exact = tiltyard("-o", "jsonl", "table", "head", "v").out
    assert json.loads(exact) == {"text": texts[0], "vector": [0.5, 0.25, -1.0, 2.0]}


def test_head_takes_as_many_rows_as_asked_for(products: Tiltyard) -> None:
    printed = products("-o", "csv", "table", "head", "products", "-n", "1").out
    assert list(csv.reader(io.StringIO(printed))) == [
        ["sku", "name", "price"],
        ["L-1", "Lamp", "19.5"],
    ]


def test_values_that_json_lacks_become_what_it_has(tiltyard: Tiltyard, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "nan": [float("nan")],
            "raw": [b"\x00\xff"],
            "when": pa.array([0], pa.timestamp("us", "UTC")),
        }
    )
    parquet.write_table(rows, tmp_path / "odd.parquet")
    tiltyard("table", "create", "odd", "odd.parquet")
    assert json.loads(tiltyard("-o", "json", "table", "head", "odd").out) == [
        {"nan": None, "raw": "AP8=", "when": "1970-01-01T00:00:00+00:00"}
    ]


def test_a_change_is_told_to_people_on_standard_error(products: Tiltyard) -> None:
    done = products("table", "deregister", "products")
    assert done.out == ""
    assert done.err.startswith("Deregistered table products; its data stays at /")


def test_a_change_is_told_to_programs_on_standard_output(products: Tiltyard) -> None:
    done = products("-o", "json", "table", "deregister", "products")
    assert json.loads(done.out)["table"] == "products"
    assert done.err == ""


def test_quiet_leaves_only_data(products: Tiltyard) -> None:
    done = products("--quiet", "table", "drop", "products", "--yes")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_config_show_tells_where_each_value_comes_from(tiltyard: Tiltyard, tmp_path: Path) -> None:
    shown = tiltyard("config", "show", "-p", "storage.region=eu", "-o", "json")
    found = {load["property"]: (load["value"], load["from"]) for load in json.loads(shown.out)}
    assert found["root"] == (f"{tmp_path}/lake", "TILTYARD_ROOT")
    assert found["manifest_enabled"] == ("false", "--mode")
    assert found["storage.region"] == ("eu", "-p")
    assert found["vend_input_storage_options"] == ("false", "default")


SECRETS = {
    "storage.secret_access_key": "hunter22",
    "storage.access_key_id": "AKIAHUNTER",
    "storage.session_token": "tok-hunter",
    "storage.azure_storage_access_key": "azure-hunter==",
    "storage.azure_storage_sas_token": "sig-hunter",
    "storage.google_service_account_key": '{"private":"hunter"}',
    "storage.proxy_url": "http://hunter:hunter22@proxy",
}


@pytest.mark.parametrize("format", ["table", "json", "jsonl", "csv"])
def test_config_show_keeps_secrets(tiltyard: Tiltyard, format: str) -> None:
    given = [each for pair in SECRETS.items() for each in ("-p", "=".join(pair))]
    shown = tiltyard("config", "show", *given, "-o", format)
    assert shown.status == 0
    assert all(name in shown.out for name in SECRETS)
    assert "hunter" not in (shown.out + shown.err).lower()


def test_config_show_does_not_take_another_value_for_a_secret(tiltyard: Tiltyard) -> None:
    shown = tiltyard("config", "show", "-p", "storage.secret_access_key=false", "-o", "csv")
    assert "storage.secret_access_key,***,-p" in shown.lines
    assert "manifest_enabled,false,--mode" in shown.lines


def test_config_show_is_the_same_for_people(tiltyard: Tiltyard, tmp_path: Path) -> None:
    given = ("-p", "storage.region=eu", "-p", "storage.secret_access_key=hunter22")
    shown = tiltyard("config", "show", *given).out.replace(str(tmp_path), "")
    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["actor", ACTOR, "default"],
        ["cleanup_min_age", "3600.0", "default"],
        ["commit_retries", "100", "default"],
        ["default_ttl", "604800.0", "default"],
        ["dir_listing_enabled", "true", "--mode"],
        ["inline_optimization_enabled", "false", "default"],
        ["manifest_enabled", "false", "--mode"],
        ["max_staleness", "0.0", "default"],
        ["recover_on_write", "true", "default"],
        ["root", "/lake", "TILTYARD_ROOT"],
        ["storage.region", "eu", "-p"],
        ["storage.secret_access_key", "***", "-p"],
        ["table_version_tracking_enabled", "false", "default"],
        ["vend_input_storage_options", "false", "default"],
    ]
