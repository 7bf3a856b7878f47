"""Which table the options mean."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from tiltyard.errors import InvalidInputError
from tiltyard.spark.options import ReadOptions
from tiltyard.spark.target import Target


def _target(**given: str) -> Target:
    return Target.of(ReadOptions.parse(given))


@pytest.mark.parametrize("by", ["path", "table"])
def test_a_table_is_named_by_load_or_by_an_option(by: str) -> None:
    target = _target(root="/lake", **{by: 'prod."v1.2".users'})

    assert target.id == ("prod", "v1.2", "users")
    assert target.name == "'prod.v1.2.users'"
    assert target.root == "/lake"


def test_a_relative_root_is_meant_where_the_driver_runs() -> None:
    assert _target(root="lake", table="t").root == os.path.abspath("lake")


def test_storage_options_and_properties_reach_the_catalog() -> None:
    properties = {
        "root": "s3://bucket/lake",
        "storage.region": "eu",
        "manifest_enabled": "false",
    }

    target = _target(table="t", limit="3", **properties)

    assert target.storage == {"region": "eu"}
    assert target.properties == properties


def test_a_path_alone_is_a_lance_directory() -> None:
    target = _target(path="/data/x.lance", **{"storage.region": "eu"})

    assert (target.id, target.path, target.name) == (None, "/data/x.lance", "'/data/x.lance'")
    assert target.storage == {"region": "eu"}
    assert _target(path="x.lance").path == os.path.abspath("x.lance")
    assert _target(path="s3://bucket/x").path == "s3://bucket/x"
    with pytest.raises(InvalidInputError, match="belongs to no catalog"):
        target.namespace()


def test_equal_targets_share_a_catalog_also_after_a_journey(tmp_path: Path) -> None:
    target = _target(root=str(tmp_path), table="t")

    again = pickle.loads(pickle.dumps(target))

    assert again == target
    assert again.namespace() is target.namespace()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "CREATE TEMPORARY VIEW"),
        ({"limit": "3"}, "nothing says which table"),
        ({"root": "/lake"}, "no table is named"),
        ({"root": "/lake", "table": "a", "path": "b"}, "named twice"),
        ({"table": "a"}, "pass the option 'root'"),
        ({"path": "prod.users"}, "pass the option 'root'"),
        ({"root": "/lake", "table": "a..b"}, "not an id"),
        ({"root": "/lake", "table": "a/b"}, "contains"),
        ({"root": "ftp://x", "table": "a"}, "no store"),
        ({"root": "/lake", "table": "a", "commit_retries": "x"}, "commit_retries"),
    ],
)
def test_what_can_not_be_meant_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        _target(**given)


def test_a_credential_is_not_shown() -> None:
    assert "hunter2" not in repr(_target(path="s3://b/x", **{"storage.secret": "hunter2"}))
