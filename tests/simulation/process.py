"""Actors as graphs. An actor's code runs in a greenlet that pauses at each request; what it asks
next depends on nothing but the answers it got, so each history of answers is run once and
remembered, and histories that leave the actor knowing the same are one position.

The explorer goes back to a position as often as it likes, and runs the code only where no search
has been before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import greenlet  # type: ignore[import-untyped]

from tests.simulation import frames
from tests.simulation.requests import DOUBT, Answer, Request
from tiltyard.errors import ConcurrentModificationError, ServiceUnavailableError, TiltyardError

# Greenlets that wait at the edge of the known tree. Any other position is reached by running the
# actor again from its start.
MOST_PAUSED = 4_000

Ask = Callable[[Request], Answer]
Operation = Callable[[], object]


class Actor(Protocol):
    """What a process runs."""

    @property
    def operations(self) -> Sequence[Operation]:
        """What it does, one after the other."""

    def memory(self) -> Hashable:
        """Whatever of its state is in no variable of a frame: how many tokens it has used up."""


Build = Callable[[Ask], Actor]


class Finished(NamedTuple):
    """How one operation of an actor ended.

    `ok`: it was acknowledged. `refused`: an error that says nothing was changed. `unknown`: an
    error after which it may have happened, or may still happen. `untyped`: no error of ours.
    """

    at: int
    verdict: str
    detail: str


@dataclass(eq=False)
class Node:
    """One position of an actor: the request that it waits for, None if it is done."""

    process: Process
    history: tuple[Answer, ...] = ()
    request: Request | None = None
    at: int = 0
    is_first: bool = True
    following: dict[Answer, tuple[Node, tuple[Finished, ...]]] = field(default_factory=dict)


class Process:
    """One actor: a list of operations, done one after the other."""

    def __init__(self, name: str, build: Build, *, merges: bool = True) -> None:
        self.name = name
        self.end = Node(self)
        self._build = build
        self._merges = merges
        self._paused: OrderedDict[Node, _Run] = OrderedDict()
        self._nodes: dict[Hashable, Node] = {}
        run = _Run(build)
        self.root = self._node(run, run.start(), ())

    def advance(self, node: Node, answer: Answer) -> tuple[Node, tuple[Finished, ...]]:
        """Where the actor is once it has heard the answer, and what it has finished with that."""
        known = node.following.get(answer)
        if known is None:
            run = self._paused.pop(node, None) or self._run_to(node)
            request = run.resume(answer)
            known = (self._node(run, request, (*node.history, answer)), run.take_finished())
            node.following[answer] = known
        return known

    def _node(self, run: _Run, request: Request | None, history: tuple[Answer, ...]) -> Node:
        if request is None:
            return self.end
        node = Node(self, history, request, run.at, run.is_first)
        if self._merges:
            known = self._nodes.setdefault((request, run.position()), node)
            if known is not node:
                return known
        self._paused[node] = run
        if len(self._paused) > MOST_PAUSED:
            self._paused.popitem(last=False)
        return node

    def _run_to(self, node: Node) -> _Run:
        run = _Run(self._build)
        run.start()
        for answer in node.history:
            run.resume(answer)
        run.take_finished()
        return run


class _Run:
    """The code of an actor, being run."""

    def __init__(self, build: Build) -> None:
        self.at = 0
        self.is_first = True
        self._finished: list[Finished] = []
        self._doubtful = False
        self._actor = build(self._ask)
        self._greenlet = greenlet.greenlet(self._work)

    def position(self) -> Hashable:
        known = (self.at, self.is_first, self._doubtful, self._actor.memory())
        return known, frames.position(self._greenlet.gr_frame)

    def start(self) -> Request | None:
        return self._until_next(None)

    def resume(self, answer: Answer) -> Request | None:
        self._doubtful = self._doubtful or answer == DOUBT
        self.is_first = False
        return self._until_next(answer)

    def take_finished(self) -> tuple[Finished, ...]:
        finished, self._finished = tuple(self._finished), []
        return finished

    def _until_next(self, answer: Answer | None) -> Request | None:
        self._greenlet.parent = greenlet.getcurrent()
        request: Request | None = self._greenlet.switch(answer)
        return request

    def _ask(self, request: Request) -> Answer:
        parent = self._greenlet.parent
        assert parent is not None
        answer: Answer = parent.switch(request)
        return answer

    def _work(self, _: Any) -> None:
        for at, operation in enumerate(self._actor.operations):
            self.at, self.is_first, self._doubtful = at, True, False
            finished = _judged(at, operation, self)
            self._finished.append(finished)

    @property
    def is_doubtful(self) -> bool:
        return self._doubtful


def _judged(at: int, operation: Operation, run: _Run) -> Finished:
    try:
        return Finished(at, "ok", str(operation()))
    except (ConcurrentModificationError, ServiceUnavailableError) as error:
        return Finished(at, "unknown", f"{type(error).__name__}: {error.message}")
    except TiltyardError as error:
        # An answer was lost on the way: the refusal may be about the actor's own doing.
        verdict = "unknown" if run.is_doubtful else "refused"
        return Finished(at, verdict, f"{type(error).__name__}: {error.message}")
    except Exception as error:
        return Finished(at, "untyped", f"{type(error).__name__}: {error}")
