"""Counts what a reader has to follow: `python -m tools.walk` carries out a few operations on a
catalog in a temporary directory and counts, for each of them,

- calls: how often a function of tiltyard is entered. Each `call` event of `sys.setprofile` counts
  whose code lies below src/tiltyard, in any thread: functions, methods, properties, lambdas, and
  each time that a generator or a coroutine goes on. Comprehensions, generator expressions, class
  and module bodies do not count, nor do methods that dataclasses generate;
- modules: how many different files these functions stand in;
- switches: how often two calls in a row, in order of time, belong to different packages. The
  package is the first name below tiltyard: `catalog/manifest/table.py` belongs to `catalog`, and a
  module like `clock.py` is a package by itself. Returns are not counted;
- uncached: the switches if no function remembers its answers. A profile function does not hear of
  a call that `functools.cache` or `lru_cache` answers, but whoever reads the code follows it. The
  limits are for this figure: a cache alone makes nothing easier to follow.

Each operation is carried out in a catalog of its own, by a client that was used before; a first run
that is not counted has imported what is imported late, and the monotonic clock stands still, so
that the figures are the same every time. By these rules the tree of November 2026 had, cached and
uncached alike,

    declare              197 calls   21 modules    59 switches
    append               311         29           117
    drop                 196         27            64
    purge                276         18            56
    optimize             352         33           132
    describe over REST   124         27            39

`python -m tools.walk --trace OPERATION` prints the calls one by one, with the changes of package
numbered, and which packages they were between. Without `--trace`, operations choose lines of the
table. The exit status is 1 if an operation is over its limit of switches.

Only public names are used, so that figures of different trees can be compared.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any
from unittest import mock

import lance
import lance_namespace as api
import pyarrow as pa
import uvicorn

import tiltyard
from tiltyard.rest.app import create_app
from tiltyard.rest.server import ServerSettings, configure

SOURCE = Path(tiltyard.__file__).parent
TABLE = ["users"]
ROWS = pa.table({"id": [1, 2], "name": ["Ada", "Grace"]})

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass(frozen=True)
class Call:
    """One call of a function of tiltyard."""

    file: str
    line: int
    function: str
    thread: int
    depth: int

    @property
    def package(self) -> str:
        return self.file.split("/")[0].removesuffix(".py")

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")


class Recorder:
    """Notes the calls of every thread that has `hook` as its profile function, while it is on."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._on = False
        self._depths: defaultdict[int, int] = defaultdict(int)

    @contextmanager
    def recording(self) -> Iterator[list[Call]]:
        """The list of what is called meanwhile."""
        self.calls, self._on = [], True
        self._depths.clear()
        try:
            yield self.calls
        finally:
            self._on = False

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self._on or event not in ("call", "return") or code.co_name in _COMPREHENSIONS:
            return
        path = Path(code.co_filename)
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # no body of a class or a module
        if not path.is_relative_to(SOURCE) or not is_function:
            return
        thread = threading.get_ident()
        if event == "return":
            self._depths[thread] -= 1
            return
        file = path.relative_to(SOURCE).as_posix()
        depth = self._depths[thread]
        self.calls.append(Call(file, code.co_firstlineno, code.co_qualname, thread, depth))
        self._depths[thread] += 1


def profile_threads(recorder: Recorder) -> None:
    """Hear of the calls of this thread, of those that Python starts from now on, and of those in
    which Lance calls a namespace: Python does not know these, so each method sets the hook."""
    threading.setprofile(recorder.hook)
    sys.setprofile(recorder.hook)
    for kind in _subclasses(api.LanceNamespace):
        for name, method in list(vars(kind).items()):
            if isinstance(method, FunctionType) and name in _ASKED_BY_LANCE:
                setattr(kind, name, _hooked(method, recorder))


_ASKED_BY_LANCE = frozenset(name for name in vars(api.LanceNamespace) if not name.startswith("_"))


def _subclasses(kind: type) -> set[type]:
    direct: set[type] = set(kind.__subclasses__())
    below = direct.union(*map(_subclasses, direct))
    return {namespace for namespace in below if _is_ours(namespace.__module__)}


def _hooked(method: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        if sys.getprofile() is not None:
            return method(*args, **kwargs)
        sys.setprofile(recorder.hook)
        try:
            return method(*args, **kwargs)
        finally:
            sys.setprofile(None)

    return called


# ---------------------------------------------------------------- the operations

Walk = Callable[[Recorder, str], list[Call]]


def walk_declare(recorder: Recorder, root: str) -> list[Call]:
    """Declare a root table, in the default mode; another was declared before."""
    catalog = tiltyard.connect(root)
    catalog.declare_table(api.DeclareTableRequest(id=["other"]))
    with recorder.recording() as calls:
        catalog.declare_table(api.DeclareTableRequest(id=TABLE))
    return calls


def walk_append(recorder: Recorder, root: str) -> list[Call]:
    """Append with pylance, whose commit goes through the catalog."""
    catalog = tiltyard.connect(root, table_version_tracking_enabled=True)
    _write(catalog, versions=1)
    with recorder.recording() as calls:
        lance.write_dataset(ROWS, namespace_client=catalog, table_id=TABLE, mode="append")
    return calls


def walk_drop(recorder: Recorder, root: str) -> list[Call]:
    """Drop a table at `<name>.lance`."""
    catalog = tiltyard.connect(root)
    _write(catalog, versions=3)
    with recorder.recording() as calls:
        catalog.drop_table(api.DropTableRequest(id=TABLE))
    return calls


def walk_purge(recorder: Recorder, root: str) -> list[Call]:
    """Purge a table of three versions at `<name>.lance`."""
    catalog = tiltyard.connect(root)
    _write(catalog, versions=3)
    catalog.drop_table(api.DropTableRequest(id=TABLE))
    with recorder.recording() as calls:
        catalog.purge_table(TABLE)
    return calls


def walk_optimize(recorder: Recorder, root: str) -> list[Call]:
    """Compact a table of three small files."""
    catalog = tiltyard.connect(root)
    _write(catalog, versions=3)
    with recorder.recording() as calls:
        catalog.maintenance.optimize_table(TABLE)
    return calls


def walk_rest_describe(recorder: Recorder, root: str) -> list[Call]:
    """Describe a table over HTTP; the same was asked before. The server's calls alone."""
    catalog = tiltyard.connect(root)
    _write(catalog, versions=3)
    with _serving(catalog) as address:
        _post(address, "/v1/table/users/describe")
        with recorder.recording() as calls:
            _post(address, "/v1/table/users/describe")
    return calls


def _write(catalog: tiltyard.DirectoryNamespace, *, versions: int) -> None:
    for version in range(versions):
        mode = "append" if version else "create"
        lance.write_dataset(ROWS, namespace_client=catalog, table_id=TABLE, mode=mode)


@contextmanager
def _serving(catalog: tiltyard.DirectoryNamespace) -> Iterator[tuple[str, int]]:
    settings = ServerSettings()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(configure(create_app(catalog, settings), settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _post(address: tuple[str, int], path: str) -> None:
    """One request in one packet: a body that comes later is one more step of a coroutine. The
    server closes the connection, so it is done when the answer ends."""
    request = (
        f"POST {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    with socket.create_connection(address) as connection:
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"the server answered {answer.decode()}")


# Each operation with the most switches that it may have; a purge has no limit.
OPERATIONS: dict[str, tuple[Walk, int | None]] = {
    "declare": (walk_declare, 25),
    "append": (walk_append, 45),
    "drop": (walk_drop, 25),
    "purge": (walk_purge, None),
    "optimize": (walk_optimize, 50),
    "rest-describe": (walk_rest_describe, 20),
}

# Lance brings the commit of these to the catalog, in a thread of its own.
WITH_A_COMMIT = frozenset({"append", "optimize"})


Walks = dict[str, list[Call]]


def walked(names: Sequence[str]) -> tuple[Walks, Walks]:
    """The calls of each of these operations, with caches and without."""
    recorder = Recorder()
    for name in names:
        _walk(name, recorder)
    profile_threads(recorder)
    try:
        cached = {name: _walk(name, recorder) for name in names}
        with _without_caches():
            uncached = {name: _walk(name, recorder) for name in names}
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    for name in WITH_A_COMMIT.intersection(names):
        if not any(call.function.endswith("create_table_version") for call in cached[name]):
            raise RuntimeError(f"{name}: Lance called a class that has no hook")
    return cached, uncached


@contextmanager
def _without_caches() -> Iterator[None]:
    """Let every function of a module or a class that remembers its answers work each time."""
    modules = [module for name, module in sys.modules.items() if _is_ours(name)]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and _is_ours(value.__module__)
    }
    with ExitStack() as patches:
        for owner in (*modules, *classes):
            for name, value in list(vars(owner).items()):
                if isinstance(value, functools._lru_cache_wrapper):
                    patches.enter_context(mock.patch.object(owner, name, value.__wrapped__))
        yield


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "tiltyard"


def _walk(name: str, recorder: Recorder) -> list[Call]:
    # The local store lists a directory again while that has just changed: with this clock, always.
    still = mock.patch("time.monotonic_ns", return_value=time.monotonic_ns())
    walk, _ = OPERATIONS[name]
    with tempfile.TemporaryDirectory() as directory, still:
        return walk(recorder, f"{directory}/lake")


# ---------------------------------------------------------------- what is printed


def switches(calls: Sequence[Call]) -> Counter[tuple[str, str]]:
    """From which package to which, and how often."""
    steps = pairwise(call.package for call in calls)
    return Counter((before, after) for before, after in steps if before != after)


def print_table(cached: Walks, uncached: Walks) -> bool:
    """One line for each operation. Whether all keep their limits is returned."""
    print(
        f"{'operation':<15}{'calls':>7}{'modules':>9}{'switches':>10}{'uncached':>10}{'limit':>7}"
    )
    within = True
    for name, calls in cached.items():
        limit = OPERATIONS[name][1]
        counts = [switches(walk[name]).total() for walk in (cached, uncached)]
        over = limit is not None and max(counts) > limit
        within = within and not over
        modules = len({call.module for call in calls})
        shown = "" if limit is None else limit
        figures = f"{len(calls):>7}{modules:>9}{counts[0]:>10}{counts[1]:>10}{shown:>7}"
        print(f"{name:<15}{figures}{'  over' if over else ''}")
    return within


def print_trace(calls: Sequence[Call]) -> None:
    """Each call, indented by depth; a change of package has the count of switches before it."""
    threads = {call.thread: number for number, call in reversed(list(enumerate(calls)))}
    order = {thread: place for place, thread in enumerate(sorted(threads, key=threads.__getitem__))}
    count = 0
    before: Call | None = None
    for call in calls:
        if len(threads) > 1 and (before is None or before.thread != call.thread):
            print(f"-- thread {order[call.thread] + 1}")
        switched = before is not None and before.package != call.package
        count += switched
        mark = f"{count:>4} {call.package}" if switched or before is None else ""
        where = f"{call.file}:{call.line}"
        print(f"{mark:<18} {'  ' * max(call.depth, 0)}{call.function}  ({where})")
        before = call
    print(f"\n{count} switches:")
    for (source, target), times in switches(calls).most_common():
        print(f"{times:>5}  {source} -> {target}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.walk", description="Count calls, modules and changes of package."
    )
    parser.add_argument("operations", metavar="OPERATION", nargs="*", help=", ".join(OPERATIONS))
    parser.add_argument("--trace", action="store_true", help="print the uncached calls, each")
    options = parser.parse_args(arguments)
    names = options.operations or list(OPERATIONS)
    if unknown := [name for name in names if name not in OPERATIONS]:
        parser.error(f"unknown operation {unknown[0]}: one of {', '.join(OPERATIONS)}")
    cached, uncached = walked(names)
    for calls in uncached.values() if options.trace else ():
        print_trace(calls)
    return 0 if print_table(cached, uncached) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
