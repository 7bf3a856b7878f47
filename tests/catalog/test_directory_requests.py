"""What directory mode asks of a bucket: requests that do not grow with the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import lance_namespace as api
import pytest

import tiltyard
from tests.behaviours.calls import declare, deregister, describe, exists, tables
from tests.behaviours.places import Bucket
from tests.kit.buckets import S3Server
from tests.kit.faultproxy import FaultProxy, Request

# Each prefix and each object counts as an entry, and S3 gives a thousand to a page.
MANY = 2_500


@pytest.fixture
def proxy(ministack: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as running:
        yield running


@pytest.fixture
def bucket(ministack: S3Server) -> Bucket:
    return Bucket(ministack, ministack.new_root())


@pytest.fixture
def catalog(ministack: S3Server, proxy: FaultProxy, bucket: Bucket) -> api.LanceNamespace:
    """Has already tried out the store, as it does before its first write."""
    storage = ministack.through(proxy.url).storage_options()
    opened = tiltyard.connect(
        bucket.root,
        manifest_enabled=False,
        **{f"storage.{name}": value for name, value in storage.items()},
    )
    declare(opened, "first")
    return opened


def _methods(requests: list[Request]) -> list[str]:
    return [request.method for request in requests]


def test_listing_is_one_request_and_reads_no_marker(
    catalog: api.LanceNamespace, proxy: FaultProxy
) -> None:
    for name in ("a", "b", "c"):
        declare(catalog, name)
    deregister(catalog, "b")

    with proxy.recording() as made:
        listed = tables(catalog)

    assert listed == ["a", "c", "first"]
    assert _methods(made) == ["GET"]
    assert "list-type=2" in made[0].query


@pytest.mark.slow
def test_listing_thousands_takes_a_request_for_each_thousand(
    catalog: api.LanceNamespace, proxy: FaultProxy, bucket: Bucket
) -> None:
    names = [f"t{number:04d}" for number in range(MANY)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: bucket.write(f"{name}.lance/.lance-reserved", b"x"), names))

    with proxy.recording() as made:
        listed = tables(catalog)

    assert listed == ["first", *names]
    assert len(made) == 3


@pytest.mark.parametrize("table", ["first", "missing"])
def test_looking_for_a_table_takes_its_directory_and_its_marker(
    catalog: api.LanceNamespace, proxy: FaultProxy, table: str
) -> None:
    with proxy.recording() as made:
        exists(catalog, table)

    assert _methods(made) == ["GET", "GET"]
    assert sorted(file.path.endswith(f"/{table}.deleted") for file in made) == [False, True]


def test_describing_a_table_takes_two_requests(
    catalog: api.LanceNamespace, proxy: FaultProxy
) -> None:
    with proxy.recording() as made:
        describe(catalog, "first", check_declared=True)

    assert len(made) == 2


def test_declaring_a_table_takes_three_requests(
    catalog: api.LanceNamespace, proxy: FaultProxy
) -> None:
    with proxy.recording() as made:
        declare(catalog, "second")

    assert sorted(_methods(made)) == ["GET", "GET", "PUT"]
    assert [request.conditional for request in made if request.method == "PUT"] == [True]


def test_only_the_first_write_tries_out_the_store(
    catalog: api.LanceNamespace, proxy: FaultProxy, bucket: Bucket
) -> None:
    with proxy.recording() as made:
        declare(catalog, "second")
        deregister(catalog, "second")

    assert not [file for file in made if "__probe" in file.path]
    assert not [key for key in bucket.files() if "__probe" in key], "and it leaves nothing behind"
