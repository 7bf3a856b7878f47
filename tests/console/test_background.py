"""Charts, the figures of a catalog, cached queries and runs."""

from __future__ import annotations

import asyncio
import threading
import xml.etree.ElementTree as Xml
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import tiltyard
from tiltyard.access import Principal, Role
from tiltyard.console import PAGES, charts, roles
from tiltyard.console.background import CachedQuery, Run, RunQueue, RunResult, Stage
from tiltyard.console.overview import count_figures
from tiltyard.errors import ConcurrentModificationError

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
BOSS = Principal("boss", Role.ADMIN)


# -- charts


def test_shares_are_as_wide_as_what_they_stand_for() -> None:
    drawn = Xml.fromstring(charts.shares([("live", 300), ("trash", 100), ("orphan", 0)], "bytes"))
    parts = {part.get("class"): float(part.get("width", 0)) for part in drawn[1:]}
    assert parts == {"live": 748, "trash": 248}


def test_a_meter_is_never_more_than_full_nor_quite_empty() -> None:
    def width(share: float) -> float:
        return float(Xml.fromstring(charts.meter(share))[1].get("width", 0))

    assert [width(share) for share in (0, 0.001, 0.5, 7)] == [0, 1, 50, 100]


def test_a_timeline_goes_from_left_to_right_and_up_with_the_rows() -> None:
    points = [(NOW + timedelta(hours=hour), 10 * hour, f"<{hour}>") for hour in range(3)]
    drawn = Xml.fromstring(charts.timeline(points, "Rows"))
    dots = [shape for shape in drawn if shape.tag == "circle"]
    assert [dot[0].text for dot in dots] == ["<0>", "<1>", "<2>"]
    assert [dot.get("cx") for dot in dots] == ["10.0", "400.0", "790.0"]
    assert [dot.get("cy") for dot in dots] == ["110.0", "60.0", "10.0"]
    assert charts.timeline([], "Rows") == ""


def test_what_a_chart_tells_can_not_break_out_of_it() -> None:
    drawn = charts.columns([(1, '"><script>')], '"><script>')
    assert "<script>" not in drawn
    assert Xml.fromstring(drawn).get("aria-label") == '"><script>'


# -- figures


def test_figures_are_of_what_somebody_sees(catalog: tiltyard.DirectoryNamespace) -> None:
    everything = count_figures(catalog)
    assert (len(everything.tables), len(everything.trash), everything.rows) == (5, 4, 14_900)
    assert everything.versions == 9
    assert everything.orphans == 0
    assert everything.largest(1)[0][0] == ("search", "manuals")
    assert everything.old_bytes > 0
    mine = everything.visible_to(Principal("eu", Role.READER, ("shop", "eu")))
    assert (list(mine.tables), mine.trash) == ([("shop", "eu", "orders")], ())
    assert mine.orphans is None


def test_what_is_overdue_counts_for_today(catalog: tiltyard.DirectoryNamespace) -> None:
    now = datetime.now(UTC)
    by_day = count_figures(catalog).expiring_by_day(now)
    assert sum(by_day) == 4
    assert by_day[0] >= 1
    catalog.hold_table(["shop", "prices_old"])
    assert sum(count_figures(catalog).expiring_by_day(now)) == 3


# -- cached queries


def test_a_query_runs_once_at_a_time_and_its_result_is_kept() -> None:
    go, asked = threading.Event(), []

    def find(catalog: Any) -> int:
        asked.append(catalog)
        go.wait()
        return len(asked)

    async def ask() -> None:
        query = CachedQuery(find, timedelta(hours=1))
        waiting = [asyncio.create_task(query.result(None)) for _ in range(3)]  # type: ignore[arg-type]
        while not asked:
            await asyncio.sleep(0)
        assert query.is_running
        assert query.last is None
        go.set()
        assert [result.value for result in await asyncio.gather(*waiting) if result] == [1, 1, 1]
        kept = await query.result(None)  # type: ignore[arg-type]
        again = await query.result(None, refresh=True)  # type: ignore[arg-type]
        assert (kept and kept.value, again and again.value) == (1, 2)

    asyncio.run(ask())


# -- runs


def _work(report: Any) -> RunResult:
    report(1, 2, "a")
    return RunResult("done", [], [])


def test_runs_go_one_after_the_other_and_tell_how_far_they_are() -> None:
    runs, go, over = RunQueue(), threading.Event(), threading.Semaphore(0)

    def slow(report: Any) -> RunResult:
        report(1, 2, "a")
        go.wait()
        return RunResult("done", [], [])

    first = runs.start(Run("j", "first", "ada", ()), slow, lambda run: over.release())
    second = runs.start(Run("j", "second", "ada", ()), _work, lambda run: over.release())
    while not first.done:
        threading.Event().wait(0.001)
    seen = runs.get(first.id, BOSS)
    assert seen is not None
    assert (seen.done, seen.total, seen.last_done) == (1, 2, "a")
    assert second.stage is Stage.WAITING
    go.set()
    for _ in range(2):
        over.acquire()
    assert [run.stage for run in runs.recent(BOSS)] == [Stage.DONE, Stage.DONE]
    # A page that began to look before shows what was true then, and not half of each.
    assert (seen.stage, seen.result) == (Stage.RUNNING, None)


def test_a_bug_in_a_run_is_told_without_its_details(caplog: pytest.LogCaptureFixture) -> None:
    runs, over = RunQueue(), threading.Event()

    def broken(report: Any) -> RunResult:
        raise KeyError("a secret")

    run = runs.start(Run("j", "broken", "ada", ()), broken, lambda run: over.set())
    over.wait()
    assert run.stage is Stage.FAILED
    assert "secret" not in (run.error or "")
    assert "a secret" in caplog.text


def test_a_plan_that_two_apply_at_once_is_applied_by_one() -> None:
    runs, over = RunQueue(), threading.Event()
    plan = runs.start(Run("j", "plan", "ada", ()), _work, lambda run: over.set())
    over.wait()
    runs.start(Run("j", "apply", "ada", (), plan_id=plan.id), _work, lambda run: None)
    with pytest.raises(ConcurrentModificationError):
        runs.start(Run("j", "apply", "bo", (), plan_id=plan.id), _work, lambda run: None)


def test_only_so_many_runs_are_kept() -> None:
    runs, over = RunQueue(), threading.Semaphore(0)
    for number in range(105):
        runs.start(Run("j", str(number), "ada", ()), _work, lambda run: over.release())
        over.acquire()
    kept = runs.recent(BOSS)
    assert (len(kept), kept[0].title) == (100, "104")


def test_the_table_of_roles_has_every_page_once() -> None:
    assert len(roles()) == len(PAGES)
    assert roles()["POST", "/console/trash/purge"] is Role.ADMIN
