"""How a table goes and comes back on the command line, and what keeps it from either."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from tests.cli.conftest import ManualClock, Tiltyard

MANIFEST = ("--mode", "manifest")


@pytest.fixture
def dropped(products: Tiltyard) -> Tiltyard:
    """The table `products` is in the trash."""
    assert products("table", "drop", "products").status == 0
    return products


# -- drop


def test_a_drop_says_until_when_and_how_to_get_the_table_back(
    products: Tiltyard, clock: ManualClock
) -> None:
    done = products("table", "drop", "products")
    until = clock.now + timedelta(days=7)
    assert (done.status, done.out) == (0, "")
    assert done.err.splitlines() == [
        f"Dropped table products; it is in the trash until {until:%Y-%m-%d %H:%M} UTC.",
        "To bring it back: tiltyard table undrop products",
    ]
    assert products("table", "exists", "products").status == 4


def test_a_drop_for_ever_has_no_end(products: Tiltyard) -> None:
    done = products("table", "drop", "products", "--ttl", "never")
    assert done.err.startswith("Dropped table products; it stays in the trash.\n")


def test_programs_learn_the_generation_and_the_end(products: Tiltyard, clock: ManualClock) -> None:
    (row,) = json.loads(products("table", "drop", "products", "--ttl", "12h", "-o", "json").out)
    assert list(row) == ["table", "location", "generation", "expires_at"]
    assert row["expires_at"] == (clock.now + timedelta(hours=12)).isoformat()
    assert products("table", "undrop", "products", "--generation", row["generation"]).status == 0


def test_a_drop_of_several_has_a_line_for_each(tiltyard: Tiltyard) -> None:
    tiltyard("table", "declare", "a", "b")
    first, second, last = tiltyard("table", "drop", "a", "b").err.splitlines()
    assert first.startswith("Dropped table a; it is in the trash until ")
    assert second.startswith("Dropped table b; it is in the trash until ")
    assert last == "To bring one back: tiltyard table undrop TABLE"


def test_a_drop_asks_nothing_and_still_accepts_yes(products: Tiltyard) -> None:
    done = products("--no-input", "table", "drop", "products", "--yes")
    assert (done.status, "Type" in done.err) == (0, False)


def test_a_dropped_table_is_not_found_and_the_hint_is_a_command(dropped: Tiltyard) -> None:
    refused = dropped("table", "head", "products")
    message, hint = refused.err.splitlines()
    assert (refused.status, message) == (4, "error: table 'products' was not found")
    assert hint.endswith("; tiltyard table undrop brings it back")


# -- undrop


@pytest.mark.parametrize("verb", [("table", "undrop"), ("trash", "restore")])
def test_a_dropped_table_comes_back(dropped: Tiltyard, verb: tuple[str, str]) -> None:
    done = dropped(*verb, "products")
    assert (done.status, done.err) == (0, "Table products is back.\n")
    assert "Lamp" in dropped("table", "head", "products").out


def test_a_dropped_table_comes_back_under_another_name(products: Tiltyard) -> None:
    for arguments in (("ns", "create", "shop"), ("table", "create", "a", "products.csv")):
        products(*MANIFEST, *arguments)
    products(*MANIFEST, "table", "drop", "a")
    done = products(*MANIFEST, "table", "undrop", "a", "--as", "shop.b")
    assert (done.status, done.err) == (0, "Table shop.b, which was a, is back.\n")
    assert products(*MANIFEST, "table", "list", "--all", "-o", "csv").lines == ["table", "shop.b"]


def test_programs_learn_where_it_is(dropped: Tiltyard, tmp_path: Path) -> None:
    assert json.loads(dropped("table", "undrop", "products", "-o", "json").out) == {
        "table": "products",
        "location": f"{tmp_path}/lake/products.lance",
        "undropped_from": "products",
    }


def test_an_older_drop_of_a_name_comes_back_by_its_generation(products: Tiltyard) -> None:
    generations = []
    for _ in range(2):
        products(*MANIFEST, "table", "create", "a", "products.csv")
        (row,) = json.loads(products(*MANIFEST, "table", "drop", "a", "-o", "json").out)
        generations.append(row["generation"])
    products(*MANIFEST, "table", "undrop", "a", "--generation", generations[0])
    left = json.loads(products(*MANIFEST, "trash", "list", "-o", "json").out)
    assert [each["generation"] for each in left] == generations[1:]


def test_what_was_written_after_the_drop_has_to_be_accepted(
    dropped: Tiltyard, tmp_path: Path
) -> None:
    stranger = lance.dataset(str(tmp_path / "lake" / "products.lance"))
    stranger.delete("price > 50")
    refused = dropped("table", "undrop", "products")
    message, hint = refused.err.splitlines()
    assert (refused.status, "was written to after it was dropped" in message) == (1, True)
    assert hint == "hint:  undrop it with --keep-newer to keep what was written"
    assert dropped("table", "undrop", "products", "--keep-newer").status == 0


# -- status


def test_status_tells_of_a_table_that_exists(products: Tiltyard) -> None:
    shown = products("table", "status", "products")
    assert (shown.status, shown.lines) == (0, ["table  products", "state  exists"])


def test_status_tells_of_a_dropped_table(products: Tiltyard, clock: ManualClock) -> None:
    clock.turn_back(hours=3)
    (row,) = json.loads(products("table", "drop", "products", "-o", "json").out)
    shown = products("table", "status", "products")
    assert (shown.status, shown.lines) == (
        0,
        [
            "table       products",
            "state       soft deleted",
            "deleted at  3 hours ago",
            "expires at  in 7 days",
            f"generation  {row['generation']}",
        ],
    )
    exact = json.loads(products("table", "status", "products", "-o", "json").out)
    assert exact == {
        "table": "products",
        "state": "soft_deleted",
        "deleted_at": clock.now.isoformat(),
        "expires_at": row["expires_at"],
        "generation": row["generation"],
    }


def test_a_purged_table_is_like_one_that_never_was(dropped: Tiltyard) -> None:
    dropped("trash", "purge", "products", "--apply", "--yes")
    for name in ("products", "nothing"):
        shown = dropped("table", "status", name, "-o", "json")
        assert (shown.status, json.loads(shown.out)["state"]) == (4, "not_found")


# -- hold and protect


def test_a_held_table_says_so(dropped: Tiltyard) -> None:
    held = dropped("table", "hold", "products")
    assert (held.status, held.err) == (
        0,
        "Table products is held in the trash until it is released.\n",
    )
    (row,) = json.loads(dropped("trash", "list", "-o", "json").out)
    assert row["held"] is True
    released = dropped("table", "release", "products")
    assert (released.status, released.err) == (0, "Table products is no longer held.\n")


def test_a_protected_table_can_not_be_dropped(products: Tiltyard) -> None:
    done = products("table", "protect", "products")
    assert (done.status, done.err) == (0, "Table products can't be dropped now.\n")
    refused = products("table", "drop", "products")
    assert (refused.status, "is protected" in refused.err) == (1, True)
    again = products("table", "unprotect", "products", "-o", "json")
    assert json.loads(again.out) == {"table": "products", "protected": False}
    assert products("table", "drop", "products").status == 0


# -- refusals


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["table", "undrop", "nothing"], 4, "'nothing' is not in the trash"),
        (["table", "hold", "nothing"], 4, "'nothing' is not in the trash"),
        (["table", "release", "nothing"], 4, "'nothing' is not in the trash"),
        (["table", "protect", "nothing"], 4, "'nothing' was not found"),
        (["table", "undrop", "products", "--generation", "0123"], 4, "0123 of table 'products'"),
        (["table", "undrop", "products", "--as", "other"], 1, "can't be brought back under"),
        (["table", "drop", "live", "--ttl", "soon"], 2, "--ttl takes a time, not 'soon'"),
    ],
)
def test_what_can_not_be_done_is_refused(
    dropped: Tiltyard, arguments: list[str], status: int, message: str
) -> None:
    dropped("table", "create", "live", "products.csv")
    refused = dropped(*arguments)
    assert (refused.status, refused.out) == (status, "")
    assert message in refused.err.splitlines()[0]


def test_a_table_does_not_come_back_over_another(dropped: Tiltyard) -> None:
    dropped("table", "create", "products", "products.csv")
    gone = dropped("table", "undrop", "products")
    assert gone.status == 4  # in directory mode the new table took the place of the dropped one

    dropped(*MANIFEST, "table", "create", "a", "products.csv")
    dropped(*MANIFEST, "table", "drop", "a")
    dropped(*MANIFEST, "table", "create", "a", "products.csv")
    taken = dropped(*MANIFEST, "table", "undrop", "a")
    assert (taken.status, "'a' already exists" in taken.err) == (5, True)
    assert "under another name" in taken.err
