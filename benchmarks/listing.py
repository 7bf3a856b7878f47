"""Listing the tables of a directory-mode catalog: times on a disk, requests on an S3 server.

The peer is pylance's own DirectoryNamespace in the same mode, on the same directories. They are
migrated first, once and untimed: a directory that never was may have tables that are hidden by a
file inside them, so that listing it looks into each. The peer does so every time.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance.namespace
import obstore
from lance_namespace import LanceNamespace, ListTablesRequest

import tiltyard
from benchmarks.measure import (
    Contest,
    Count,
    contest,
    file_system_of,
    quick_from,
    show_contests,
    show_counts,
)
from tests.kit.faultproxy import FaultProxy
from tests.kit.servers import NotInstalled, ministack

# How many tables, and how many times faster than the peer we mean to be.
GOALS = {100: 2.0, 1_000: 5.0, 10_000: 10.0, 50_000: 30.0}
MEMORY = "/dev/shm"
# The peer probes every table on its own, so on a real disk the largest size takes minutes.
LARGEST_ON_DISK = 10_000
BUCKET_SIZES = (100, 1_000, 2_500)
PAGE = 1_000

EVERYTHING = ListTablesRequest(id=[])


def main(*, quick: bool = False) -> int:
    """Print both tables; returns how many rows miss their goal."""
    print("every directory was migrated first, once and untimed: tiltyard migrate")
    sizes = [size for size in GOALS if size <= 1_000 or not quick]
    behind = 0
    if os.path.isdir(MEMORY):
        behind += _on_disk(MEMORY, sizes)
    on_disk = [size for size in sizes if size <= LARGEST_ON_DISK]
    behind += _on_disk(tempfile.gettempdir(), on_disk)
    try:
        return behind + _in_a_bucket(BUCKET_SIZES[:1] if quick else BUCKET_SIZES)
    except NotInstalled as missing:
        print(f"requests are not counted: {missing}")
        return behind


def _on_disk(where: str, sizes: list[int]) -> int:
    contests = [_list_locally(where, size) for size in sizes]
    return show_contests(f"list_tables on {file_system_of(where)} ({where})", contests)


def _list_locally(where: str, size: int) -> Contest:
    with _catalog_of(size, where) as root:
        ours, theirs = _clients(str(root), {})
        seen: dict[str, list[str]] = {}
        result = contest(
            f"{size:,} tables",
            lambda: seen.update(ours=ours.list_tables(EVERYTHING).tables),
            lambda: seen.update(theirs=theirs.list_tables(EVERYTHING).tables),
            goal=GOALS[size],
        )
        assert seen["ours"] == sorted(seen["theirs"]), "the two do not see the same tables"
        return result


@contextmanager
def _catalog_of(size: int, where: str) -> Iterator[Path]:
    """A directory of tables as a listing sees them; nobody opens one."""
    root = Path(tempfile.mkdtemp(prefix="tiltyard-listing-", dir=where))
    try:
        for name in _table_names(size):
            versions = root / f"{name}.lance" / "_versions"
            versions.mkdir(parents=True)
            (versions / "18446744073709551614.manifest").touch()
        yield root
    finally:
        shutil.rmtree(root)


def _in_a_bucket(sizes: tuple[int, ...]) -> int:
    with ministack() as server, FaultProxy(server.endpoint) as proxy:
        counts = []
        for size in sizes:
            prefix = f"lake-{size}"
            store = server.store(prefix)
            keys = [f"{name}.lance/_versions/1.manifest" for name in _table_names(size)]
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda key, store=store: obstore.put(store, key, b"x"), keys))
            root = f"s3://{server.bucket}/{prefix}"
            ours, theirs = _clients(root, server.through(proxy.url).storage_options())
            counts.append(
                Count(
                    f"{size:,} tables",
                    _requests(proxy, ours, size),
                    _requests(proxy, theirs, size),
                    goal=math.ceil(size / PAGE),
                )
            )
    return show_counts("list_tables on S3: requests", counts)


def _requests(proxy: FaultProxy, client: LanceNamespace, size: int) -> int:
    with proxy.recording() as made:
        found = client.list_tables(EVERYTHING).tables
    assert len(found) == size, f"{len(found)} of {size} tables"
    return len(made)


def _clients(root: str, storage: dict[str, str]) -> tuple[LanceNamespace, LanceNamespace]:
    options = {f"storage.{name}": value for name, value in storage.items()}
    ours = tiltyard.connect(root, manifest_enabled=False, **options)
    ours.maintenance.migrate()
    kind: type[Any] = lance.namespace.DirectoryNamespace  # which has no types
    return ours, kind(root=root, manifest_enabled="false", **options)


def _table_names(size: int) -> list[str]:
    return [f"table_{number:06d}" for number in range(size)]


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from()) else 0)
