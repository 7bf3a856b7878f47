"""A store that fails on purpose: it wraps any other, logs every request, and breaks those that a
test has planned to break. What a store can do to its caller lives here; what HTTP can do to a
store lives in `faultproxy`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from tiltyard.errors import ServiceUnavailableError
from tiltyard.store import (
    AlreadyThere,
    Ambiguous,
    Blob,
    Changed,
    Entry,
    Listing,
    Outcome,
    Progress,
    Store,
    Tag,
)

T = TypeVar("T")
Hook = Callable[[], object]

CONDITIONAL = ("put_new", "replace")
WRITES = (*CONDITIONAL, "put", "move", "delete", "delete_many")


class Fault(Enum):
    """What goes wrong with one request. A fault that means nothing to a verb never hits it."""

    LOST_ANSWER = "the request takes effect, its answer does not arrive"
    CONFLICT = "a conditional write is refused although nothing stands in its way (S3's 409)"
    UNAVAILABLE = "503: nothing happens"
    LATE = "no answer in time; a write takes effect when the test calls `deliver_late`"
    STALL = "the hook runs first, and only then the request"
    STALL_AFTER = "the request takes effect, then the hook runs, then the answer arrives"
    CRASH_BEFORE = "the process dies, and the request was never sent"
    CRASH_AFTER = "the process dies, and the request took effect"


class Crash(BaseException):
    """The process died here. No `except Exception` of the code under test can survive it."""


class Request(NamedTuple):
    """One line of the log. For a listing the key is its prefix, for a bulk delete its first key."""

    verb: str
    key: str


@dataclass
class Plan:
    """Which requests meet a fault: of those that match, `times` do, once `after` were spared."""

    verb: str
    key: str
    fault: Fault
    times: int
    after: int
    hook: Hook | None
    hits: int = field(default=0, init=False)

    @property
    def is_spent(self) -> bool:
        return self.hits >= self.times

    def matches(self, verb: str, keys: Iterable[str]) -> bool:
        if self.fault is Fault.CONFLICT and verb not in CONDITIONAL:
            return False
        return fnmatchcase(verb, self.verb) and any(fnmatchcase(key, self.key) for key in keys)


class FaultyStore:
    """A `Store` over `inner`. Verbs and keys of a plan are shell patterns; "*" crosses slashes.

    A bulk delete is one request for every `bulk` keys: 1 shows each deletion by itself.
    """

    def __init__(self, inner: Store, bulk: int = 1_000) -> None:
        self.inner = inner
        self.requests: list[Request] = []
        self._bulk = bulk
        self._plans: list[Plan] = []
        self._late: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    # -- what a test arranges and looks at

    def plan(
        self,
        fault: Fault,
        *,
        verb: str = "*",
        key: str = "*",
        times: int = 1,
        after: int = 0,
        hook: Hook | None = None,
    ) -> Plan:
        """Break requests to come. Of several plans that match, the first unspent one hits."""
        if (hook is not None) != (fault in (Fault.STALL, Fault.STALL_AFTER)):
            raise ValueError("a stall needs a hook, and only a stall has one")
        made = Plan(verb, key, fault, times, after, hook)
        with self._lock:
            self._plans.append(made)
        return made

    @property
    def pending(self) -> list[Plan]:
        """Plans that have not hit as often as they should: a test that leaves any proves little."""
        with self._lock:
            return [plan for plan in self._plans if not plan.is_spent]

    def count(self, verb: str = "*", key: str = "*") -> int:
        """How many requests of this kind were made, those that met a fault included."""
        with self._lock:
            made = list(self.requests)
        return sum(fnmatchcase(entry.verb, verb) and fnmatchcase(entry.key, key) for entry in made)

    def deliver_late(self) -> list[Outcome | None]:
        """Let every late write arrive now, and say what the store would have answered to it."""
        with self._lock:
            late, self._late = self._late, []
        answers: list[Outcome | None] = []
        for request in late:
            try:
                request()
                answers.append(None)
            except Outcome as outcome:
                answers.append(outcome)
        return answers

    # -- the seam

    @property
    def url(self) -> str:
        return self.inner.url

    def get(self, key: str, known: Tag | None = None) -> Blob:
        return self._ask("get", [key], lambda: self.inner.get(key, known))

    def head(self, key: str) -> Entry:
        return self._ask("head", [key], lambda: self.inner.head(key))

    def list(self, prefix: str = "") -> Listing:
        return self._ask("list", [prefix], lambda: self.inner.list(prefix))

    def first(self, prefix: str) -> Entry | None:
        return self._ask("first", [prefix], lambda: self.inner.first(prefix))

    def walk(self, prefix: str) -> Iterator[Entry]:
        yield from self._ask("walk", [prefix], lambda: self.inner.walk(prefix))

    def put_new(
        self, key: str, body: bytes, *, durable: bool = True, same_as: str | None = None
    ) -> Tag:
        put = partial(self.inner.put_new, key, body, durable=durable, same_as=same_as)
        return self._ask("put_new", [key], put)

    def replace(self, key: str, body: bytes, tag: Tag) -> Tag:
        return self._ask("replace", [key], lambda: self.inner.replace(key, body, tag))

    def put(self, key: str, body: bytes, *, durable: bool = True) -> Tag:
        return self._ask("put", [key], lambda: self.inner.put(key, body, durable=durable))

    def put_many(self, bodies: Mapping[str, bytes]) -> None:
        for key, body in bodies.items():
            self.put(key, body)

    def move_many(self, moves: Mapping[str, str]) -> None:
        for old, new in moves.items():
            self._ask("move", [new], partial(self.inner.move_many, {old: new}))

    def delete(self, key: str) -> None:
        self._ask("delete", [key], lambda: self.inner.delete(key))

    def delete_many(self, keys: Iterable[str], progress: Progress | None = None) -> int:
        deleted = 0
        remaining = iter(keys)
        while batch := tuple(islice(remaining, self._bulk)):
            deleted += self._delete_batch(batch)
            if progress:
                progress(deleted)
        return deleted

    def require_conditions(self) -> None:
        self._ask("require_conditions", [""], self.inner.require_conditions)

    # -- how a request meets its fault

    def _delete_batch(self, batch: tuple[str, ...]) -> int:
        return self._ask("delete_many", batch, lambda: self.inner.delete_many(batch))

    def _ask(self, verb: str, keys: Iterable[str], request: Callable[[], T]) -> T:
        keys = tuple(keys)
        plan = self._next_plan(verb, keys)
        if plan is None:
            return request()
        match plan.fault:
            case Fault.STALL | Fault.STALL_AFTER:
                return _stalled(plan, request)
            case Fault.CRASH_BEFORE:
                raise Crash(f"before {verb} {keys[0]}")
            case Fault.CRASH_AFTER:
                request()
                raise Crash(f"after {verb} {keys[0]}")
            case Fault.CONFLICT:
                raise (AlreadyThere if verb == "put_new" else Changed)(keys[0], "409 Conflict")
            case Fault.LOST_ANSWER:
                request()
            case Fault.LATE if verb in WRITES:
                with self._lock:
                    self._late.append(request)
            case _:
                pass
        raise _no_answer(verb, keys[0], plan.fault)

    def _next_plan(self, verb: str, keys: tuple[str, ...]) -> Plan | None:
        with self._lock:
            self.requests.append(Request(verb, keys[0]))
            for plan in self._plans:
                if plan.is_spent or not plan.matches(verb, keys):
                    continue
                if plan.after > 0:
                    plan.after -= 1
                    continue
                plan.hits += 1
                return plan
            return None


def _stalled(plan: Plan, request: Callable[[], T]) -> T:
    assert plan.hook is not None
    if plan.fault is Fault.STALL:
        plan.hook()
        return request()
    answer = request()
    plan.hook()
    return answer


def _no_answer(verb: str, key: str, fault: Fault) -> Exception:
    """Only a conditional write leaves doubt; any other request may simply be made again."""
    if verb in CONDITIONAL:
        return Ambiguous(key, fault.value)
    return ServiceUnavailableError(f"could not {verb} {key}: {fault.value}")
