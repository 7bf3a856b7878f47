"""Commits to tables: what an append costs with and without version tracking, against pylance's own
client, and how many commits managed versions take with many writers on different tables: commits
alone, and whole appends, beside what pylance manages without any catalog.

Times are taken on a local disk, in turns, each side on a catalog of its own.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from uuid import uuid4

import lance
import lance_namespace as api

import tiltyard
from benchmarks import _catalogs as catalogs
from benchmarks._catalogs import COMPATIBILITY, ROWS, V2
from benchmarks.measure import (
    Contest,
    Rate,
    contest,
    file_system_of,
    quick_from,
    show_contests,
    show_rates,
)

# At most 1.3 times as slow.
APPEND_GOAL = 1 / 1.3
TRACKED: Mapping[str, str] = {"table_version_tracking_enabled": "true"}
IN_A_ROW = 5
WRITERS = (1, 8, 32)
MANY = 32
TABLES = [f"t{number}" for number in range(MANY)]
SHARED_GOAL = 5.0
ROUNDS = 5
# How many jobs a writer has in one round, by how many writers there are.
COMMITS = {1: 300, 8: 120, 32: 60}
APPENDS = {1: 150, 8: 40, 32: 15}
QUICK = 3
# The UUID in the name of a transaction.
TRANSACTION = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\.txn)")


def main(*, quick: bool = False) -> int:
    """Print everything; returns how many rows miss their goal."""
    where = f"{file_system_of(tempfile.gettempdir())}, {tempfile.gettempdir()}"
    appends = [
        _append("append, not tracked", V2),
        _append("append, tracked", {**V2, **TRACKED}),
        _append("append, tracked, <name>.lance", {**COMPATIBILITY, **TRACKED}),
        _append("append to an open table, tracked", {**V2, **TRACKED}, opened=True),
    ]
    behind = show_contests(f"{IN_A_ROW} appends, ours against pylance's ({where})", appends)
    return behind + show_rates(
        f"Writers side by side, each on a table of its own, best of {ROUNDS} rounds ({where})",
        _shared(quick=quick),
    )


def _append(what: str, mode: Mapping[str, str], *, opened: bool = False) -> Contest:
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        return contest(
            what,
            _appending(catalogs.open_ours(ours, mode), opened),
            _appending(catalogs.open_theirs(theirs, mode), opened),
            goal=APPEND_GOAL,
        )


def _appending(catalog: api.LanceNamespace, opened: bool) -> Callable[[], None]:
    table = {"namespace_client": catalog, "table_id": ["t"]}
    dataset = lance.write_dataset(ROWS, **table)

    def append() -> None:
        for _ in range(IN_A_ROW):
            if opened:
                dataset.insert(ROWS)
            else:
                lance.write_dataset(ROWS, mode="append", **table)

    return append


# -- many writers


@dataclass(frozen=True, eq=False)
class Race:
    """Something that writers do side by side, each on a table of its own, so many times a round."""

    what: str
    jobs: Callable[[str, int], Iterator[Callable[[], object]]]
    sizes: Mapping[int, int]
    goal: float | None = None


def _shared(*, quick: bool) -> list[Rate]:
    """All races in turns; of each the best round counts, as others use the machine, too."""
    with (
        tempfile.TemporaryDirectory() as root,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as plain,
    ):
        for table in TABLES:
            lance.write_dataset(ROWS, f"{plain}/{table}")
        races = [
            Race("managed commits alone", partial(_commits, _managed(root)), COMMITS, SHARED_GOAL),
            Race("whole appends, managed", partial(_appends, _managed(other)), APPENDS),
            Race("whole appends, pylance by path", partial(_plain_appends, plain), APPENDS),
        ]
        best = {(race, count): 0.0 for race in races for count in WRITERS}
        for _ in range(1 if quick else ROUNDS):
            for race, count in best:
                size = QUICK if quick else race.sizes[count]
                found = _rate([[*race.jobs(table, size)] for table in TABLES[:count]])
                best[race, count] = max(best[race, count], found)
    return [
        Rate(
            f"{race.what}, {count} writers",
            found,
            best[race, 1],
            race.goal if count == MANY else None,
        )
        for (race, count), found in best.items()
    ]


def _managed(root: str) -> tiltyard.DirectoryNamespace:
    catalog = tiltyard.connect(root, **V2)
    catalog.versions.manage()
    for table in TABLES:
        lance.write_dataset(ROWS, namespace_client=catalog, table_id=[table])
    return catalog


def _commits(
    catalog: tiltyard.DirectoryNamespace, table: str, size: int
) -> Iterator[Callable[[], object]]:
    """Publish manifests that were staged before: what the catalog does in a commit, and no more.

    They are all alike but for the names of their transactions.
    """
    latest = catalog.describe_table_version(api.DescribeTableVersionRequest(id=[table])).version
    manifest = Path(f"/{latest.manifest_path}")
    body = manifest.read_bytes()
    for number in range(latest.version + 1, latest.version + 1 + size):
        uuid = str(uuid4())
        staged = manifest.with_name(f"{number}.manifest-{uuid}")
        staged.write_bytes(TRANSACTION.sub(uuid.encode(), body))
        request = api.CreateTableVersionRequest(
            id=[table], version=number, manifest_path=str(staged).removeprefix("/")
        )
        yield partial(catalog.create_table_version, request)


def _appends(
    catalog: tiltyard.DirectoryNamespace, table: str, size: int
) -> Iterator[Callable[[], object]]:
    """Whole appends by pylance, that come to the catalog with their commits."""
    opened = lance.dataset(namespace_client=catalog, table_id=[table])
    return repeat(partial(opened.insert, ROWS), size)


def _plain_appends(root: str, table: str, size: int) -> Iterator[Callable[[], object]]:
    """The same without a catalog: what Lance and the machine can do."""
    return repeat(partial(lance.dataset(f"{root}/{table}").insert, ROWS), size)


def _rate(jobs: Sequence[Sequence[Callable[[], object]]]) -> float:
    """Jobs a second, each list of them by a thread of its own, until the first is through."""
    done = [0] * len(jobs)
    start = threading.Barrier(len(jobs) + 1)
    end = threading.Event()

    def work(number: int) -> None:
        start.wait()
        try:
            for job in jobs[number]:
                if end.is_set():
                    return
                job()
                done[number] += 1
        finally:
            end.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    end.wait()
    rate = sum(done) / (time.perf_counter() - began)
    for thread in threads:
        thread.join()
    return rate


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from()) else 0)
