"""The REST server against pylance's RestAdapter: the same catalog, the same client.

Each server is a process of its own, over one catalog in manifest mode. The client is pylance's
RestNamespace, one per connection, each in a thread. Both servers are asked in turns.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import lance_namespace as api
import numpy as np
import pyarrow as pa
from lance.namespace import RestNamespace

import tiltyard
from benchmarks._catalogs import V2
from benchmarks.measure import Contest, contest, quick_from, show_contests

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
            contests = [
                _contest(what, many, ours, theirs, quick=quick)
                for what in CALLS
                for many in connections
            ]
            behind = show_contests("requests over HTTP", contests)
            for many in connections:
                _alone(LARGE, many, ours, theirs)
            return behind + _crowd(ours, 16 if quick else CROWD)


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


def _contest(what: str, many: int, ours: str, theirs: str, *, quick: bool) -> Contest:
    calls = 1 if quick else CALLS[what]
    with ThreadPoolExecutor(many) as pool:
        our_clients = [RestNamespace(uri=ours) for _ in range(many)]
        their_clients = [RestNamespace(uri=theirs) for _ in range(many)]
        shown = f"{what}, {many} connection{'s' if many > 1 else ''}"
        return contest(
            shown,
            lambda: _all_at_once(pool, _WORK[what], our_clients, calls),
            lambda: _all_at_once(pool, _WORK[what], their_clients, calls, lenient=True),
            goal=GOALS[many],
        )


def _all_at_once(
    pool: ThreadPoolExecutor,
    work: Work,
    clients: Sequence[RestNamespace],
    calls: int,
    *,
    lenient: bool = False,
) -> None:
    """Each client makes its calls, all at once. The peer may fail: it still took its time."""

    def one(number: int) -> None:
        for _ in range(calls):
            try:
                work(clients[number], number)
            except api.LanceNamespaceError:
                if not lenient:
                    raise

    list(pool.map(one, range(len(clients))))


def _alone(what: str, many: int, ours: str, theirs: str) -> None:
    """What only we can do: how long it takes, and what the peer says to it."""
    clients = [RestNamespace(uri=ours) for _ in range(many)]
    with ThreadPoolExecutor(many) as pool:
        began = time.perf_counter()
        _all_at_once(pool, _WORK[what], clients, 1)
        seconds = time.perf_counter() - began
    try:
        _WORK[what](RestNamespace(uri=theirs), 0)
        answer = "takes it"
    except api.LanceNamespaceError:  # it answers 413 and closes the connection, or only closes it
        answer = "refuses it"
    print(f"{what}, {many} at once: {seconds * 1000:,.0f} ms; the peer {answer}")


def _crowd(address: str, many: int) -> int:
    """All kinds of requests of many connections at once; returns how many failed."""
    clients = [RestNamespace(uri=address) for _ in range(many)]
    works = [_WORK[what] for what in (*list(CALLS)[:3], LARGE)]

    def one(number: int) -> int:
        try:
            for work in works:
                work(clients[number], number)
        except api.LanceNamespaceError as error:
            print(f"connection {number}: {error}")
            return 1
        return 0

    with ThreadPoolExecutor(many) as pool:
        failed = sum(pool.map(one, range(many)))
    print(
        f"{many} connections at once, each a describe, a list, a declare and an insert: "
        f"{failed} failed"
    )
    return failed


# -- the servers


@contextmanager
def _server(which: str, root: str) -> Iterator[str]:
    """A server in a process of its own; gives its address."""
    command = [sys.executable, "-m", "benchmarks._rest_server", which, root]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate()  # closes its input, which ends it


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from(sys.argv[1:])) else 0)
