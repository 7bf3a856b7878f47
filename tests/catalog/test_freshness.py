"""A warm client answers from what is there now, whatever others have done to the manifest."""

from __future__ import annotations

from collections.abc import Iterator

import lance_namespace as api
import pytest

import tiltyard
from tests.behaviours.calls import (
    declare,
    describe,
    drop,
    exists,
    make_namespace,
    namespaces,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import Mode, with_manifest
from tests.behaviours.places import Bucket, Place
from tests.kit.buckets import S3Server
from tests.kit.faultproxy import FaultProxy
from tests.peers.clients import open_pylance, properties
from tests.peers.manifest import append_rows, clean_up, delete_manifest, open_manifest

Catalog = api.LanceNamespace

FOREIGN = [f"t{number:02d}" for number in range(1, 11)]

pytestmark = with_manifest


@pytest.fixture
def pylance(mode: Mode, place: Place) -> Catalog:
    return open_pylance(properties(mode, place))


@pytest.fixture
def lake(catalog: Catalog, reopen: Reopen) -> Catalog:
    """A warm client: it holds a version that another client of ours wrote."""
    other = reopen()
    make_namespace(other, "lake")
    declare(other, "lake", "t00")
    assert tables(catalog, "lake") == ["t00"]
    return catalog


def _goes_on(client: Catalog, *expected: str) -> None:
    """The client sees these tables, each of them, and can write."""
    assert tables(client, "lake") == sorted(expected)
    for name in expected:
        assert exists(client, "lake", name)
    declare(client, "lake", "after")
    drop(client, "lake", expected[0])
    assert tables(client, "lake") == sorted(["after", *expected[1:]])


# -- commits and compactions


def test_each_foreign_commit_is_seen_at_once(lake: Catalog, pylance: Catalog) -> None:
    for number, name in enumerate(FOREIGN, 1):
        declare(pylance, "lake", name)
        assert tables(lake, "lake") == ["t00", *FOREIGN[:number]]
    drop(pylance, "lake", "t00")

    _goes_on(lake, *FOREIGN)


def test_rows_that_are_appended_without_a_namespace_are_tables(lake: Catalog, place: Place) -> None:
    append_rows(place, *FOREIGN)

    _goes_on(lake, "t00", *FOREIGN)


def test_a_foreign_compaction_changes_nothing(lake: Catalog, place: Place) -> None:
    for name in FOREIGN:
        append_rows(place, name)
    assert len(tables(lake, "lake")) == 11

    open_manifest(place).optimize.compact_files()

    assert len(open_manifest(place).get_fragments()) == 1
    _goes_on(lake, "t00", *FOREIGN)


def test_a_compaction_and_a_clean_up_behind_our_back_change_nothing(
    lake: Catalog, place: Place
) -> None:
    for name in FOREIGN:
        append_rows(place, name)
    assert len(tables(lake, "lake")) == 11

    open_manifest(place).optimize.compact_files()
    clean_up(place)

    _goes_on(lake, "t00", *FOREIGN)


@pytest.mark.parametrize("leftover", [".tmpNaWFw9", "18446744073709551000.manifest#1"])
def test_what_a_killed_writer_left_among_the_versions_hides_nothing(
    lake: Catalog, pylance: Catalog, place: Place, leftover: str
) -> None:
    place.write(f"__manifest/_versions/{leftover}", b"")

    for number, name in enumerate(FOREIGN, 1):
        declare(pylance, "lake", name)
        assert tables(lake, "lake") == ["t00", *FOREIGN[:number]]

    _goes_on(lake, "t00", *FOREIGN)


# -- clean-ups of old versions


@pytest.mark.parametrize("tagged", [False, True], ids=["untagged", "tagged"])
@pytest.mark.parametrize("wrote_last", [False, True], ids=["read last", "wrote last"])
def test_ten_foreign_commits_and_a_clean_up_are_seen_at_once(
    lake: Catalog, pylance: Catalog, place: Place, tagged: bool, wrote_last: bool
) -> None:
    if wrote_last:
        declare(lake, "lake", "own")
    held = open_manifest(place).version
    if tagged:
        open_manifest(place).tags.create("keep", held)
    for name in FOREIGN:
        declare(pylance, "lake", name)

    clean_up(place)

    left = [version["version"] for version in open_manifest(place).versions()]
    assert left == ([held] if tagged else []) + [held + 10]
    _goes_on(lake, *(["own"] if wrote_last else []), "t00", *FOREIGN)


def test_a_pylance_client_that_held_a_cleaned_up_version_no_longer_answers(
    lake: Catalog, pylance: Catalog, mode: Mode, place: Place
) -> None:
    """Why we list instead of asking for the next version: that one is gone, and so is the truth."""
    assert tables(pylance, "lake") == ["t00"]
    _ten_more_and_clean_up(mode, place)

    with pytest.raises(api.InternalError):
        tables(pylance, "lake")

    assert tables(lake, "lake") == ["t00", *FOREIGN]


def test_a_pylance_client_that_held_a_version_with_a_tag_answers_falsely(
    lake: Catalog, pylance: Catalog, mode: Mode, place: Place
) -> None:
    """The same, and worse: the version that it holds is still there to be read."""
    assert tables(pylance, "lake") == ["t00"]
    open_manifest(place).tags.create("keep", open_manifest(place).version)
    _ten_more_and_clean_up(mode, place)

    assert not exists(pylance, "lake", "t10")
    assert tables(pylance, "lake") == ["t00"]

    assert exists(lake, "lake", "t10")
    assert tables(lake, "lake") == ["t00", *FOREIGN]


def _ten_more_and_clean_up(mode: Mode, place: Place) -> None:
    writer = open_pylance(properties(mode, place))
    for name in FOREIGN:
        declare(writer, "lake", name)
    clean_up(place)


# -- a manifest that is made anew


def test_a_manifest_that_is_deleted_is_an_empty_catalog(lake: Catalog, place: Place) -> None:
    delete_manifest(place)

    assert namespaces(lake) == []
    make_namespace(lake, "lake")
    assert tables(lake, "lake") == []


@pytest.mark.parametrize(
    "wrote_last",
    [
        pytest.param(False, id="read last"),
        pytest.param(
            True,
            id="wrote last",
            marks=pytest.mark.xfail(reason="a version of our own is recognised by its number"),
        ),
    ],
)
def test_a_manifest_that_is_made_anew_with_as_many_versions_is_read_anew(
    catalog: Catalog, reopen: Reopen, place: Place, wrote_last: bool
) -> None:
    make_namespace(catalog, "lake")
    declare(catalog, "lake", "old")
    if not wrote_last:
        assert tables(catalog, "lake") == ["old"]
    delete_manifest(place)
    other = reopen()
    make_namespace(other, "lake")
    declare(other, "lake", "new")

    assert tables(catalog, "lake") == ["new"]
    declare(catalog, "lake", "next")
    assert tables(other, "lake") == ["new", "next"]


# -- what it costs


def test_a_caller_may_allow_answers_that_are_a_little_old(
    lake: Catalog, reopen: Reopen, mode: Mode, place: Place
) -> None:
    relaxed = tiltyard.connect(**properties(mode, place), max_staleness="1h")
    assert tables(relaxed, "lake") == ["t00"]

    declare(lake, "lake", "t01")
    seen = tables(relaxed, "lake")
    declare(relaxed, "lake", "own")

    assert seen == ["t00"]
    assert tables(relaxed, "lake") == ["own", "t00", "t01"], "its own writes are always seen"


@pytest.fixture
def proxy(ministack: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as running:
        yield running


@pytest.mark.parametrize(("staleness", "requests"), [("0s", 1), ("1h", 0)])
def test_a_warm_read_in_a_bucket_takes_one_request_or_none_if_it_may_be_old(
    mode: Mode, ministack: S3Server, proxy: FaultProxy, staleness: str, requests: int
) -> None:
    place = Bucket(ministack.through(proxy.url), ministack.new_root())
    client = tiltyard.connect(**properties(mode, place), max_staleness=staleness)
    make_namespace(client, "lake")
    declare(client, "lake", "t00")
    describe(client, "lake", "t00")

    for read in (describe, exists):
        with proxy.recording() as made:
            read(client, "lake", "t00")
        assert len(made) == requests
    with proxy.recording() as made:
        assert tables(client, "lake") == ["t00"]
    assert len(made) == requests
