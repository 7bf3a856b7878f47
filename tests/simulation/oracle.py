"""The judge: it follows every state that the rules allow, and objects when none is left.

An operation may take effect at any moment while it is open, and more than once: a create whose
table was dropped before it was acknowledged may write it again. It is open from its first request
to its answer; for ever, if it never got one or if the answer leaves doubt. An acknowledged
operation must have taken effect while it was open, a refused one must not have. What is there is
looked at after every request, so a change that no open operation explains is found at once: lost
data, a drop undone, a table brought back by a request that was sent twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.simulation.process import Finished
from tests.simulation.specs import Op, Spec

# Unaware clients are promised nothing. A declare looks once and then writes its reservation, which
# may come too late: it is told that the name is its own, and finds out at its first write.
UNPROMISED = ("zombie", "peer", "declare")


class Violation(NamedTuple):
    """What went wrong, in one word and in a sentence."""

    kind: str
    text: str


class Belief(NamedTuple):
    """A state the rules allow, and the operations that took effect on the way there."""

    state: Any
    applied: frozenset[Op]


@dataclass(frozen=True)
class Ghost:
    """What the judge remembers between two steps. Part of the explorer's state."""

    beliefs: frozenset[Belief]
    open: frozenset[Op] = frozenset()
    tainted: frozenset[Op] = frozenset()
    reached: int = 0
    has_peer: bool = False


class Oracle:
    """Judges one scenario."""

    def __init__(self, spec: Spec, *, checks_versions: bool = True) -> None:
        self.spec = spec
        self._checks_versions = checks_versions

    def start(self, view: Any) -> Ghost:
        return Ghost(
            frozenset([Belief(self.spec.start(view), frozenset())]),
            reached=self.spec.reached(view),
        )

    def step(
        self, ghost: Ghost, started: Op | None, view: Any, finished: Sequence[tuple[Op, Finished]]
    ) -> Ghost | Violation:
        """One request was delivered: who began with it, what is there now, who ended with it."""
        ghost = self._opened(ghost, started) if started else ghost
        allowed = self._closure(ghost)
        beliefs = frozenset(belief for belief in allowed if self.spec.matches(belief.state, view))
        if not beliefs:
            return self._unexplained(allowed, view)
        reached = max(ghost.reached, self.spec.reached(view))
        if self._checks_versions and not ghost.has_peer and self.spec.restarts(view, reached):
            return Violation("restart", f"{view} counts from below version {reached}")
        open_ = ghost.open
        for op, end in finished:
            if end.verdict == "untyped":
                return Violation("untyped", f"{op} left with {end.detail}")
            if end.verdict == "unknown":
                continue
            open_ -= {op}
            if op.verb in UNPROMISED:
                continue
            wanted = end.verdict == "ok" and op.verb != "look"
            beliefs = frozenset(belief for belief in beliefs if (op in belief.applied) == wanted)
            if not beliefs:
                return Violation("untrue", f"{op} said {end.verdict} ({end.detail}): {view}")
        return Ghost(beliefs, open_, ghost.tainted, reached, ghost.has_peer)

    def _opened(self, ghost: Ghost, op: Op) -> Ghost:
        """Writers that overlap an unaware client's delete may lose files to it, now or later."""
        open_ = ghost.open | {op}
        has_open_peer = any(op.verb == "peer" for op in open_)
        return Ghost(
            ghost.beliefs,
            open_,
            ghost.tainted | open_ if has_open_peer else ghost.tainted,
            ghost.reached,
            ghost.has_peer or op.verb == "peer",
        )

    def _closure(self, ghost: Ghost) -> set[Belief]:
        allowed = set(ghost.beliefs)
        todo = list(allowed)
        while todo:
            belief = todo.pop()
            for op in ghost.open:
                for arrow in self.spec.arrows(op, belief.state, op in ghost.tainted):
                    applied = belief.applied | {op} if arrow.counts else belief.applied
                    following = Belief(arrow.state, applied)
                    if following not in allowed:
                        allowed.add(following)
                        todo.append(following)
        return allowed

    def _unexplained(self, allowed: set[Belief], view: Any) -> Violation:
        expected = " or ".join(sorted({str(belief.state) for belief in allowed}))
        kind = "lost" if self.spec.broken(view) else "unexplained"
        return Violation(kind, f"found {view}, allowed were {expected}")
