"""The explorer's machine: states, the steps that lead out of them, and what each step costs.

A state is the objects, the requests still under way, the position of every actor and what the
judge remembers. Everything in it is interned, so that a step is a few look-ups once it was taken.

Faults cost: a `late` conditional write (its actor hears that nobody knows; it arrives later, at
once or never: a lost answer is one that arrives at once) and a `twice` delivered write. A crash
costs nothing and needs no step: it is an actor that is never asked again, and every state is
judged, and resumed by a newcomer, as it is. So is a late request of a crashed actor: it is the
request that such an actor makes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tests.simulation.oracle import Violation
from tests.simulation.process import Finished, Node, Process
from tests.simulation.requests import CONDITIONAL, DOUBT, Answer, Objects, Request, serve
from tests.simulation.specs import Op
from tiltyard.catalog import names

# Verbs that never look into a whole directory; checked whenever one makes a request.
NEVER_LIST = ("look", "zombie", "hold")


class State(NamedTuple):
    """One node of the search. `objects` and `ghost` are numbers; `last` only counts if switches
    of actors are bounded."""

    objects: int
    flying: tuple[Request, ...]
    nodes: tuple[Node, ...]
    ghost: int
    faults: int
    last: int
    switches: int


class Choice(NamedTuple):
    """One step: an actor's request as it is, late or twice, or the arrival of one under way."""

    actor: int  # -1: a request under way
    how: str = ""  # "", "late", "twice", "crash"; or which of those under way

    def __str__(self) -> str:
        return f"{'~' if self.actor < 0 else self.actor}{self.how}"

    @classmethod
    def parse(cls, text: str) -> Choice:
        return cls(-1, text[1:]) if text[0] == "~" else cls(int(text[0]), text[1:])


@dataclass(frozen=True)
class Bounds:
    """How much may go wrong, and how often actors may be switched before they have to.

    `everywhere`: writes of data files and of the file for Lance's own clients may go wrong too.
    Both are written without a condition and are read by nobody who decides anything.
    """

    faults: int = 1
    switches: int | None = None
    everywhere: bool = False

    def __str__(self) -> str:
        switches = "" if self.switches is None else f", {self.switches} switches"
        return f"{self.faults} faults{switches}"


class Judge(Protocol):
    """Remembers what was promised, and says when it was broken."""

    @property
    def spec(self) -> Any:
        """Whose `view` tells what is there."""

    def start(self, view: Any) -> Any: ...

    def step(
        self, ghost: Any, started: Op | None, view: Any, finished: Sequence[tuple[Op, Finished]]
    ) -> Any: ...


Quiet = Callable[[str, bool, frozenset[str]], bool]


class Machine:
    """One scenario: its actors, its judge, and everything that was interned so far."""

    def __init__(
        self,
        processes: Sequence[Process],
        ops: Sequence[Sequence[Op]],
        oracle: Judge,
        objects: Objects,
        bounds: Bounds,
        quiet: Quiet | None = None,
    ) -> None:
        self._quiet = quiet
        self.processes = processes
        self.oracle = oracle
        self.bounds = bounds
        self._ops = ops
        self._numbers: dict[frozenset[tuple[str, bytes]], int] = {}
        self.catalogs: list[Objects] = []
        self.views: list[Any] = []
        self._served: dict[tuple[int, Request], tuple[int, Answer]] = {}
        self._ghosts: list[Any] = []
        self._ghost_numbers: dict[Any, int] = {}
        self._judged: dict[Any, int | Violation] = {}
        first = self.intern(objects)
        self.start = State(
            first,
            (),
            tuple(process.root for process in processes),
            self._remember(oracle.start(self.views[first])),
            bounds.faults,
            -1,
            -1 if bounds.switches is None else bounds.switches,
        )

    # -- interning

    def intern(self, objects: Objects) -> int:
        key = frozenset(objects.items())
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.catalogs)
            self.catalogs.append(objects)
            self.views.append(self.oracle.spec.view(objects))
        return number

    def serve(self, catalog: int, request: Request) -> tuple[int, Answer]:
        known = self._served.get((catalog, request))
        if known is None:
            objects, answer = serve(self.catalogs[catalog], request)
            changed = objects is not self.catalogs[catalog]
            known = (self.intern(objects) if changed else catalog, answer)
            self._served[catalog, request] = known
        return known

    def _remember(self, ghost: Any) -> int:
        number = self._ghost_numbers.get(ghost)
        if number is None:
            number = self._ghost_numbers[ghost] = len(self._ghosts)
            self._ghosts.append(ghost)
        return number

    def _judge(
        self,
        ghost: int,
        started: Op | None,
        catalog: int,
        finished: tuple[tuple[Op, Finished], ...],
    ) -> int | Violation:
        view = self.views[catalog]
        key = (ghost, started, view, finished)
        known = self._judged.get(key)
        if known is None:
            following = self.oracle.step(self._ghosts[ghost], started, view, finished)
            known = following if isinstance(following, Violation) else self._remember(following)
            self._judged[key] = known
        return known

    def has_peer(self, state: State) -> bool:
        """Whether an unaware client has begun to delete files."""
        has_peer: bool = self._ghosts[state.ghost].has_peer
        return has_peer

    # -- steps

    def choices(self, state: State) -> Iterator[Choice]:
        """Every step that is possible now, or one that makes no difference to the others."""
        private = self._private(state) if self._quiet is None else self._unnoticed(state)
        if private is not None:
            yield Choice(private)
            return
        for at, node in enumerate(state.nodes):
            request = node.request
            if request is None or not self._may_switch(state, at):
                continue
            yield Choice(at)
            if state.faults and request.writes and self._can_fail(at, node):
                if request.verb in CONDITIONAL:
                    yield Choice(at, "late")
                yield Choice(at, "twice")
        for at in range(len(state.flying)):
            yield Choice(-1, str(at))

    def _private(self, state: State) -> int | None:
        """An actor about to write a data file while nobody is left who lists directories.

        Its name is fresh and nothing refers to it yet, so the write commutes with all that others
        can still do, and no reader sees it: the orders that differ in it alone are one.
        """
        if self.bounds.switches is not None or self.bounds.everywhere:
            return None
        for at, node in enumerate(state.nodes):
            if node.request is None or not _is_data(node.request):
                continue
            others = (other for other in range(len(state.nodes)) if other != at)
            if not any(self._may_list(other, state.nodes[other]) for other in others):
                return at
        return None

    def _unnoticed(self, state: State) -> int | None:
        """An actor whose request makes no difference to what others can still do, nor they to it.

        All orders that differ in it alone are one, so it is made at once.
        """
        assert self._quiet is not None
        if state.flying:
            return None
        for at, node in enumerate(state.nodes):
            if node.request is None:
                continue
            others = frozenset(
                op.verb
                for index, other in enumerate(state.nodes)
                if index != at and other.request is not None
                for op in self._ops[index][other.at :]
            )
            if self._quiet(node.request.key, node.request.writes, others):
                return at
        return None

    def _may_list(self, at: int, node: Node) -> bool:
        left = self._ops[at][node.at :] if node.request is not None else ()
        return any(op.verb not in NEVER_LIST for op in left)

    def _may_switch(self, state: State, at: int) -> bool:
        """A switch is free when the last actor is done, and costs otherwise."""
        if state.switches != 0 or state.last in (-1, at):
            return True
        return state.nodes[state.last].request is None

    def _can_fail(self, at: int, node: Node) -> bool:
        # An unaware client may destroy what it likes anyway; twice is no worse.
        assert node.request is not None
        if self._ops[at][node.at].verb in ("peer", "replace"):
            return False
        return self.bounds.everywhere or not (_is_data(node.request) or _is_nested(node.request))

    def take(self, state: State, choice: Choice) -> State | Violation:
        """The state after a step, or what is wrong with it."""
        if choice.actor < 0:
            return self._arrive(state, int(choice.how))
        at, node = choice.actor, state.nodes[choice.actor]
        request = node.request
        assert request is not None
        flying, faults = state.flying, state.faults
        if choice.how == "crash":
            nodes = _with(state.nodes, at, node.process.end)
            return state._replace(nodes=nodes, last=-1)
        if choice.how:
            flying, faults = tuple(sorted((*flying, request))), faults - 1
        assert not _lists(request) or self._may_list(at, node), request
        if choice.how == "late":
            catalog, answer = state.objects, DOUBT
        else:
            catalog, answer = self.serve(state.objects, request)
        following, finished = node.process.advance(node, answer)
        ops = self._ops[at]
        ghost = self._judge(
            state.ghost,
            ops[node.at] if node.is_first else None,
            catalog,
            tuple((ops[end.at], end) for end in finished),
        )
        if isinstance(ghost, Violation):
            return ghost
        quiet = self._quiet is not None and self._unnoticed(state) == at
        last, switches = (state.last, state.switches) if quiet else self._switched(state, at)
        nodes = _with(state.nodes, at, following)
        return State(catalog, flying, nodes, ghost, faults, last, switches)

    def _arrive(self, state: State, at: int) -> State | Violation:
        catalog, _ = self.serve(state.objects, state.flying[at])
        ghost = self._judge(state.ghost, None, catalog, ())
        if isinstance(ghost, Violation):
            return ghost
        flying = (*state.flying[:at], *state.flying[at + 1 :])
        return state._replace(objects=catalog, flying=flying, ghost=ghost)

    def _switched(self, state: State, at: int) -> tuple[int, int]:
        if state.switches < 0:
            return -1, -1
        is_free = state.last in (-1, at) or state.nodes[state.last].request is None
        return at, state.switches if is_free else state.switches - 1


def _with(nodes: tuple[Node, ...], at: int, node: Node) -> tuple[Node, ...]:
    return (*nodes[:at], node, *nodes[at + 1 :])


def _is_data(request: Request) -> bool:
    is_data = "/data/" in request.key or ".manifest-" in request.key
    return request.verb == "put" and is_data


def _lists(request: Request) -> bool:
    """Whether it looks into a directory that others may write to: no fresh one of its own."""
    return request.verb in ("list", "walk") and names.table_name(request.key) is not None


def _is_nested(request: Request) -> bool:
    return request.key.endswith(names.DEREGISTERED)
