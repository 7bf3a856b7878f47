"""What the trash asks of a bucket: a drop costs the same whatever the table's size, and a listing
the same whatever was dropped."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import lance.namespace
import lance_namespace as api
import obstore
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import create, declare, deregister, drop, tables
from tests.behaviours.modes import COMPATIBILITY, V1, Mode, with_directory_listing
from tests.behaviours.places import Bucket
from tests.kit.buckets import S3Server
from tests.kit.faultproxy import FaultProxy, Request
from tiltyard import DirectoryNamespace
from tiltyard.catalog import marker
from tiltyard.catalog.marker import Marker, State

MANY_FILES = 60
PAGE = 1_000


@pytest.fixture
def proxy(ministack: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as running:
        yield running


@pytest.fixture
def bucket(ministack: S3Server) -> Bucket:
    return Bucket(ministack, ministack.new_root())


@pytest.fixture
def properties(mode: Mode, proxy: FaultProxy, bucket: Bucket) -> dict[str, str]:
    storage = bucket.server.through(proxy.url).storage_options()
    return {
        "root": bucket.root,
        **mode.properties,
        **{f"storage.{name}": value for name, value in storage.items()},
    }


@pytest.fixture
def catalog(properties: dict[str, str]) -> DirectoryNamespace:
    """Has already tried out the store, as it does before its first write."""
    opened = tiltyard.connect(**properties)
    create(opened, "first")
    drop(opened, "first")
    opened.undrop_table(["first"])
    return opened


def _shape(requests: list[Request]) -> list[tuple[str, bool, bool]]:
    """Requests without what differs from table to table."""
    return sorted(
        (request.method, request.conditional, "list-type" in request.query) for request in requests
    )


def _write(bucket: Bucket, objects: dict[str, bytes]) -> None:
    store = bucket.server.store(_key(bucket, ""))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda entry: obstore.put(store, *entry), objects.items()))


def test_a_drop_costs_the_same_whatever_the_size_of_the_table(
    catalog: DirectoryNamespace, proxy: FaultProxy, bucket: Bucket
) -> None:
    small = pa.table({"x": pa.array([], pa.int64())})
    create(catalog, "small", data=small)
    location = bucket.key(create(catalog, "big").location or "")
    for _ in range(10):
        create(catalog, "big", mode="overwrite")
    _write(bucket, {f"{location}/data/{number:04d}.lance": b"x" for number in range(MANY_FILES)})

    with proxy.recording() as for_small:
        drop(catalog, "small")
    with proxy.recording() as for_big:
        drop(catalog, "big")

    assert _shape(for_big) == _shape(for_small)
    assert sum(request.sent_bytes for request in for_big) < 20_000
    assert not [
        request for request in for_big if request.method == "DELETE" or "?delete" in request.path
    ]


@pytest.mark.parametrize("mode", [COMPATIBILITY], indirect=True, ids=str)
def test_what_was_dropped_adds_no_request_to_a_listing(
    catalog: DirectoryNamespace, proxy: FaultProxy, bucket: Bucket
) -> None:
    _check_listing(catalog, proxy, bucket, every=1_200, dropped=240)


@pytest.mark.slow
@with_directory_listing
def test_two_thousand_dropped_of_ten_thousand_add_no_request_to_a_listing(
    catalog: DirectoryNamespace, proxy: FaultProxy, bucket: Bucket
) -> None:
    _check_listing(catalog, proxy, bucket, every=10_000, dropped=2_000)


def _check_listing(
    catalog: DirectoryNamespace, proxy: FaultProxy, bucket: Bucket, *, every: int, dropped: int
) -> None:
    names = [f"t{number:05d}" for number in range(every)]
    hidden = names[:: every // dropped]
    body = marker.encode(Marker(State.DELETED, generation="0" * 16, deleted_at_ms=1, ttl_ms=1))
    _write(bucket, {f"{name}.lance/.lance-reserved": b"x" for name in names})
    _write(bucket, {f"{name}.deleted": body for name in hidden})

    with proxy.recording() as made:
        listed = tables(catalog)

    assert listed == sorted({"first", *names}.difference(hidden))
    listings = _listings(made)
    entries = every + dropped + 10
    assert len(listings) <= -(-entries // PAGE) + 1, "a request for each thousand"
    assert not [request for request in made if request.path.endswith(".deleted")], (
        "no marker is read"
    )
    assert len(made) - len(listings) <= 1, "and at most the manifest is asked"


# -- catalogs of Lance's own clients


@with_directory_listing
def test_a_catalog_of_lances_own_client_is_looked_through_until_it_is_migrated(
    properties: dict[str, str], proxy: FaultProxy, bucket: Bucket
) -> None:
    peer: api.LanceNamespace = lance.namespace.DirectoryNamespace(**{**properties, **V1.properties})
    for name in ("a", "b", "c", "d"):
        declare(peer, name)
    deregister(peer, "b")
    catalog = tiltyard.connect(**properties)
    with proxy.recording() as before:
        assert tables(catalog) == ["a", "c", "d"]

    catalog.maintenance.migrate()

    with proxy.recording() as after:
        assert tables(catalog) == ["a", "c", "d"]
    assert len(_inside(before)) == 4, "each directory was looked into"
    assert not _inside(after)
    assert len(_listings(after)) == 1
    body = bytes(obstore.get(bucket.server.store(), _key(bucket, "b.deleted")).bytes())
    assert marker.decode(body, "b.deleted").state is State.DEREGISTERED


@with_directory_listing
def test_a_catalog_that_is_new_is_never_looked_through(
    catalog: DirectoryNamespace, proxy: FaultProxy
) -> None:
    declare(catalog, "second")

    with proxy.recording() as made:
        assert tables(catalog) == ["first", "second"]

    assert not _inside(made)


@with_directory_listing
def test_what_lances_own_client_hid_stays_hidden_though_it_has_a_row(
    properties: dict[str, str], catalog: DirectoryNamespace, bucket: Bucket
) -> None:
    """A table that has a row already may have been hidden by a client that knows no rows."""
    obstore.delete(bucket.server.store(), _key(bucket, "__nested_markers_lifted"))
    peer: api.LanceNamespace = lance.namespace.DirectoryNamespace(**{**properties, **V1.properties})
    deregister(peer, "first")
    assert tables(catalog) == []

    catalog.maintenance.migrate()

    assert tables(catalog) == []


def _listings(requests: list[Request]) -> list[Request]:
    """Of the root."""
    listings = [request for request in requests if "list-type=2" in request.query]
    return [request for request in listings if "__manifest" not in request.query]


def _inside(requests: list[Request]) -> list[Request]:
    return [request for request in requests if ".lance/" in request.query]


def _key(bucket: Bucket, name: str) -> str:
    return f"{bucket.root.removeprefix(f's3://{bucket.server.bucket}/')}/{name}"
