"""The model of larger catalogs reckons as its page says."""

from __future__ import annotations

from dataclasses import fields

import pytest

from benchmarks.scale import SIZES, Assumptions, Cost, Measured, jobs, many_files

ONE = Cost(reads=10, writes=10, bytes=1000, seconds=0.01)
MEASURED = Measured(**{field.name: ONE for field in fields(Measured)})
GIVEN = Assumptions(cores=10, threads=1, read_seconds=0.01, write_seconds=0.01)


def test_time_and_money_grow_with_the_tables_and_shrink_with_the_cores() -> None:
    for job, at in jobs(MEASURED, GIVEN).items():
        hours = [at(size).hours for size in SIZES]
        assert hours == sorted(hours), job
    (sweep, more) = (jobs(MEASURED, each)["optimize"] for each in (GIVEN, Assumptions(cores=1000)))
    # 20 requests of 10 ms, 1,000 of them, ten at a time.
    assert sweep(1000).hours * 3600 == pytest.approx(20)
    assert more(1000).hours < sweep(1000).hours
    assert sweep(1000).requests == 20_000
    requests = 10_000 / 1000 * (0.0004 + 0.005)
    assert sweep(1000).usd == pytest.approx(requests + 20 / 3600 * 10 * 0.05)


def test_names_are_held_up_by_the_manifest_and_many_in_one_commit_are_not() -> None:
    found = jobs(MEASURED, GIVEN)

    assert found["declare, one commit each"](1000).bound == "manifest commits"
    assert found["declare, one commit each"](1000).hours * 3600 == pytest.approx(200)
    assert found["declare, 10,000 a commit"](1000).hours * 3600 == pytest.approx(0.2)


def test_a_ready_inventory_saves_the_listing() -> None:
    listed, ready = many_files(MEASURED, GIVEN).values()

    assert ready.requests < listed.requests
