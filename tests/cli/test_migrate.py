"""`tiltyard migrate`: what it says to people, what it prints for programs, and what it does."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tiltyard

COMPATIBLE = ("--mode", "compatible")
MANIFEST = ("--mode", "manifest")

SKIPPED = [
    "table   location      action    reason",
    "─" * 92,
    "__own   __own.lance   skipped   not a table name: its name is reserved or too long",
    "old     old.lance     skipped   it is deregistered; register_table with location 'old.lance'",
    "trash   trash.lance   skipped   it holds no Lance table",
]
ROWS = [
    ("__own", "__own.lance", "skipped", "not a table name: its name is reserved or too long"),
    ("later", "later.lance", "added", None),
    (
        "old",
        "old.lance",
        "skipped",
        "it is deregistered; register_table with location 'old.lance'",
    ),
    ("products", "products.lance", "added", None),
    ("trash", "trash.lance", "skipped", "it holds no Lance table"),
    ('"v1.2"', "v1.2.lance", "added", None),
]


@pytest.fixture
def directories(products: Tiltyard, tmp_path: Path) -> Tiltyard:
    """A catalog of directories: three tables, one deregistered, and two that are no tables."""
    products("table", "declare", "later", "old", '"v1.2"')
    products("table", "deregister", "old")
    for name in ("trash", "__own"):
        (tmp_path / "lake" / f"{name}.lance").mkdir()
        (tmp_path / "lake" / f"{name}.lance" / "notes.txt").write_text("no table")
    return products


def test_people_see_a_summary_and_what_was_left_out(directories: Tiltyard) -> None:
    done = directories(*COMPATIBLE, "migrate")
    assert (done.status, done.lines) == (0, SKIPPED)
    assert done.err == "Added 3 tables; 0 already there, 3 skipped.\n"


def test_a_second_run_finds_nothing_to_do(directories: Tiltyard) -> None:
    directories(*COMPATIBLE, "migrate")
    again = directories(*COMPATIBLE, "migrate")
    assert (again.status, again.lines) == (0, SKIPPED)
    assert again.err == "Added 0 tables; 3 already there, 3 skipped.\n"


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(
    directories: Tiltyard, tmp_path: Path
) -> None:
    done = directories(*COMPATIBLE, "migrate", "--dry-run")
    assert (done.status, done.lines) == (0, SKIPPED)
    assert done.err == "Would add 3 tables; 0 already there, 3 skipped.\n"
    assert not (tmp_path / "lake" / "__manifest").exists()


def test_where_nothing_is_left_out_a_sentence_is_all(products: Tiltyard) -> None:
    done = products(*COMPATIBLE, "migrate")
    assert (done.out, done.err) == ("", "Added 1 table; 0 already there, 0 skipped.\n")


def test_programs_get_a_row_for_every_directory(directories: Tiltyard) -> None:
    done = directories(*COMPATIBLE, "migrate", "--dry-run", "-o", "json")
    rows = [tuple(load.values()) for load in json.loads(done.out)]
    assert (done.status, done.err) == (0, "")
    assert sorted(rows) == sorted(ROWS)
    assert list(json.loads(done.out)[0]) == ["table", "location", "action", "reason"]


@pytest.mark.parametrize(
    ("format", "printed"),
    [
        ("jsonl", '{"table": "a", "location": "a.lance", "action": "added", "reason": null}\n'),
        ("csv", "table,location,action,reason\na,a.lance,added,\n"),
    ],
)
def test_the_rows_come_in_every_format(tiltyard: Tiltyard, format: str, printed: str) -> None:
    tiltyard("table", "declare", "a")
    assert tiltyard(*COMPATIBLE, "migrate", "-o", format).out == printed


def test_a_migrated_catalog_can_be_opened_without_listing(directories: Tiltyard) -> None:
    assert directories(*MANIFEST, "table", "list").out == ""
    directories(*MANIFEST, "migrate")
    assert directories(*MANIFEST, "table", "list").lines[2:] == ["later", "products", '"v1.2"']
    assert "Lamp" in directories(*MANIFEST, "table", "head", "products").out


def test_directory_mode_only_lifts_nested_markers(products: Tiltyard) -> None:
    shown = json.loads(products("migrate", "-o", "json").out)
    assert {row["action"] for row in shown} <= {"present", "lifted", "skipped"}


class Screen(io.StringIO):
    """A terminal that somebody watches."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("flags", "has_bar"), [((), True), (("--quiet",), False)])
def test_whoever_watches_sees_a_bar(
    products: Tiltyard, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], has_bar: bool
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    assert products(*COMPATIBLE, *flags, "migrate").status == 0
    assert ("Looking at tables" in screen.getvalue()) is has_bar
    assert ("1/1" in screen.getvalue()) is has_bar
