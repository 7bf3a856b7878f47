"""A batch of versions that are files is published whole or not at all, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import lance
import pytest

import tiltyard
from tests.behaviours.calls import create, drop, rename
from tests.behaviours.processes import context
from tests.kit.stores import Crash, Fault
from tests.maintenance.batch import (
    AFTER,
    BEFORE,
    OTHER,
    TABLES,
    Lake,
    Tries,
    cut_off,
    is_usable,
    lake,
    recovered,
    stage,
)
from tiltyard import TiltyardError
from tiltyard.errors import ConcurrentModificationError
from tiltyard.maintenance.recovery_log import Resolution

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
WHOLE = ([BEFORE] * 3, [AFTER] * 3)


def test_a_batch_is_published_and_leaves_nothing_behind(fresh: Lake) -> None:
    created = fresh.open().services.batches.create_all(fresh.wanted)
    assert [file.version for file in created] == [2, 2, 2]
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
                catalog.services.batches.create_all(tried.wanted)
            except Crash:
                pass
            else:
                break
            recovered(tried)
            assert tried.rows() in WHOLE, f"{fault} at request {number}"
            seen.add(tuple(tried.rows()))
        else:
            raise AssertionError("the batch never ends")
    assert seen == {tuple(rows) for rows in WHOLE}, "some crashes go forward, some do not"


def test_an_acknowledged_batch_is_there_whatever_happens_to_its_sidecar(fresh: Lake) -> None:
    catalog, store = fresh.open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="delete", key="__recovery/*")
    with pytest.raises(Crash):
        catalog.services.batches.create_all(fresh.wanted)
    lance.write_dataset(OTHER, fresh.uri("a"), mode="append")
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.FORWARD
    assert fresh.rows() == [AFTER + 1, AFTER, AFTER]


# -- back


def test_what_landed_goes_back_if_the_rest_can_not_follow(fresh: Lake) -> None:
    cut_off(fresh, 1)
    lance.write_dataset(OTHER, fresh.uri("b"), mode="append")
    (only,) = recovered(fresh)
    assert (only.outcome, only.tables) == (Resolution.BACK, (("a",), ("b",), ("c",)))
    assert fresh.rows() == [BEFORE, BEFORE + 1, BEFORE]
    is_usable(fresh)


def test_a_version_that_was_staged_and_is_gone_takes_the_others_back(fresh: Lake) -> None:
    cut_off(fresh, 2)
    (fresh.root / fresh.wanted[2].staged).unlink()
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.BACK
    assert fresh.rows() == [BEFORE] * 3
    is_usable(fresh)


def test_a_dropped_table_takes_the_others_back(fresh: Lake) -> None:
    cut_off(fresh, 1)
    drop(fresh.open(), "c")
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.BACK
    assert [fresh.open().open_table([name]).count_rows() for name in "ab"] == [BEFORE] * 2
    fresh.open().undrop_table(["c"])
    is_usable(fresh)


def test_what_others_have_built_on_stays(fresh: Lake) -> None:
    cut_off(fresh, 1)
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
    cut_off(tried, 1)
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
        catalog.services.batches.create_all(fresh.wanted)
    assert fresh.rows() == [BEFORE, BEFORE + 1, BEFORE]
    assert recovered(fresh) == []
    is_usable(fresh)


def test_a_recovery_may_die_too(another: Tries) -> None:
    _die_in_recovery(another, landed=1, step=9)


@pytest.mark.slow
@pytest.mark.parametrize("landed", [1, 2])
def test_a_recovery_may_die_at_any_request(another: Tries, landed: int) -> None:
    _die_in_recovery(another, landed, step=1)


def _die_in_recovery(another: Tries, landed: int, step: int) -> None:
    for fault, back in product(CRASHES, (False, True)):
        for number in range(0, 300, step):
            tried = another()
            cut_off(tried, landed)
            if back:
                (tried.root / tried.wanted[2].staged).unlink()
            catalog, store = tried.open_faulty()
            plan = store.plan(fault, after=number)
            with suppress(Crash):  # in Lance's hands it is an error like another
                catalog.health.recover(older_than=0)
            if not plan.hits:
                break
            recovered(tried)
            assert tried.rows() == ([BEFORE] * 3 if back else [AFTER] * 3)


# -- several at once


def test_two_sweeps_at_once_come_to_the_same_end(another: Tries) -> None:
    for back in (False, True):
        for _ in range(4):
            tried = another()
            cut_off(tried, 1)
            if back:
                (tried.root / tried.wanted[2].staged).unlink()
            sweepers = [tried.open() for _ in range(2)]
            with ThreadPoolExecutor(2) as pool:
                for report in pool.map(lambda it: it.health.recover(older_than=0), sweepers):
                    assert all(operation.outcome.is_final for operation in report)
            assert tried.rows() == ([BEFORE] * 3 if back else [AFTER] * 3)
            recovered(tried)
            audits = list((tried.root / "__audit").iterdir())
            assert len(audits) == 1


def test_a_slow_owner_and_a_sweep_come_to_the_same_end(another: Tries) -> None:
    """The sweep comes between any two requests of an owner that is only slow."""
    for number in range(200):
        tried = another()
        catalog, store = tried.open_faulty()
        sweep = partial(tried.open().health.recover, older_than=0)
        plan = store.plan(Fault.STALL, after=number, hook=sweep)
        try:
            catalog.services.batches.create_all(tried.wanted)
            assert tried.rows() == [AFTER] * 3, f"acknowledged, swept at request {number}"
        except ConcurrentModificationError:
            assert tried.rows() in WHOLE, f"swept at request {number}"
        recovered(tried)
        assert tried.rows() in WHOLE
        if not plan.hits:
            return
    raise AssertionError("the batch never ends")


# -- rows and files together


def test_rows_and_files_go_together(tmp_path: Path) -> None:
    """Tables at V1 locations keep their files in a managed catalog."""
    root = tmp_path / "template"
    files = tiltyard.connect(root)
    create(files, "a")
    files.versions.manage()
    for name in "bc":
        create(files, name)
    places = [files.services.access.find([name]) for name in TABLES]
    assert [table.managed for table in places] == [False, True, True]
    mixed = Lake(root, {}, [stage(root, table.location, table.id[0]) for table in places])
    for number in range(300):
        tried = mixed.copy(tmp_path / f"lake {number}")
        catalog, store = tried.open_faulty()
        store.plan(Fault.CRASH_AFTER, after=number)
        try:
            catalog.services.batches.create_all(tried.wanted)
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
    catalog.services.batches.create_all(tried.wanted)
    assert store.count("*", "__recovery*") == 0
    assert tried.rows() == [AFTER] * 3


# -- killed for real


def _publish_and_die(tried: Lake, requests: int) -> None:
    catalog, store = tried.open_faulty()
    store.plan(Fault.STALL, after=requests, hook=lambda: os.kill(os.getpid(), signal.SIGKILL))
    with suppress(TiltyardError):
        catalog.services.batches.create_all(tried.wanted)


@pytest.mark.parametrize("requests", [8, 16, 24, 30])
def test_a_killed_process_leaves_what_can_be_ended(another: Tries, requests: int) -> None:
    tried = another()
    process = context().Process(target=_publish_and_die, args=(tried, requests))
    process.start()
    process.join()
    recovered(tried)
    assert tried.rows() in WHOLE
    is_usable(tried)
