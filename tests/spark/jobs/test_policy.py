"""The policy file: what counts for a table, and what is refused before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiltyard.errors import InvalidInputError
from tiltyard.spark.jobs import Policy

FULL = """
[defaults.optimize]
target_rows_per_fragment = 1000000

[defaults.cleanup]
keep_versions = 10
older_than = "7d"

[namespaces.prod.cleanup]
keep_versions = 50

[namespaces."prod.raw".optimize]
enabled = false

[tables."prod.raw.events"]
cleanup.enabled = false
indexes = [{column = "id", type = "BTREE"}, {column = "text", type = "INVERTED", name = "words"}]

[orphans]
older_than = "14d"
remove = true

[limits]
max_tasks = 8
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    path = tmp_path / "tiltyard.toml"
    path.write_text(FULL)
    return Policy.load(path)


def test_a_table_without_rules_of_its_own_has_the_defaults(policy: Policy) -> None:
    rules = policy.of(("people",))

    assert rules.optimize is not None
    assert rules.optimize.target_rows_per_fragment == 1_000_000
    assert rules.cleanup is not None
    assert (rules.cleanup.keep_versions, rules.cleanup.older_than) == (10, "7d")
    assert rules.indexes == ()


def test_what_is_nearer_counts_first_key_by_key(policy: Policy) -> None:
    rules = policy.of(("prod", "users"))
    assert rules.cleanup is not None
    assert (rules.cleanup.keep_versions, rules.cleanup.older_than) == (50, "7d")

    raw = policy.of(("prod", "raw", "logs"))
    assert raw.optimize is None
    assert raw.cleanup == rules.cleanup

    events = policy.of(("prod", "raw", "events"))
    assert events.cleanup is None
    assert [(index.name, index.index_type) for index in events.indexes] == [
        ("id_idx", "BTREE"),
        ("words", "INVERTED"),
    ]


def test_what_is_about_the_whole_catalog(policy: Policy) -> None:
    assert not policy.orphans_job().dry_run
    assert policy.orphans_job().older_than == "14d"
    assert policy.optimize_job().max_tasks == policy.purge_job().max_tasks == 8
    assert policy.is_on("purge")
    assert not Policy.parse({"purge": {"enabled": False}}).is_on("purge")


def test_an_empty_policy_removes_no_version_and_no_orphan() -> None:
    rules = Policy.parse({}).of(("people",))

    assert rules.optimize is not None
    assert rules.cleanup is None
    assert Policy.parse({}).orphans_job().dry_run


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "[default.cleanup]\nkeep_versions = 3",
            "has no 'default' (did you mean 'defaults'",
        ),
        (
            "[defaults.cleanup]\nkeep_version = 3",
            "no 'defaults.cleanup.keep_version' (did you mean 'keep_versions'",
        ),
        (
            "[defaults.cleanup]\nkeep_versions = '3'",
            "keep_versions has to be a whole number, not '3'",
        ),
        (
            "[defaults.cleanup]\nkeep_versions = true",
            "has to be a whole number, not True",
        ),
        ("[defaults.cleanup]\nkeep_versions = 1", "with less than 3 versions"),
        (
            "[defaults.cleanup]\nolder_than = 'soon'",
            "defaults.cleanup.older_than must be a duration, not 'soon' (like 12h",
        ),
        ("[tables.t.cleanup]\nkeep = 3", "has no 'tables.\"t\".cleanup.keep' (known are enabled, "),
        ("[recover]\nolder_than = [1]", "has to be a text or a whole number or a number, not [1]"),
        ("[defaults.optimize]\ndeleted_share = 2", "deleted_share is a share"),
        ("[tables.'a/b'.optimize]\nenabled = true", "'a/b' can't be part of a table id"),
        ("[tables]\nusers = 3", 'tables."users" has to be a section'),
        ("[tables.users]\nindexes = [{column = 'id'}]", "needs a column and a type"),
        ("[tables.users]\nindexes = [{column='a', type='BTREE', tree=1}]", "has no option 'tree'"),
        ("[orphans]\nolder_than = 'never'", "takes a time, not 'never'"),
        ("[orphans]\nolder_than = '1h'\nremove = true", "may be younger than seven days"),
        ("[limits]\nmax_tasks = 0", "limits.max_tasks must be at least 1"),
        ("defaults = 3", "defaults has to be a section"),
        ("this is no toml", "could not read"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, given: str, message: str) -> None:
    path = tmp_path / "tiltyard.toml"
    path.write_text(given)

    with pytest.raises(InvalidInputError) as refused:
        Policy.load(path)

    assert message in str(refused.value)
    assert "tiltyard.toml" in str(refused.value)


def test_a_file_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no policy file"):
        Policy.load(tmp_path / "missing.toml")
