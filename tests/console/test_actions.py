"""The actions of the pages: drop, restore, purge, and maintenance in the background."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pyarrow as pa
from httpx2 import Response

import tiltyard
from tests.console.conftest import User
from tiltyard.lifecycle.trash import TableState


def _state(catalog: tiltyard.DirectoryNamespace, *table: str) -> TableState:
    return catalog.table_status(table).state


def test_a_table_is_dropped_with_a_reason_in_the_name_of_who_did_it(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    page = user.send("table/drop", page="table?id=shop.orders", id="shop.orders", reason="a try")
    assert "Table shop.orders is in the trash." in page.text
    (dropped,) = [table for table in catalog.list_trash() if table.id == ("shop", "orders")]
    assert (dropped.reason, dropped.dropped_by) == ("a try", "local")


def test_what_was_said_is_said_once(user: User) -> None:
    user.send("trash/hold", page="trash", id="shop.clicks")
    assert "is held until" not in user.page("trash")


def test_a_dropped_table_is_restored(user: User, catalog: tiltyard.DirectoryNamespace) -> None:
    same = {"as": "shop.clicks"}  # what the form has until somebody types another
    page = user.send("trash/restore", page="trash", id="shop.clicks", **same)
    assert "Table shop.clicks is back." in page.text
    assert _state(catalog, "shop", "clicks") is TableState.EXISTS


def test_a_dropped_table_is_restored_under_another_id(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    page = user.send("trash/restore", page="trash", id="shop.clicks", **{"as": "shop.eu.clicks"})
    assert "Table shop.eu.clicks, which was shop.clicks, is back." in page.text
    assert _state(catalog, "shop", "eu", "clicks") is TableState.EXISTS


def test_a_restore_onto_a_table_that_exists_is_refused(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    answer = user.send("trash/restore", page="trash", id="shop.clicks", **{"as": "shop.orders"})
    assert answer.status_code == 409
    assert _state(catalog, "shop", "clicks") is TableState.SOFT_DELETED


def test_what_was_written_after_the_drop_is_accepted_if_that_is_said(
    user: User, catalog: tiltyard.DirectoryNamespace, tmp_path: Path
) -> None:
    (dropped,) = [table for table in catalog.list_trash() if table.id == ("shop", "clicks")]
    location = tmp_path / "lake" / dropped.location
    lance.write_dataset(pa.table({"late": [1]}), location, mode="overwrite")
    restore = {"id": "shop.clicks", "generation": dropped.generation}
    refused = user.send("trash/restore", page="trash", **restore)
    assert (refused.status_code, _state(catalog, "shop", "clicks")) == (
        409,
        TableState.SOFT_DELETED,
    )
    user.send("trash/restore", page="trash", keep_newer="yes", **restore)
    assert catalog.open_table(["shop", "clicks"]).schema.names == ["late"]


def test_a_held_table_has_no_purge_until_it_is_released(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    held = user.send("trash/hold", page="trash", id="shop.clicks").text
    assert "Purge… shop.clicks" not in held
    purge = {"id": "shop.clicks", "typed": "shop.clicks"}
    assert user.send("trash/purge", page="trash", **purge).status_code == 409
    user.send("trash/release", page="trash", id="shop.clicks")
    assert user.send("trash/purge", page="trash", **purge).status_code == 200
    assert _state(catalog, "shop", "clicks") is TableState.NOT_FOUND


def test_a_purge_needs_the_name_to_be_typed(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    answer = user.send("trash/purge", page="trash", id="shop.clicks", typed="clicks")
    assert answer.status_code == 400
    assert _state(catalog, "shop", "clicks") is TableState.SOFT_DELETED


# -- maintenance


def _planned(user: User, job: str, **choices: str) -> Response:
    return _over(user, user.send("maintenance/plan", page="maintenance", job=job, **choices))


def _applied(user: User, plan: Response, typed: str = "") -> Response:
    answer = user.send("maintenance/apply", id=_id(plan), typed=typed)
    assert answer.status_code == 200, answer.text
    return _over(user, answer)


def _over(user: User, page: Response) -> Response:
    """The page of a run when it has ended; asked for again and again, as a browser does."""
    assert page.status_code == 200, page.text
    for _ in range(10_000):
        if "data-live" not in page.text:
            return page
        page = user.get(f"run?id={_id(page)}")
    raise AssertionError("the run does not end")


def _id(page: Response) -> str:
    return str(page.url.params["id"])


def test_small_files_are_joined_as_planned(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    plan = _planned(user, "optimize")
    assert "1 table of 5 can be made faster." in plan.text
    assert len(catalog.open_table(["shop", "orders"]).get_fragments()) == 6
    receipts = _applied(user, plan)
    assert "Optimized 1 table: 6 files became 1." in receipts.text
    assert len(catalog.open_table(["shop", "orders"]).get_fragments()) == 1
    assert re.search(
        r"optimize</td><th[^>]*>Optimize tables</th><td[^>]*>done", user.page("events")
    )


def test_a_plan_keeps_to_its_namespace(user: User) -> None:
    assert (
        "0 tables of 1 can be made faster." in _planned(user, "optimize", **{"in": "shop.eu"}).text
    )


def test_what_has_expired_is_purged_when_its_number_is_typed(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    plan = _planned(user, "purge")
    assert "1 dropped table" in plan.text
    refused = user.send("maintenance/apply", id=_id(plan), typed="2")
    assert refused.status_code == 400
    assert _state(catalog, "shop", "prices_old") is TableState.SOFT_DELETED
    assert "Purged 1 table" in _applied(user, plan, typed="1").text
    assert _state(catalog, "shop", "prices_old") is TableState.NOT_FOUND
    assert _state(catalog, "shop", "clicks") is TableState.SOFT_DELETED


def test_a_plan_is_applied_once(user: User) -> None:
    plan = _planned(user, "purge")
    _applied(user, plan, typed="1")
    again = user.send("maintenance/apply", id=_id(plan), typed="1")
    assert again.status_code == 409
    assert "see the receipts" in user.get(f"run?id={_id(plan)}").text


def test_young_versions_and_files_stay(user: User) -> None:
    assert "There is nothing to clean up." in _planned(user, "cleanup", keep_versions="3").text
    assert "No orphans older than seven days." in _planned(user, "orphans").text


def test_choices_that_make_no_sense_are_refused(user: User) -> None:
    def plan(**choices: str) -> Response:
        return user.send("maintenance/plan", page="maintenance", **choices)

    assert plan(job="nothing").status_code == 400
    assert plan(job="cleanup", keep_versions="many").status_code == 400
    assert plan(job="optimize", **{"in": "."}).status_code == 400


def test_a_run_that_fails_says_why(user: User) -> None:
    page = _planned(user, "cleanup", keep_versions="1")
    assert 'role="alert"' in page.text
    assert "half done" in page.text
    for job in ("optimize", "cleanup"):
        assert "there is no namespace" in _planned(user, job, **{"in": "no.such"}).text
