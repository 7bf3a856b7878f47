"""`tiltyard trash`: what people see, what programs get, and what it takes to delete for good."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ManualClock, Tiltyard
from tiltyard import formatting
from tiltyard.errors import PermissionDeniedError
from tiltyard.store.local import LocalStore

ADA = ("-p", "actor=ada@desk")
PURGE = ("trash", "purge")


@pytest.fixture
def dropped(products: Tiltyard, clock: ManualClock) -> Tiltyard:
    """`old` was dropped eight days ago, `products` three hours ago with a reason."""
    assert products("table", "create", "old", "products.csv").status == 0
    clock.turn_back(days=8)
    products(*ADA, "table", "drop", "old", "--ttl", "never")
    clock.turn_back(days=-8, hours=3)
    products(*ADA, "table", "drop", "products", "--reason", "moved to prod")
    clock.turn_back(hours=-3)
    return products


def _trash(tiltyard: Tiltyard, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(tiltyard("trash", "list", *arguments, "-o", "json").out)
    return rows


# -- list


def test_people_see_when_by_whom_and_for_how_long(dropped: Tiltyard) -> None:
    shown = dropped("trash", "list")
    assert (shown.status, shown.lines) == (
        0,
        [
            "table      dropped       by         reason          expires     held   restorable",
            "─────────────────────────────────────────────────────────────────────────────────",
            "old        8 days ago    ada@desk   -               never       no     yes",
            "products   3 hours ago   ada@desk   moved to prod   in 7 days   no     yes",
        ],
    )


def test_programs_get_exact_values(dropped: Tiltyard, clock: ManualClock) -> None:
    at = clock.now - timedelta(hours=3)
    _, row = _trash(dropped)
    assert row.pop("generation").startswith(f"{round(at.timestamp() * 1000):011x}")
    assert row == {
        "table": "products",
        "state": "deleted",
        "dropped_at": at.isoformat(),
        "dropped_by": "ada@desk",
        "reason": "moved to prod",
        "expires_at": (at + timedelta(days=7)).isoformat(),
        "version": 1,
        "bytes": None,
        "held": False,
        "restorable": True,
        "location": "products.lance",
    }


def test_the_size_is_told_when_asked_for(dropped: Tiltyard, tmp_path: Path) -> None:
    files = (tmp_path / "lake" / "old.lance").rglob("*")
    size = sum(file.stat().st_size for file in files if file.is_file())
    assert _trash(dropped, "--bytes")[0]["bytes"] == size
    header, _, row, _ = dropped("trash", "list", "--bytes").lines
    assert header.split()[5] == "size"
    assert formatting.size(size) in row


def test_generations_are_shown_where_a_name_was_dropped_twice(products: Tiltyard) -> None:
    for _ in range(2):
        products("--mode", "manifest", "table", "declare", "a")
        products("--mode", "manifest", "table", "drop", "a")
    header, *_ = products("--mode", "manifest", "trash", "list").lines
    assert header.split()[:3] == ["table", "generation", "dropped"]


def test_an_empty_trash_is_an_empty_list(tiltyard: Tiltyard) -> None:
    assert tiltyard("trash", "list").err == "(none)\n"
    assert _trash(tiltyard) == []


# -- purge: what it would do


def test_a_purge_is_a_dry_run_unless_told_otherwise(dropped: Tiltyard, tmp_path: Path) -> None:
    old, _ = _trash(dropped, "--bytes")
    size = formatting.size(old["bytes"])
    shown = dropped(*PURGE, "old", "--yes")
    assert (shown.status, shown.lines) == (
        0,
        [
            "table   generation         dropped      expires     size",
            "────────────────────────────────────────────────────────",
            f"old     {old['generation']}   8 days ago   never     {size}",
        ],
    )
    assert shown.err == f"Would purge 1 table, {size}. Nothing was deleted; --apply does it.\n"
    assert [row["table"] for row in _trash(dropped)] == ["old", "products"]


def test_a_dry_run_gives_programs_receipts_of_what_is_planned(dropped: Tiltyard) -> None:
    old, _ = _trash(dropped, "--bytes")
    shown = dropped(*PURGE, "old", "-o", "json")
    assert (shown.err, json.loads(shown.out)) == (
        "",
        [
            {
                "table": "old",
                "generation": old["generation"],
                "outcome": "planned",
                "objects": None,
                "bytes": old["bytes"],
                "at": None,
                "by": None,
                "location": "old.lance",
                "error": None,
            }
        ],
    )


def test_without_names_only_what_has_expired_is_meant(
    products: Tiltyard, clock: ManualClock
) -> None:
    nothing = products(*PURGE)
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "Nothing to purge.\n")
    products("table", "create", "late", "products.csv")
    products("table", "drop", "late", "--ttl", "1h")
    products("table", "drop", "products", "--ttl", "3h")
    clock.turn_back(hours=-2)
    planned = json.loads(products(*PURGE, "-o", "json").out)
    assert [row["table"] for row in planned] == ["late"]


def test_an_age_can_be_given_instead(dropped: Tiltyard) -> None:
    planned = json.loads(dropped(*PURGE, "--older-than", "7d", "-o", "json").out)
    assert [row["table"] for row in planned] == ["old"]
    everything = json.loads(dropped(*PURGE, "--older-than", "1h", "-o", "json").out)
    assert [row["table"] for row in everything] == ["old", "products"]


# -- purge: doing it


def test_receipts_tell_what_was_deleted(
    dropped: Tiltyard, clock: ManualClock, tmp_path: Path
) -> None:
    old, _ = _trash(dropped, "--bytes")
    done = dropped(*ADA, *PURGE, "old", "--apply", "--yes", "-o", "json")
    (receipt,) = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert receipt.pop("objects") == 5
    assert receipt == {
        "table": "old",
        "generation": old["generation"],
        "outcome": "purged",
        "bytes": old["bytes"],
        "at": clock.now.isoformat(),
        "by": "ada@desk",
        "location": "old.lance",
        "error": None,
    }
    assert not [path for path in (tmp_path / "lake" / "old.lance").rglob("*") if path.is_file()]


def test_people_see_receipts_and_a_sum(dropped: Tiltyard) -> None:
    rows = _trash(dropped, "--bytes")
    generations, sizes = zip(*((row["generation"], row["bytes"]) for row in rows), strict=True)
    done = dropped(*PURGE, "old", "products", "--apply", "--yes")
    assert (done.status, done.lines) == (
        0,
        [
            "table      generation         outcome   objects     size",
            "────────────────────────────────────────────────────────",
            f"old        {generations[0]}   purged          5   {formatting.size(sizes[0])}",
            f"products   {generations[1]}   purged          5   {formatting.size(sizes[1])}",
        ],
    )
    assert done.err == f"Purged 2 tables: 10 objects, {formatting.size(sum(sizes))}.\n"


def test_a_purge_of_one_asks_for_its_name(dropped: Tiltyard) -> None:
    wrong = dropped(*PURGE, "old", "--apply", typed="odl\n")
    asked, said = wrong.err.split("error: ")
    assert (wrong.status, asked) == (2, "About to delete for good the table old. Type its name: ")
    assert said == "that is not its name, so nothing was done\n"
    assert dropped(*PURGE, "old", "--apply", typed="old\n").status == 0
    assert [row["table"] for row in _trash(dropped)] == ["products"]


def test_a_purge_of_several_asks_how_many_they_are(dropped: Tiltyard) -> None:
    wrong = dropped(*PURGE, "--older-than", "1h", "--apply", typed="old\n")
    assert wrong.status == 2
    assert "the tables old, products. Type how many they are: " in wrong.err
    assert dropped(*PURGE, "--older-than", "1h", "--apply", typed="2\n").status == 0
    assert _trash(dropped) == []


@pytest.mark.parametrize("flags", [(), ("--no-input",)])
def test_where_nobody_can_answer_the_error_names_the_flag(
    dropped: Tiltyard, flags: tuple[str, ...]
) -> None:
    refused = dropped(*flags, *PURGE, "old", "--apply", typed="old\n" if flags else None)
    assert (refused.status, "--yes" in refused.err) == (2, True)
    assert len(_trash(dropped)) == 2


def test_some_that_fail_are_told_by_the_status(
    dropped: Tiltyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = LocalStore.delete_many

    def stubborn(self: LocalStore, keys: Any, progress: Any = None) -> Any:
        listed = list(keys)
        if any(key.startswith("old.lance/data") for key in listed):
            raise PermissionDeniedError("old.lance: operation not permitted")
        return remove(self, listed, progress)

    monkeypatch.setattr(LocalStore, "delete_many", stubborn)
    done = dropped(*PURGE, "old", "products", "--apply", "--yes", "-o", "json")
    assert done.status == 3
    assert [load["outcome"] for load in json.loads(done.out)] == ["failed", "purged"]
    monkeypatch.setattr(LocalStore, "delete_many", remove)
    again = dropped(*PURGE, "--apply", "--yes", "-o", "json")
    assert [load["outcome"] for load in json.loads(again.out)] == ["purged"]


# -- refusals


@pytest.mark.parametrize(
    ("arguments", "status", "message", "hint"),
    [
        (["nothing"], 4, "'nothing' is not in the trash", "dropped tables only"),
        (["live"], 4, "'live' is not in the trash", "dropped tables only"),
        (["held"], 1, "'held' is held", "tiltyard table release held"),
        (["held", "--apply", "--yes"], 1, "'held' is held", "tiltyard table release held"),
        (["a", "a"], 2, "a is named twice", None),
        (["old", "--older-than", "7d"], 2, "--older-than", None),
        (["--older-than", "soon"], 2, "--older-than takes a time, not 'soon'", "7d"),
        (["--older-than", "never"], 2, "--older-than takes a time, not 'never'", "7d"),
    ],
)
def test_what_can_not_be_purged_is_refused(
    dropped: Tiltyard, arguments: list[str], status: int, message: str, hint: str | None
) -> None:
    for name in ("live", "held"):
        dropped("table", "create", name, "products.csv")
    dropped("table", "drop", "held")
    dropped("table", "hold", "held")
    refused = dropped(*PURGE, *arguments)
    first, *rest = refused.err.splitlines()
    assert (refused.status, refused.out) == (status, "")
    assert message in first
    assert hint is None or hint in rest[0]
    assert len(_trash(dropped)) == 3


# -- progress


class Screen(io.StringIO):
    """A terminal that somebody watches."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("flags", "has_bar"), [((), True), (("--quiet",), False)])
def test_whoever_watches_sees_how_fast_it_goes(
    dropped: Tiltyard, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], has_bar: bool
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    assert dropped(*flags, *PURGE, "old", "products", "--apply", "--yes").status == 0
    assert ("2/2" in screen.getvalue()) is has_bar
    assert ("B/s" in screen.getvalue()) is has_bar
