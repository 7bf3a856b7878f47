"""Which versions go: a choice over numbers, ages and references, without any table."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidInputError
from tiltyard.maintenance.policy import CleanupPolicy, as_ranges, choose

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


def aged(*hours: float | None) -> list[VersionFile]:
    """Versions 1, 2, 3 … that are so many hours old."""
    return [
        VersionFile(number, "", 0, None if age is None else NOW_MS - round(age * HOUR_MS))
        for number, age in enumerate(hours, start=1)
    ]


def going(versions: list[VersionFile], *needed: int, **policy: Any) -> tuple[int, ...]:
    referred = {number: f"tag 't{number}'" for number in needed}
    return choose(versions, referred, CleanupPolicy(**policy), NOW_MS, HOUR_MS).going


def test_both_conditions_must_hold() -> None:
    versions = aged(50, 40, 30, 20, 10)
    assert going(versions, keep_versions=3) == (1, 2)
    assert going(versions, older_than="35h") == (1, 2)
    assert going(versions, keep_versions=4, older_than="35h") == (1,)
    assert going(versions, keep_versions=3, older_than="45h") == (1,)


def test_the_latest_always_stays() -> None:
    assert going(aged(50, 40), older_than="1h") == (1,)
    assert going(aged(50), older_than="1h") == ()
    assert going([], older_than="1h") == ()


def test_what_something_refers_to_stays() -> None:
    assert going(aged(50, 40, 30, 20), 2, older_than="1h") == (1, 3)


def test_what_was_the_latest_a_short_while_ago_stays_whatever_the_policy() -> None:
    assert going(aged(90, 0.9, 0.5, 0.2), keep_versions=3) == ()
    assert going(aged(90, 1.1, 0.5, 0.2), keep_versions=3) == (1,)
    assert going(aged(90, 80, 0.9), older_than="1d") == (1,)


def test_a_version_whose_age_nobody_knows_stays() -> None:
    assert going(aged(None, 40, 30), older_than="1h") == (2,)
    assert going(aged(50, None, 40, 30), older_than="1h") == (3,)


def test_the_reasons_are_told() -> None:
    policy = CleanupPolicy(keep_versions=3, older_than="45h")
    choice = choose(aged(90, 50, 40, 30, 20, 10), {2: "tag 'gold'"}, policy, NOW_MS, HOUR_MS)
    assert choice.going == (1,)
    assert choice.reasons == "latest; 2 among the newest 3; not old enough; tag 'gold'"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "what to keep"),
        ({"keep_versions": 0}, "at least 1"),
        ({"keep_versions": 2}, "left half done"),
        ({"older_than": "never"}, "takes a time"),
        ({"older_than": "soon"}, "must be a duration"),
        ({"keep_versions": 5, "min_age": "never"}, "takes a time"),
        ({"keep_versions": "3"}, "keep_versions: input should be a valid integer"),
        ({"keep_versions": 3, "branch": True}, "branch: unexpected keyword argument"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        CleanupPolicy(**wrong)


def test_less_than_the_floor_has_to_be_allowed() -> None:
    policy = CleanupPolicy(keep_versions=1, allow_below_recovery_floor=True)
    assert policy.is_below_recovery_floor
    assert choose(aged(9, 8, 7), {}, policy, NOW_MS, HOUR_MS).going == (1, 2)


def test_so_has_a_lower_minimum_age() -> None:
    lower = {"older_than": "1m", "min_age": "5m"}
    with pytest.raises(InvalidInputError, match="below the catalog's"):
        CleanupPolicy(**lower).min_age_ms(3600)
    assert CleanupPolicy(**lower, allow_young=True).min_age_ms(3600) == 300_000
    assert CleanupPolicy(older_than=60).min_age_ms(3600) == HOUR_MS
    assert CleanupPolicy(older_than=60, min_age=timedelta(days=1)).min_age_ms(3600) == 24 * HOUR_MS


def test_a_policy_travels() -> None:
    policy = CleanupPolicy(keep_versions=4, older_than=timedelta(days=2))
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_numbers_become_ranges() -> None:
    assert as_ranges([]) == []
    assert as_ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
