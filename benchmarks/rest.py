"""The REST server against pylance's RestAdapter: the same catalog, the same client.

Each server is a process of its own, over one catalog in manifest mode. The client is pylance's
RestNamespace, one per connection, each in a thread. Both servers are asked in turns. What counts
are requests that were answered with success: an error is no answer, however soon it comes.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import lance_namespace as api
import numpy as np
import pyarrow as pa
from lance.namespace import RestNamespace

import tiltyard
from benchmarks._catalogs import V2
from benchmarks.measure import Contest, Count, contest, quick_from, show_contests, show_counts

TABLES = 1_000
CONNECTIONS = (1, 8, 32)
CROWD = 64
# Ahead where there are several; a single client should not be much worse off.
GOALS = {1: 0.5, 8: 1.0, 32: 1.0}
# Calls per connection and round, so that a round takes about a second.
CALLS = {"describe": 40, "list": 10, "declare": 4, "insert of 2 MB": 2}
# The peer refuses bodies over 2 MiB, so the larger insert is ours alone.
LARGE = "insert of 10 MB"

Work = Callable[[RestNamespace, int], object]


def main(*, quick: bool = False) -> int:
    """Print what each kind of request takes; returns how many rows miss their goal."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-rest-") as root:
        _fill(root, 100 if quick else TABLES)
        with _server("ours", root) as ours, _server("theirs", root) as theirs:
            connections = CONNECTIONS[:2] if quick else CONNECTIONS
            told = [
                _contest(what, many, ours, theirs, quick=quick)
                for what in CALLS
                for many in connections
            ]
            contests, failures = zip(*told, strict=True)
            behind = show_contests("requests over HTTP, each until all had success", contests)
            for many in connections:
                _alone(LARGE, many, ours, theirs)
            crowd = _crowd(16 if quick else CROWD, ours, theirs)
            return behind + show_counts("requests that failed", [*failures, *crowd])


def _fill(root: str, tables: int) -> None:
    catalog = tiltyard.connect(root, **V2)
    catalog.declare_tables([api.DeclareTableRequest(id=[f"t{n}"]) for n in range(tables)])
    rows = _rows(1)
    for number in range(CROWD):
        request = api.CreateTableRequest(id=[f"data{number}"])
        catalog.create_table(request, rows)


def _rows(megabytes: int) -> bytes:
    """Rows of 1 KB: an id and a vector."""
    count = megabytes * 1000
    vectors = np.random.default_rng(7).random((count, 248), dtype=np.float32)
    table = pa.table(
        {
            "id": pa.array(range(count)),
            "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 248),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


# -- what is asked for

_BODIES = {"insert of 2 MB": _rows(2), LARGE: _rows(10)}
_fresh = itertools.count()


def _insert(what: str) -> Work:
    return lambda client, n: client.insert_into_table(
        api.InsertIntoTableRequest(id=[f"data{n}"], mode="append"), _BODIES[what]
    )


_WORK: dict[str, Work] = {
    "describe": lambda client, n: client.describe_table(api.DescribeTableRequest(id=[f"t{n}"])),
    "list": lambda client, n: client.list_tables(api.ListTablesRequest(id=[])),
    "declare": lambda client, n: client.declare_table(
        api.DeclareTableRequest(id=[f"new{next(_fresh)}"])
    ),
    **{what: _insert(what) for what in _BODIES},
}


def _contest(what: str, many: int, ours: str, theirs: str, *, quick: bool) -> tuple[Contest, Count]:
    """How long both take, and how many of their answers were errors."""
    calls = 1 if quick else CALLS[what]
    shown = f"{what}, {many} connection{'s' if many > 1 else ''}"
    with ThreadPoolExecutor(many) as pool:
        our_side, their_side = (_Side(pool, address, many) for address in (ours, theirs))
        times = contest(
            shown,
            lambda: our_side.ask(_WORK[what], calls),
            lambda: their_side.ask(_WORK[what], calls),
            goal=GOALS[many],
        )
    shown += f", of {our_side.asked:,}"
    return (
        replace(
            times, ours=times.ours / our_side.success, theirs=times.theirs / their_side.success
        ),
        Count(shown, our_side.failed, their_side.failed, goal=0),
    )


class _Side:
    """The clients of one server, and what became of their requests."""

    def __init__(self, pool: ThreadPoolExecutor, address: str, many: int) -> None:
        self._pool = pool
        self._clients = [RestNamespace(uri=address) for _ in range(many)]
        self.asked = 0
        self.failed = 0

    @property
    def success(self) -> float:
        """The share of requests that had success; nearly none if all failed."""
        return max(self.asked - self.failed, 1e-9) / self.asked

    def ask(self, work: Work, calls: int) -> None:
        """Each client makes its calls, all at once."""

        def one(number: int) -> int:
            return sum(_fails(work, self._clients[number], number) for _ in range(calls))

        many = len(self._clients)
        self.failed += sum(self._pool.map(one, range(many)))
        self.asked += many * calls


def _fails(work: Work, client: RestNamespace, number: int) -> bool:
    try:
        work(client, number)
    except api.LanceNamespaceError:
        return True
    return False


def _alone(what: str, many: int, ours: str, theirs: str) -> None:
    """What only we can do: how long it takes, and what the peer says to it."""
    with ThreadPoolExecutor(many) as pool:
        side = _Side(pool, ours, many)
        began = time.perf_counter()
        side.ask(_WORK[what], 1)
        seconds = time.perf_counter() - began
    # It answers 413 and closes the connection, or only closes it.
    refuses = _fails(_WORK[what], RestNamespace(uri=theirs), 0)
    print(
        f"{what}, {many} at once, ours alone: {seconds * 1000:,.0f} ms, {side.failed} failed; "
        f"the peer {'refuses bodies of that size' if refuses else 'takes it'}"
    )


def _crowd(many: int, ours: str, theirs: str) -> list[Count]:
    """All kinds of requests of many connections at once, the peer's with the smaller insert."""
    failed = []
    for address, insert in ((ours, LARGE), (theirs, "insert of 2 MB")):
        with ThreadPoolExecutor(many) as pool:
            side = _Side(pool, address, many)
            for what in (*list(CALLS)[:3], insert):
                side.ask(_WORK[what], 1)
        failed.append(side.failed)
    shown = f"{many} connections: describe, list, declare, insert, of {side.asked:,}"
    return [Count(shown, *failed, goal=0)]


# -- the servers


@contextmanager
def _server(which: str, root: str) -> Iterator[str]:
    """A server in a process of its own; gives its address."""
    command = [sys.executable, "-m", "benchmarks._rest_server", which, root]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from(sys.argv[1:])) else 0)
