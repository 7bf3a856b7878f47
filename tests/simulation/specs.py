"""What each operation may do to a table, in the words of a user: the rules the oracle judges by.

A state is what a table is and whose data it holds. An operation is a set of arrows; one that was
acknowledged took one of its arrows, at some moment between its first request and its answer. The
arrows know nothing of tags, nonces, fences or lists: those are how the code keeps to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from tests.simulation import views
from tests.simulation.requests import Objects
from tests.simulation.views import BROKEN, OTHER, RESERVED, TABLE, UNAWARE, Held, RowsView, View

# Content about which nothing is promised: an unaware client deleted files meanwhile.
ANY = "?"


class Op(NamedTuple):
    """One operation of one actor; `by` also signs its data."""

    by: str
    at: int
    verb: str

    def __str__(self) -> str:
        return f"{self.by}.{self.verb}"


class Arrow(NamedTuple):
    """One step. `counts` if it is what the operation was asked to do, not a trace it leaves."""

    state: Any
    counts: bool = True


class Spec(Protocol):
    """The rules for one kind of table."""

    def view(self, objects: Objects) -> Any:
        """What is there now."""

    def matches(self, state: Any, view: Any) -> bool:
        """Whether a state of the rules is what is there."""

    def start(self, view: Any) -> Any:
        """The state to begin with."""

    def arrows(self, op: Op, state: Any, tainted: bool) -> Iterator[Arrow]:
        """What an operation may do. `tainted`: an unaware client deletes files meanwhile."""

    def broken(self, view: Any) -> bool:
        """Whether something that can be read, now or after an undrop, lacks files."""

    def reached(self, view: Any) -> int:
        """The highest version that a purge has seen."""

    def restarts(self, view: Any, reached: int) -> bool:
        """Whether versions count from below what a purged table reached."""


class Marked(NamedTuple):
    """A table at a V1 location. `live` without content is a name that stands for nothing."""

    kind: str
    content: str | None


_DROPPED = ("deleted", "held")
_UNDERWAY = ("moved", "landed")


class MarkerSpec:
    """One name at a V1 location."""

    def view(self, objects: Objects) -> View:
        return views.of_marker(objects)

    def start(self, view: View) -> Marked:
        return Marked(view.kind, None if view.kind in ("purged", "purging") else view.content)

    def matches(self, state: Marked, view: View) -> bool:
        if view.kind in ("purging", "purged"):
            return state.kind == view.kind
        if view.kind == "reviving":
            # Nothing is decided yet, and nothing can be read: it goes on, or back.
            return state.kind in (*_DROPPED, "purged")
        if state.kind != view.kind:
            return False
        return state.content in (ANY, view.content) and (
            state.content == ANY or view.content != BROKEN
        )

    def arrows(self, op: Op, state: Marked, tainted: bool) -> Iterator[Arrow]:
        kind, content = state
        match op.verb:
            case "drop" | "drop_named" if kind in ("live", "deregistered"):
                yield Arrow(Marked("deleted", content))
            case "drop_named" if kind == "returned":
                yield Arrow(Marked("live", content), counts=False)
            case "undrop" | "undrop_newer" | "undrop_named" if kind in _DROPPED:
                yield Arrow(Marked("live", content))
            case "hold" if kind in _DROPPED:
                yield Arrow(Marked("held", content))
            case "purge" if kind in ("deleted", "purging"):
                # The claim is the point of no return; whoever took over may finish later.
                yield Arrow(Marked("purging", None))
                yield Arrow(Marked("purged", None))
            case "create" | "write":
                yield from self._create(op, state, tainted)
            case "declare":
                yield from self._declare(state)
            case "deregister" if kind == "live":
                yield Arrow(Marked("deregistered", content))
            case "register" if kind in ("deregistered", "live", "loose", *_UNDERWAY):
                # A register that looked before a rename arrived undoes it: nothing is lost.
                yield Arrow(Marked("live", content))
            case "rename" if kind == "live" or kind in _UNDERWAY:
                yield from self._rename(state, ["live"])
            case "undrop_as" if kind in _DROPPED or kind in _UNDERWAY:
                yield from self._rename(state, _DROPPED)
            case "rename_back" if kind in ("arrived", "returned"):
                yield Arrow(Marked("returned", content))
                yield Arrow(Marked("live", content))
            case "drop_other" if kind == "arrived":
                yield Arrow(Marked("trashed", content))
            case "undrop_other" if kind == "trashed":
                yield Arrow(Marked("arrived", content))
            case "deregister_other" if kind == "arrived":
                yield Arrow(Marked("loose", content))
            case "purge_other" if kind in ("trashed", "emptied"):
                yield Arrow(Marked("emptied", ANY))
                yield Arrow(Marked("buried", ANY))
            case "zombie" if content in (None, RESERVED):
                yield Arrow(Marked(kind, ANY if tainted else UNAWARE + op.by))
            case "zombie":
                yield Arrow(Marked(kind, ANY) if tainted else state)
            case "peer":
                yield Arrow(Marked(kind, ANY))
            case _:
                pass

    def _rename(self, state: Marked, former: Sequence[str]) -> Iterator[Arrow]:
        """Away in three steps, of which the last counts; until then back again."""
        for step in _UNDERWAY:
            yield Arrow(Marked(step, state.content), counts=False)
        yield Arrow(Marked("arrived", state.content))
        for kind in former:
            yield Arrow(Marked(kind, state.content), counts=False)

    def _declare(self, state: Marked) -> Iterator[Arrow]:
        """Over a tombstone it is refused, for the sake of late deletes and not of what it means:
        one that looked while a create was going on came just before that create."""
        if state.content not in (None, ANY):
            return
        if state.kind in ("live", "purged"):
            yield Arrow(Marked("live", RESERVED))
        elif state.kind != "purging":
            yield Arrow(Marked(state.kind, RESERVED), counts=False)  # too late, but it is there

    def _create(self, op: Op, state: Marked, tainted: bool) -> Iterator[Arrow]:
        kind, content = state
        mine = ANY if tainted else op.by
        if kind in ("deleted", "purged"):  # and not a held one
            yield Arrow(Marked("live", mine))
        if content in (None, RESERVED, ANY) and kind not in ("purged", "purging"):
            # A commit that came too late for its create: it does not count, but it is there.
            # Over a name that stands for nothing it is the create.
            yield Arrow(Marked(kind, mine), counts=kind == "live")

    def broken(self, view: View) -> bool:
        return view.content == BROKEN and view.kind not in ("purging", "purged", "reviving")

    def reached(self, view: View) -> int:
        return view.floor if view.kind in ("purging", "purged") else 0

    def restarts(self, view: View, reached: int) -> bool:
        if view.kind in ("purging", "purged"):
            return view.floor < reached
        return view.kind == "live" and 0 < view.version <= reached


class RowsSpec:
    """Tables in directories of their own: each create makes one, and it is never used again."""

    def view(self, objects: Objects) -> RowsView:
        return views.of_rows(objects)

    def start(self, view: RowsView) -> RowsView:
        return view

    def matches(self, state: RowsView, view: RowsView) -> bool:
        return state == view and not self.broken(view)

    def arrows(self, op: Op, state: RowsView, tainted: bool) -> Iterator[Arrow]:
        free = {table.place for table in state}.isdisjoint
        match op.verb:
            case "create" if free([TABLE]):
                if all(table.content != op.by for table in state):
                    yield Arrow(state | {Held(TABLE, op.by)})
            case "drop":
                yield from _moves(state, [TABLE], "trash")
            case "drop_other":
                yield from _moves(state, [OTHER], "trash")
            case "undrop" if free([TABLE]):
                yield from _moves(state, ["trash", "held"], TABLE)
            case "undrop_as" if free([OTHER]):
                yield from _moves(state, ["trash", "held"], OTHER)
            case "rename" if free([OTHER]):
                yield from _moves(state, [TABLE], OTHER)
            case "hold":
                yield from _moves(state, ["trash", "held"], "held")
            case "purge":
                yield from _moves(state, ["trash", "purging"], "purging")
                for table in state:
                    if table.place in ("trash", "purging"):
                        yield Arrow(state - {table})
            case _:
                pass

    def broken(self, view: RowsView) -> bool:
        return any(table.content in (BROKEN, None) for table in view)

    def reached(self, view: RowsView) -> int:
        return 0

    def restarts(self, view: RowsView, reached: int) -> bool:
        return False


def _moves(state: RowsView, places: list[str], target: str) -> Iterator[Arrow]:
    for table in state:
        if table.place in places:
            yield Arrow(state - {table} | {Held(target, table.content)})
