"""Processes that change a catalog at random and die at any point: before or after any request to
the store, or at any moment at all. What they do is noted first, in a file that outlives them."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.calls import create, declare, describe, drop, rename
from tests.behaviours.processes import context
from tests.kit.catalogs import open_over
from tests.lifecycle.history import (
    APPENDED_ROWS,
    CREATED_ROWS,
    DONE,
    DOUBT,
    INTERNAL,
    REFUSED,
    Deed,
)

# After these errors nothing has happened; after any other one it may have.
REFUSALS = {
    ErrorCode.TABLE_NOT_FOUND,
    ErrorCode.TABLE_ALREADY_EXISTS,
    ErrorCode.INVALID_TABLE_STATE,
    ErrorCode.UNSUPPORTED,
    ErrorCode.INVALID_INPUT,
}
LONGEST_LIFE_SECONDS = 0.4
MOST_REQUESTS = 80


@dataclass(frozen=True)
class Task:
    """What a process is to do next, and whether it is to die over it."""

    properties: Mapping[str, str]
    names: Sequence[str]
    verbs: Sequence[str]
    log: Path
    seed: int
    deeds: int
    dies: bool


@dataclass
class CrashingClient:
    process: BaseProcess
    line: Connection


class CrashingClients:
    """A number of processes, and some in reserve: those that died are replaced."""

    def __init__(self, number: int) -> None:
        self._context = context()
        self._waiting = deque(self._born() for _ in range(number))

    def work(self, tasks: Sequence[Task]) -> int:
        """Give each task to a process, all at once; returns how many of them died."""
        chosen = [self._waiting.popleft() for _ in tasks]
        for client in chosen:
            assert _finished(client), "it is there and ready"
        for client, task in zip(chosen, tasks, strict=True):
            client.line.send(task)
        living = [client for client in chosen if _finished(client)]
        for client in chosen:
            if client in living:
                client.line.send(None)
                self._waiting.appendleft(client)
            else:
                client.line.close()
                self._waiting.append(self._born())
        return len(chosen) - len(living)

    def close(self) -> None:
        for client in self._waiting:
            client.line.close()
            client.process.join()

    def _born(self) -> CrashingClient:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_live, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return CrashingClient(process, ours)


def _finished(client: CrashingClient) -> bool:
    """Whether a process did what it had to; it may have been killed over it, and nothing else."""
    wait([client.line, client.process.sentinel])
    try:
        return bool(client.line.recv())
    except (EOFError, ConnectionError):
        client.process.join()
        assert client.process.exitcode == -signal.SIGKILL, "it died of something else"
        return False


@contextmanager
def crashing_clients(number: int) -> Iterator[CrashingClients]:
    living = CrashingClients(number)
    try:
        yield living
    finally:
        living.close()


# -- inside such a process


class DeadlyStore:
    """Passes every request on, and dies before or after the one that was chosen."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.requests_left: float = float("inf")
        self.dies_after = False

    def __getattr__(self, verb: str) -> Any:
        act = getattr(self._inner, verb)
        return self._deadly(act) if callable(act) else act

    def _deadly(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def request(*args: Any, **kwargs: Any) -> Any:
            self.requests_left -= 1
            if self.requests_left < 0 and not self.dies_after:
                _die()
            answer = act(*args, **kwargs)
            if self.requests_left < 0:
                _die()
            return answer

        return request


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _live(line: Connection) -> None:
    clients: dict[str, tiltyard.DirectoryNamespace] = {}
    with suppress(EOFError, ConnectionError):
        while True:
            line.send(True)
            task: Task | None = line.recv()
            if task is not None:
                root = task.properties["root"]
                if root not in clients:
                    clients[root], _ = open_over(DeadlyStore, **task.properties)
                _work(clients[root], task)


def _work(client: tiltyard.DirectoryNamespace, task: Task) -> None:
    dice = random.Random(task.seed)
    if task.dies:
        _choose_an_end(client, dice)
    with task.log.open("ab", buffering=0) as log:
        for number in range(task.deeds):
            verb = dice.choice(task.verbs)
            names = tuple(dice.sample(task.names, 2 if verb == "rename" else 1))
            _do(client, Deed(verb, names, f"{task.seed:x}-{number}", time.monotonic()), log)
    if task.dies:
        _die()


def _choose_an_end(client: Any, dice: random.Random) -> None:
    if dice.random() < 0.7:
        client.context.store.requests_left = dice.randrange(MOST_REQUESTS)
        client.context.store.dies_after = dice.random() < 0.5
    else:
        timer = threading.Timer(dice.uniform(0, LONGEST_LIFE_SECONDS), _die)
        timer.daemon = True
        timer.start()


def _do(client: tiltyard.DirectoryNamespace, deed: Deed, log: Any) -> None:
    begun = {key: value for key, value in asdict(deed).items() if key != "end"}
    _note(log, {"deed": deed.tag, **begun})
    done = _tried(client, deed)
    _note(
        log,
        {
            "deed": deed.tag,
            "end": time.monotonic(),
            "outcome": done.outcome,
            "error": done.error,
        },
    )


def _note(log: Any, entry: dict[str, object]) -> None:
    log.write(json.dumps(entry).encode() + b"\n")


def _tried(client: tiltyard.DirectoryNamespace, deed: Deed) -> Deed:
    try:
        ACTS[deed.verb](client, deed)
    except tiltyard.TiltyardError as error:
        outcome = REFUSED if error.code in REFUSALS else DOUBT
        if error.code == ErrorCode.INTERNAL:
            outcome = INTERNAL
        return replace(deed, outcome=outcome, error=f"{type(error).__name__}: {error}")
    except Exception as error:
        # A writer that knows no catalog meets whatever Lance makes of a race.
        outcome = DOUBT if deed.verb == "append" else INTERNAL
        return replace(deed, outcome=outcome, error=f"{type(error).__name__}: {error}")
    return replace(deed, outcome=DONE)


def rows_of(tag: str, number: int) -> pa.Table:
    return pa.table({"tag": [tag] * number, "number": list(range(number))})


def _append(client: tiltyard.DirectoryNamespace, deed: Deed) -> object:
    location = describe(client, *deed.names).location
    options = dict(client.context.settings.storage) or None
    lance.dataset(location, storage_options=options)  # or it would make a table of its own
    rows = rows_of(deed.tag, APPENDED_ROWS)
    return lance.write_dataset(rows, location, mode="append", storage_options=options)


def _purge(client: tiltyard.DirectoryNamespace, deed: Deed) -> object:
    return client.purge_table(list(deed.names))


def _undrop(client: tiltyard.DirectoryNamespace, deed: Deed) -> object:
    return client.undrop_table(list(deed.names), keep_newer=True)


Act = Callable[[tiltyard.DirectoryNamespace, Deed], object]
ACTS: dict[str, Act] = {
    "create": lambda it, deed: create(it, *deed.names, data=rows_of(deed.tag, CREATED_ROWS)),
    "declare": lambda it, deed: declare(it, *deed.names),
    "drop": lambda it, deed: drop(it, *deed.names),
    "undrop": _undrop,
    "purge": _purge,
    "rename": lambda it, deed: rename(it, deed.names[0], to=deed.names[1]),
    "append": _append,
}
