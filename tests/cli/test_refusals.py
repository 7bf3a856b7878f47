"""Errors: one line what happened, one line what to do, and a status that scripts can use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Tiltyard


@pytest.mark.parametrize(
    ("arguments", "status", "message", "hint"),
    [
        (["table", "lst"], 2, "No such command 'lst'", "tiltyard table --help"),
        (["table", "list", "--rot", "x"], 2, "--rot", "tiltyard table list --help"),
        (["table", "describe"], 2, "TABLE", "tiltyard table describe --help"),
        (["--mode", "dir", "table", "list"], 2, "directory", "--help"),
        (["-p", "manifst_enabled=false", "table", "list"], 2, "manifst", "'manifest_enabled'?"),
        (["-p", "region", "table", "list"], 2, "NAME=VALUE", None),
        (["-p", "region=eu", "table", "list"], 2, "'region'", "'storage.region'?"),
        (["-p", "manifest_enabled=true", "table", "list"], 2, "same", "leave one of"),
        (["table", "describe", "nothing"], 4, "'nothing' was not found", None),
        (["table", "head", "nothing"], 4, "'nothing' was not found", None),
        (["table", "drop", "nothing"], 4, "'nothing' was not found", None),
        (["table", "drop", "nothing", "--yes"], 4, "'nothing' was not found", None),
        (["table", "create", "products", "products.csv"], 5, "already exists", None),
        (["table", "declare", "products"], 5, "already exists", None),
        (["table", "create", "t", "no.csv"], 2, "no file no.csv", None),
        (["table", "create", "t", "products.csv", "--format", "arrow"], 2, "as arrow", "--format"),
        (["table", "create", "a$b", "products.csv"], 2, "'$'", None),
        (["table", "describe", "a..b"], 2, "is not an id", "double quotes"),
        (["table", "rename", "products", "goods"], 1, "rename", None),
        (["ns", "create", "prod"], 1, "root namespace only", "manifest_enabled"),
        (["ns", "drop", "prod"], 1, "root namespace only", "manifest_enabled"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_happened_and_what_to_do(
    products: Tiltyard, arguments: Sequence[str], status: int, message: str, hint: str | None
) -> None:
    refused = products(*arguments)
    first, *rest = refused.err.splitlines()
    assert (refused.status, refused.out) == (status, "")
    assert first.startswith("error: ")
    assert message in first
    assert len(rest) <= 1
    assert hint is None or rest[0].startswith("hint:  ")
    assert hint is None or hint in rest[0]


def test_without_a_root_the_error_says_how_to_name_one(
    tiltyard: Tiltyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILTYARD_ROOT")
    refused = tiltyard("table", "list")
    assert refused.status == 2
    assert "--root" in refused.err
    assert "TILTYARD_ROOT" in refused.err


def test_a_declared_table_has_no_rows_to_show(tiltyard: Tiltyard) -> None:
    tiltyard("table", "declare", "later")
    refused = tiltyard("table", "head", "later")
    assert (refused.status, "table create later FILE" in refused.err) == (4, True)


def test_only_verbose_shows_where_an_error_came_from(tiltyard: Tiltyard) -> None:
    assert "Traceback" not in tiltyard("table", "head", "nothing").err
    assert "Traceback" in tiltyard("--verbose", "table", "head", "nothing").err


def test_a_bug_is_called_one_and_shows_no_traceback(
    tiltyard: Tiltyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("tiltyard.cli.reading.everything_about", broken)
    ended = tiltyard("table", "describe", "x")
    assert ended.status == 1
    assert ended.err.splitlines() == [
        "error: ZeroDivisionError: oh",
        "hint:  this is a bug; --verbose shows where it is",
    ]


def test_an_error_never_shows_a_credential(tiltyard: Tiltyard, tmp_path: Path) -> None:
    secret = "hunter22hunter22"
    ended = tiltyard(
        "--verbose", "table", "list", "--root", "s3://nowhere/lake",
        "-p", f"storage.aws_secret_access_key={secret}", "-p", "storage.aws_access_key_id=me",
        "-p", "storage.nonsense_option=1", "-p", "storage.timeout=nonsense",
    )  # fmt: skip
    assert ended.status != 0
    assert secret not in ended.out + ended.err
