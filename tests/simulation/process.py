"""Actors as trees. An actor's code runs in a greenlet that pauses at each request; what it asks next
depends on nothing but the answers it got, so each history of answers is run once and remembered.

That makes an actor's position a value: the explorer goes back to it as often as it likes, and runs
the code only where no search has been before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import greenlet

from tests.simulation.requests import DOUBT, Answer, Request
from tiltyard.errors import ConcurrentModificationError, ServiceUnavailableError, TiltyardError

# Greenlets that wait at the edge of the known tree. Any other position is reached by running the
# actor again from its start.
MOST_PAUSED = 4_000

Ask = Callable[[Request], Answer]
Operation = Callable[[], object]


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
    """One history of answers: the request that follows from it, None if the actor is done."""

    process: Process
    parent: Node | None = None
    answer: Answer | None = None
    request: Request | None = None
    at: int = 0
    is_first: bool = True
    finished: tuple[Finished, ...] = ()
    children: dict[Answer, Node] = field(default_factory=dict)


class Process:
    """One actor: a list of operations, done one after the other."""

    def __init__(self, name: str, build: Callable[[Ask], Sequence[Operation]]) -> None:
        self.name = name
        self.runs = 0
        self._build = build
        self._paused: OrderedDict[Node, _Run] = OrderedDict()
        self.end = Node(self)
        run = _Run(self._build)
        self.root = Node(self)
        self._arrive(self.root, run, run.start())

    def advance(self, node: Node, answer: Answer) -> Node:
        """Where the actor is once it has heard the answer."""
        known = node.children.get(answer)
        if known is None:
            run = self._paused.pop(node, None) or self._run_to(node)
            known = node.children[answer] = Node(self, node, answer)
            self._arrive(known, run, run.resume(answer))
        return known

    def _arrive(self, node: Node, run: _Run, request: Request | None) -> None:
        node.request = request
        node.at, node.is_first = run.at, run.is_first
        node.finished = run.take_finished()
        if request is not None:
            self._paused[node] = run
            if len(self._paused) > MOST_PAUSED:
                self._paused.popitem(last=False)

    def _run_to(self, node: Node) -> _Run:
        answers = []
        while node.parent is not None:
            answers.append(node.answer)
            node = node.parent
        run = _Run(self._build)
        run.start()
        self.runs += 1
        for answer in reversed(answers):
            assert answer is not None
            run.resume(answer)
        run.take_finished()
        return run


class _Run:
    """The code of an actor, being run."""

    def __init__(self, build: Callable[[Ask], Sequence[Operation]]) -> None:
        self.at = 0
        self.is_first = True
        self._finished: list[Finished] = []
        self._doubtful = False
        self._operations = build(self._ask)
        self._greenlet = greenlet.greenlet(self._work)

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
        for at, operation in enumerate(self._operations):
            self.at, self.is_first, self._doubtful = at, True, False
            self._finished.append(self._judge(at, operation))

    def _judge(self, at: int, operation: Operation) -> Finished:
        try:
            return Finished(at, "ok", str(operation()))
        except (ConcurrentModificationError, ServiceUnavailableError) as error:
            return Finished(at, "unknown", f"{type(error).__name__}: {error.message}")
        except TiltyardError as error:
            # An answer was lost on the way: the refusal may be about the actor's own doing.
            verdict = "unknown" if self._doubtful else "refused"
            return Finished(at, verdict, f"{type(error).__name__}: {error.message}")
        except Exception as error:
            return Finished(at, "untyped", f"{type(error).__name__}: {error}")
