"""A fresh catalog for every test: `mode` says how it keeps its names, `place` where it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import lance_namespace as api
import pytest

import tiltyard
from tests.behaviours.modes import COMPATIBILITY, MODES, Mode
from tests.behaviours.places import Bucket, Disk, Place
from tests.behaviours.remote import Remote
from tests.kit import rest
from tests.kit.catalogs import open_over
from tests.kit.rest import SharedServer
from tests.kit.stores import FaultyStore
from tiltyard import DirectoryNamespace

Reopen = Callable[[], api.LanceNamespace]

# What a bucket can change about these, it changes in every mode alike.
ALIKE_IN_A_BUCKET = {
    "test_bad_ids.py",
    "test_columns.py",
    "test_describing.py",
    "test_identifiers.py",
    "test_namespaces.py",
    "test_queries.py",
    "test_references.py",
    "test_registering.py",
    "test_rows.py",
    "test_table_data.py",
    "test_transactions.py",
    "test_versions.py",
}


# Over REST, a first look at each kind of operation.
FIRST_OVER_REST = {
    "test_listing.py",
    "test_namespaces.py",
    "test_purge.py",
    "test_rows.py",
    "test_table_data.py",
    "test_trash.py",
    "test_undrop.py",
}
# About what a server does not offer, or about clients that open the directory themselves.
DIRECT_ONLY = {"test_writes.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a bucket, and over REST, some of the default mode is enough for a first look."""
    here = Path(__file__).parent
    items[:] = [item for item in items if item.path.parent != here or not _is_pointless(item)]
    for item in items:
        if item.path.parent == here and not _is_first_look(item):
            item.add_marker(pytest.mark.slow)


def _is_pointless(item: pytest.Item) -> bool:
    return _chosen(item, "transport") == "rest" and item.path.name in DIRECT_ONLY


def _is_first_look(item: pytest.Item) -> bool:
    is_default = _chosen(item, "mode") in (None, COMPATIBILITY)
    is_bucket = _chosen(item, "place") == "s3"
    if _chosen(item, "transport") == "rest":
        return is_default and not is_bucket and item.path.name in FIRST_OVER_REST
    return is_default or not is_bucket or item.path.name not in ALIKE_IN_A_BUCKET


def _chosen(item: pytest.Item, fixture: str) -> object:
    chosen = getattr(item, "callspec", None)
    return None if chosen is None else chosen.params.get(fixture)


@pytest.fixture(params=MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Disk(str(tmp_path / "root"))
    server = request.getfixturevalue("ministack")
    return Bucket(server, server.new_root())


@pytest.fixture(scope="session")
def shared_server() -> Iterator[SharedServer]:
    with rest.shared_server() as server:
        yield server


@pytest.fixture(params=["direct", "rest"])
def transport(request: pytest.FixtureRequest) -> str:
    """Whether a client opens the directory itself, or asks a server that does."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def reopen(
    mode: Mode, place: Place, transport: str, request: pytest.FixtureRequest
) -> Iterator[Reopen]:
    """Opens another client on the same root."""
    if transport == "direct":
        yield lambda: open_catalog(mode, place)
        return
    server: SharedServer = request.getfixturevalue("shared_server")
    with ExitStack() as stack:
        yield lambda: Remote(stack.enter_context(server.serving(open_catalog(mode, place))))


@pytest.fixture
def catalog(reopen: Reopen) -> api.LanceNamespace:
    return reopen()


@pytest.fixture
def faulty(mode: Mode, place: Place) -> tuple[DirectoryNamespace, FaultyStore]:
    """Another client on the same root, and its store, whose requests a test can break."""
    return open_over(partial(FaultyStore, bulk=1), **_properties(mode, place))


def _properties(mode: Mode, place: Place) -> dict[str, str]:
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    return {"root": place.root, **mode.properties, **storage}


def open_catalog(mode: Mode, place: Place) -> api.LanceNamespace:
    catalog = tiltyard.connect(**_properties(mode, place))
    if mode.manages_versions:
        catalog.versions.manage()
    return catalog
