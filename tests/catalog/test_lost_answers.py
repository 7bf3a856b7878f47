"""A commit whose answer is lost, over a real store: it counts once, or it did not happen."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import create
from tests.kit.buckets import S3Server
from tests.kit.faultproxy import AFTER, Drop, FaultProxy, Status
from tiltyard.catalog.pylance import Lance, LostRaceError
from tiltyard.errors import ServiceUnavailableError, ThrottlingError
from tiltyard.settings import Settings

ROWS = pa.table({"n": [1]})
MANIFEST = r"/_versions/[^/]*\.manifest"


@pytest.fixture
def proxy(ministack: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as running:
        yield running


@pytest.fixture
def root(ministack: S3Server) -> str:
    return ministack.new_root()


@pytest.fixture
def access(ministack: S3Server, proxy: FaultProxy, root: str) -> Lance:
    # One try each: what a repeated request does is the business of the first two tests.
    options = ministack.through(proxy.url).storage_options()
    return _access(root, {**options, "client_max_retries": "0"})


def _access(root: str, options: dict[str, str]) -> Lance:
    return Lance(
        Settings.from_properties(
            {"root": root, **{f"storage.{name}": value for name, value in options.items()}}
        )
    )


def _versions(ministack: S3Server, root: str) -> list[int]:
    table = lance.dataset(f"{root}/t.lance", storage_options=ministack.storage_options())
    return [version["version"] for version in table.versions()]


def test_a_commit_whose_answer_was_lost_is_recognised(
    ministack: S3Server, proxy: FaultProxy, root: str, access: Lance
) -> None:
    staged = access.stage("t.lance", ROWS)
    proxy.inject(Drop(when=AFTER), method="PUT", path=MANIFEST)

    landed = access.commit(staged)

    assert landed.version == 1
    assert _versions(ministack, root) == [1]


def test_a_commit_that_lance_repeats_is_not_taken_for_anothers(
    ministack: S3Server, proxy: FaultProxy, root: str
) -> None:
    access = _access(root, ministack.through(proxy.url).storage_options())
    staged = access.stage("t.lance", ROWS)
    proxy.inject(Status(503, when=AFTER), method="PUT", path=MANIFEST)

    landed = access.commit(staged)

    assert landed.version == 1
    assert proxy.count("PUT", MANIFEST) == 2, "Lance asked again and was told 'exists already'"
    assert _versions(ministack, root) == [1]


def test_a_commit_that_never_arrived_is_an_error_and_no_version(
    ministack: S3Server, proxy: FaultProxy, root: str, access: Lance
) -> None:
    staged = access.stage("t.lance", ROWS)
    proxy.inject(Status(503), method="PUT", path=MANIFEST, times=None)

    with pytest.raises((ServiceUnavailableError, ThrottlingError)):
        access.commit(staged)

    with pytest.raises(ValueError, match="not found"):
        _versions(ministack, root)


def test_a_lost_answer_to_a_race_that_was_lost_is_a_lost_race(
    ministack: S3Server, proxy: FaultProxy, root: str, access: Lance
) -> None:
    mine = access.stage("t.lance", ROWS)
    other = _access(root, ministack.storage_options())
    theirs = other.stage("t.lance", pa.table({"n": [2]}))
    other.commit(theirs)
    proxy.inject(Drop(when=AFTER), method="PUT", path=MANIFEST)

    with pytest.raises(LostRaceError):
        access.commit(mine)

    assert other.open("t.lance").to_table() == pa.table({"n": [2]})


def test_a_create_whose_answer_was_lost_is_told_as_done(
    ministack: S3Server, proxy: FaultProxy, root: str
) -> None:
    storage = ministack.through(proxy.url).storage_options()
    catalog = tiltyard.connect(
        root,
        manifest_enabled=False,
        **{f"storage.{name}": value for name, value in storage.items()},
    )
    proxy.inject(Drop(when=AFTER), method="PUT", path=MANIFEST)

    answer = create(catalog, "t", data=ROWS)

    assert answer.version == 1
    assert _versions(ministack, root) == [1]
