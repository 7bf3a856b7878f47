"""A batch of versions that are files is published whole or not at all, whoever dies meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import lance
import pytest

import tiltyard
from tests.behaviours.calls import create, drop, rename
from tests.behaviours.processes import context
from tests.kit.stores import Crash, Fault
from tests.maintenance.batch import AFTER, BEFORE, NEW, OTHER, TABLES, Lake, lake, stage
from tiltyard import TiltyardError
from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.maintenance.recovery import Recovered, Resolution
from tiltyard.maintenance.sidecars import Kind, State

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
WHOLE = ([BEFORE] * 3, [AFTER] * 3)

KEEPING: dict[str, dict[str, Any]] = {
    "directory": {"manifest_enabled": False},
    "manifest": {"dir_listing_enabled": False},
}


@pytest.fixture(scope="module", params=KEEPING.values(), ids=KEEPING)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake(tmp_path_factory.mktemp("template") / "lake", **request.param)


@pytest.fixture
def fresh(template: Lake, tmp_path: Path) -> Lake:
    return template.copy(tmp_path / "lake")


Tries = Callable[[], Lake]


@pytest.fixture
def another(template: Lake, tmp_path: Path) -> Tries:
    """A catalog for one more try."""
    count = iter(range(10_000))
    return lambda: template.copy(tmp_path / f"lake {next(count)}")


def recovered(tried: Lake) -> list[Recovered]:
    """One pass, by a process that comes after the crash; a second one must find nothing."""
    report = tried.open().recover(older_than=0)
    assert all(each.outcome.is_final for each in report), report
    again = tried.open()
    assert again.recover(older_than=0) == []
    assert again._recovery.sidecars.keys() == []
    return report


def is_usable(tried: Lake) -> None:
    """Every table can be written to and read as if nothing had happened."""
    before = tried.rows()
    catalog = tried.open()
    for name in TABLES:
        with catalog._changing(catalog._catalog.find((name,))) as dataset:
            dataset.insert(NEW)
    assert tried.rows() == [each + 1 for each in before]


def test_a_batch_is_published_and_leaves_nothing_behind(fresh: Lake) -> None:
    created = fresh.open()._batches.create_all(fresh.wanted)
    assert [each.version for each in created] == [2, 2, 2]
    assert fresh.rows() == [AFTER] * 3
    assert recovered(fresh) == []
    assert not (fresh.root / "__audit").exists()
    is_usable(fresh)


def test_after_a_crash_at_any_request_the_batch_is_there_or_it_is_not(another: Tries) -> None:
    seen: set[tuple[int, ...]] = set()
    for fault in CRASHES:
        for number in range(200):
            tried = another()
            catalog, store = tried.open_faulty()
            store.plan(fault, after=number)
            try:
                catalog._batches.create_all(tried.wanted)
            except Crash:
                pass
            else:
                break
            recovered(tried)
            assert tried.rows() in WHOLE, f"{fault} at request {number}"
            seen.add(tuple(tried.rows()))
        else:
            raise AssertionError("the batch never ends")
    assert seen == {tuple(each) for each in WHOLE}, "some crashes go forward, some do not"


def test_an_acknowledged_batch_is_there_whatever_happens_to_its_sidecar(fresh: Lake) -> None:
    catalog, store = fresh.open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="delete", key="__recovery/*")
    with pytest.raises(Crash):
        catalog._batches.create_all(fresh.wanted)
    lance.write_dataset(OTHER, fresh.uri("a"), mode="append")
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.FORWARD
    assert fresh.rows() == [AFTER + 1, AFTER, AFTER]


# -- back


def _cut_off(tried: Lake, landed: int) -> None:
    """A batch of which so many versions have landed, and whose owner died then."""
    catalog, store = tried.open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="put_new", key="*/_versions/*", after=landed)
    with pytest.raises(Crash):
        catalog._batches.create_all(tried.wanted)


def test_what_landed_goes_back_if_the_rest_can_not_follow(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    lance.write_dataset(OTHER, fresh.uri("b"), mode="append")
    (only,) = recovered(fresh)
    assert (only.outcome, only.tables) == (Resolution.BACK, (("a",), ("b",), ("c",)))
    assert fresh.rows() == [BEFORE, BEFORE + 1, BEFORE]
    is_usable(fresh)


def test_a_version_that_was_staged_and_is_gone_takes_the_others_back(fresh: Lake) -> None:
    _cut_off(fresh, 2)
    (fresh.root / fresh.wanted[2].staged).unlink()
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.BACK
    assert fresh.rows() == [BEFORE] * 3
    is_usable(fresh)


def test_a_dropped_table_takes_the_others_back(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    drop(fresh.open(), "c")
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.BACK
    assert [fresh.open().open_table([name]).count_rows() for name in "ab"] == [BEFORE] * 2
    fresh.open().undrop_table(["c"])
    is_usable(fresh)


def test_what_others_have_built_on_stays(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    for name in "ab":
        lance.write_dataset(OTHER, fresh.uri(name), mode="append")
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.BACK
    assert only.detail == "others have built on it already: 'a'"
    assert fresh.rows() == [AFTER + 1, BEFORE + 1, BEFORE]


def test_a_renamed_table_is_recovered_where_it_lies(template: Lake, another: Tries) -> None:
    if template.properties.get("manifest_enabled") is False:
        pytest.skip("directories are names")
    tried = another()
    _cut_off(tried, 1)
    rename(tried.open(), "c", to="d")
    (only,) = recovered(tried)
    assert only.outcome is Resolution.FORWARD
    assert tried.open().open_table(["d"]).count_rows() == AFTER


def test_a_refused_version_takes_back_those_before_it(fresh: Lake) -> None:
    catalog, store = fresh.open_faulty()
    uri = fresh.uri("b")
    store.plan(
        Fault.STALL,
        verb="put_new",
        key="*/_versions/*",
        after=1,
        hook=lambda: lance.write_dataset(OTHER, uri, mode="append"),
    )
    with pytest.raises(ConcurrentModificationError, match="no table of the batch"):
        catalog._batches.create_all(fresh.wanted)
    assert fresh.rows() == [BEFORE, BEFORE + 1, BEFORE]
    assert recovered(fresh) == []
    is_usable(fresh)


def test_a_recovery_may_die_too(another: Tries) -> None:
    _die_in_recovery(another, landed=1, step=9)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("landed", [1, 2])
def test_a_recovery_may_die_at_any_request(another: Tries, landed: int) -> None:
    _die_in_recovery(another, landed, step=1)


def _die_in_recovery(another: Tries, landed: int, step: int) -> None:
    for fault, back in product(CRASHES, (False, True)):
        for number in range(0, 300, step):
            tried = another()
            _cut_off(tried, landed)
            if back:
                (tried.root / tried.wanted[2].staged).unlink()
            catalog, store = tried.open_faulty()
            plan = store.plan(fault, after=number)
            with suppress(Crash):  # in Lance's hands it is an error like another
                catalog.recover(older_than=0)
            if not plan.hits:
                break
            recovered(tried)
            assert tried.rows() == ([BEFORE] * 3 if back else [AFTER] * 3)


# -- several at once


def test_two_sweeps_at_once_come_to_the_same_end(another: Tries) -> None:
    for back in (False, True):
        for _ in range(4):
            tried = another()
            _cut_off(tried, 1)
            if back:
                (tried.root / tried.wanted[2].staged).unlink()
            sweepers = [tried.open() for _ in range(2)]
            with ThreadPoolExecutor(2) as pool:
                for each in pool.map(lambda one: one.recover(older_than=0), sweepers):
                    assert all(one.outcome.is_final for one in each)
            assert tried.rows() == ([BEFORE] * 3 if back else [AFTER] * 3)
            recovered(tried)
            audits = list((tried.root / "__audit").iterdir())
            assert len(audits) == 1


def test_a_slow_owner_and_a_sweep_come_to_the_same_end(another: Tries) -> None:
    """The sweep comes between any two requests of an owner that is only slow."""
    for number in range(200):
        tried = another()
        catalog, store = tried.open_faulty()
        sweep = partial(tried.open().recover, older_than=0)
        plan = store.plan(Fault.STALL, after=number, hook=sweep)
        try:
            catalog._batches.create_all(tried.wanted)
            assert tried.rows() == [AFTER] * 3, f"acknowledged, swept at request {number}"
        except ConcurrentModificationError:
            assert tried.rows() in WHOLE, f"swept at request {number}"
        recovered(tried)
        assert tried.rows() in WHOLE
        if not plan.hits:
            return
    raise AssertionError("the batch never ends")


# -- before a write


def test_the_first_write_of_a_client_ends_what_is_old(
    fresh: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cut_off(fresh, 1)
    monkeypatch.setattr("tiltyard.maintenance.recovery.PATIENCE_MS", 0)
    catalog = fresh.open()
    with catalog._changing(catalog._catalog.find(("b",))) as dataset:
        dataset.insert(NEW)
    assert fresh.rows() == [AFTER, AFTER + 1, AFTER]
    assert recovered(fresh) == []


def test_a_write_keeps_off_what_another_may_be_at(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    catalog = fresh.open()
    with pytest.raises(ConcurrentModificationError, match="has not ended") as refused:
        catalog._open_to_change(catalog._catalog.find(("b",)))
    assert refused.value.retryable
    with pytest.raises(ConcurrentModificationError):
        catalog._recovery.require_uncovered([("b",)])
    (mine,) = catalog._recovery.sidecars.keys()
    catalog._recovery.require_uncovered([("b",)], but=mine)
    fresh.open().recover(older_than=0)
    catalog._open_to_change(catalog._catalog.find(("b",)))


def test_versions_that_a_recovery_may_need_are_told(fresh: Lake) -> None:
    recovery = fresh.open()._recovery
    location = fresh.open()._catalog.find(("b",)).location
    assert recovery.pinned(location) == set()
    _cut_off(fresh, 1)
    assert recovery.pinned(location) == {1, 2}
    assert recovery.pinned("elsewhere") == set()


@pytest.mark.slow  # Lance waits longer and longer between its tries
def test_pylance_is_told_of_a_conflict_then(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    fresh.properties = {**fresh.properties, "table_version_tracking_enabled": True}
    writer = {"namespace_client": fresh.open(), "table_id": ["b"]}
    with pytest.raises(OSError, match="onflict") as refused:
        lance.write_dataset(NEW, mode="append", **writer)
    assert "unknown" not in str(refused.value)
    assert fresh.rows() == [AFTER, BEFORE, BEFORE]


def test_whoever_does_not_want_that_can_say_so(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    fresh.properties = {**fresh.properties, "recover_on_write": "false"}
    catalog = fresh.open()
    catalog._open_to_change(catalog._catalog.find(("b",))).insert(NEW)
    assert len(catalog._recovery.sidecars.keys()) == 1


def test_the_look_before_a_write_is_one_request_for_each_client(fresh: Lake) -> None:
    catalog, store = fresh.open_faulty()
    for _ in range(3):
        catalog._open_to_change(catalog._catalog.find(("a",)))
    assert store.count("*", "__recovery*") == 1


# -- what is refused


def test_what_is_refused_leaves_no_sidecar(fresh: Lake) -> None:
    catalog, store = fresh.open_faulty()
    a, b, c = fresh.wanted
    fresh.uri("a")
    (fresh.root / b.staged).write_bytes(b"no manifest")
    for wanted, error in (
        ([a, a], InvalidInputError),
        ([a, b], InvalidInputError),
        ([a, type(c)(("c",), 7, c.staged)], ConcurrentModificationError),
        ([a, type(c)(("nobody",), 2, c.staged)], TiltyardError),
    ):
        with pytest.raises(error):
            catalog._batches.create_all(wanted)
    assert store.count("put*", "__recovery/*") == 0
    assert fresh.rows() == [BEFORE] * 3


def test_what_is_not_understood_is_told_of_and_kept(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    (file,) = (fresh.root / "__recovery").iterdir()
    body = {**json.loads(file.read_bytes()), "schema": 99}
    file.write_text(json.dumps(body))
    (only,) = fresh.open().recover(older_than=0)
    assert (only.outcome, "schema 99" in (only.detail or "")) == (Resolution.REFUSED, True)
    assert json.loads(file.read_bytes()) == body


def test_a_young_one_is_left_to_its_owner(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    (only,) = fresh.open().recover()
    assert only.outcome is Resolution.DEFERRED
    assert fresh.rows() == [AFTER, BEFORE, BEFORE]


def test_every_recovery_leaves_a_record(fresh: Lake) -> None:
    _cut_off(fresh, 1)
    (only,) = recovered(fresh)
    record = json.loads((fresh.root / "__audit" / f"{only.operation}.json").read_bytes())
    assert (record["outcome"], record["kind"], record["schema"]) == ("rolled forward", "batch", 1)
    assert [each["id"] for each in record["tables"]] == [["a"], ["b"], ["c"]]


# -- rows and files together


def test_rows_and_files_go_together(tmp_path: Path) -> None:
    """Tables at V1 locations keep their files in a managed catalog."""
    root = tmp_path / "template"
    files = tiltyard.connect(root)
    create(files, "a")
    files.manage_versions()
    for name in "bc":
        create(files, name)
    found = {name: files._catalog.find((name,)) for name in TABLES}
    assert [each.managed for each in found.values()] == [False, True, True]
    mixed = Lake(root, {}, [stage(root, each.location, name) for name, each in found.items()])
    for number in range(300):
        tried = mixed.copy(tmp_path / f"lake {number}")
        catalog, store = tried.open_faulty()
        store.plan(Fault.CRASH_AFTER, after=number)
        try:
            catalog._batches.create_all(tried.wanted)
        except Crash:
            pass
        else:
            assert tried.rows() == [AFTER] * 3
            return
        recovered(tried)
        assert tried.rows() in WHOLE, f"at request {number}"
    raise AssertionError("the batch never ends")


def test_rows_alone_need_no_sidecar(tmp_path: Path) -> None:
    tried = lake(tmp_path / "lake", manage=True, dir_listing_enabled=False)
    catalog, store = tried.open_faulty()
    catalog._batches.create_all(tried.wanted)
    assert store.count("*", "__recovery*") == 0
    assert tried.rows() == [AFTER] * 3


# -- a compaction, as a job on a cluster arms it


def test_a_compaction_that_was_cut_off_is_discarded_and_its_owner_stopped(fresh: Lake) -> None:
    catalog = fresh.open()
    recovery = catalog._recovery
    covered = [catalog._batches._checked(each) for each in fresh.wanted]
    armed = recovery.sidecars.arm(Kind.COMPACTION, covered)
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.DISCARDED
    with pytest.raises(ConcurrentModificationError):
        recovery.sidecars.publishing(armed)
    assert fresh.rows() == [BEFORE] * 3
    assert armed.state is State.ARMED


# -- killed for real


def _publish_and_die(tried: Lake, requests: int) -> None:
    catalog, store = tried.open_faulty()
    store.plan(Fault.STALL, after=requests, hook=lambda: os.kill(os.getpid(), signal.SIGKILL))
    with suppress(TiltyardError):
        catalog._batches.create_all(tried.wanted)


@pytest.mark.parametrize("requests", [8, 16, 24, 30])
def test_a_killed_process_leaves_what_can_be_ended(another: Tries, requests: int) -> None:
    tried = another()
    process = context().Process(target=_publish_and_die, args=(tried, requests))
    process.start()
    process.join()
    recovered(tried)
    assert tried.rows() in WHOLE
    is_usable(tried)


def test_a_commit_of_pylance_itself_ends_what_is_old(
    fresh: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep then happens while Lance waits for the answer to its commit."""
    _cut_off(fresh, 1)
    (fresh.root / fresh.wanted[2].staged).unlink()
    monkeypatch.setattr("tiltyard.maintenance.recovery.PATIENCE_MS", 0)
    fresh.properties = {**fresh.properties, "table_version_tracking_enabled": True}
    writer = {"namespace_client": fresh.open(), "table_id": ["b"]}
    lance.write_dataset(NEW, mode="append", **writer)
    assert fresh.rows() == [BEFORE, BEFORE + 1, BEFORE]
    assert recovered(fresh) == []
