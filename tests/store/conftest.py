"""The backends that the conformance suite runs over, each with fresh roots and second clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.kit.servers import Server
from tiltyard.settings import Settings
from tiltyard.store import LocalStore, MemoryStore, Store, open_store


@dataclass(frozen=True)
class Backend:
    """One kind of store. `racers` and `many` are what it can take in a few seconds."""

    name: str
    racers: int
    many: int
    # SeaweedFS goes on listing a folder for a while after its last object went.
    folders_linger: bool
    new: Callable[[], Store]
    new_without_prefix: Callable[[], Store]
    another_client: Callable[[Store], Store]


def keys(store: Store, prefix: str = "") -> list[str]:
    """Every key below a prefix, sorted: the order of a walk is the backend's own."""
    return sorted(entry.key for entry in store.walk(prefix))


def open_on(server: Server, root: str, **storage: str) -> Store:
    """The store at `root`, as a namespace would open it."""
    options = {**server.storage_options(), **storage}
    properties = {f"storage.{name}": value for name, value in options.items()}
    return open_store(Settings.from_properties({"root": root, **properties}))


def _on_server(server: Server, racers: int, many: int) -> Backend:
    def without_prefix() -> Store:
        other = server.new_bucket()
        return open_on(other, other.new_root().rpartition("/")[0])

    return Backend(
        server.name,
        racers,
        many,
        server.name == "seaweedfs",
        new=lambda: open_on(server, server.new_root()),
        new_without_prefix=without_prefix,
        another_client=lambda store: open_on(server, store.url),
    )


def _on_disk(folder: Path) -> Backend:
    def new() -> Store:
        return LocalStore(str(folder / uuid4().hex))

    return Backend("local", 32, 1_234, False, new, new, lambda store: LocalStore(store.url))


def _in_memory() -> Backend:
    return Backend("memory", 32, 1_234, False, MemoryStore, MemoryStore, lambda store: store)


# How many racers and objects each server takes without making the suite slow.
_SIZES = {"ministack": (32, 1_234), "seaweedfs": (4, 1_034), "azurite": (32, 60)}


@pytest.fixture(
    params=[
        "memory",
        "local",
        *(pytest.param(name, marks=pytest.mark.servers) for name in _SIZES),
    ]
)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "memory":
        return _in_memory()
    if request.param == "local":
        return _on_disk(tmp_path)
    server: Server = request.getfixturevalue(request.param)
    return _on_server(server, *_SIZES[request.param])


@pytest.fixture
def store(backend: Backend) -> Store:
    """An empty store."""
    return backend.new()
