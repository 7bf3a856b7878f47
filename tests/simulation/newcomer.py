"""Whether a newcomer can go on from any state, all others having crashed: no state is a dead end.

What the newcomer tries depends on what is there: a live table can be dropped and brought back, a
dropped one brought back, replaced, or purged and replaced, and so on. Each must work at once, and
leave what it promises.
"""

from __future__ import annotations

from tests.simulation import scenarios, views
from tests.simulation.actors import Code
from tests.simulation.ledger import Bookkeeper
from tests.simulation.oracle import Violation
from tests.simulation.process import Process
from tests.simulation.requests import Objects
from tests.simulation.search import Machine, State
from tests.simulation.views import BROKEN, RESERVED, TABLE, UNAWARE, View
from tiltyard.catalog import marker, names

NEWCOMER = "z"
# The newcomer comes long after everybody else's clock.
SKEW_MS = 10**9
GONE = "gone"

_MARKER_PLANS: dict[str, list[tuple[tuple[str, ...], str]]] = {
    # what is there: what to do, and whose data has to be there then ("=": what was there)
    "live": [(("drop", "undrop_newer"), "=")],
    "nothing": [(("create",), NEWCOMER)],
    "deleted": [
        (("undrop",), "="),
        (("undrop_newer",), "="),
        (("create",), NEWCOMER),
        (("purge", "create"), NEWCOMER),
    ],
    "held": [(("undrop_newer",), "=")],
    "purging": [(("purge", "create"), NEWCOMER)],
    "purged": [(("create",), NEWCOMER)],
    "deregistered": [(("register",), "="), (("drop", "undrop_newer"), "=")],
    "moved": [(("register",), "=")],
    "loose": [(("register",), "=")],
    "landed": [(("rename_back",), "=")],
    "arrived": [(("rename_back", "drop", "undrop_newer"), "=")],
    "returned": [(("drop_named", "undrop_newer"), "=")],
    "trashed": [(("undrop_other_newer", "rename_back"), "=")],
    "emptied": [(("purge_other",), GONE)],
    "buried": [],
}


def newcomer_for(arbiter: str, code: Code) -> Newcomer:
    return (
        CommitNewcomer(arbiter, code) if arbiter in scenarios.COMMITS else Newcomer(arbiter, code)
    )


class Newcomer:
    """Tries every catalog of a search once."""

    def __init__(self, arbiter: str, code: Code) -> None:
        self.resumed = 0
        self._arbiter = arbiter
        self._code = code
        self._workers: dict[tuple[str, ...], Process] = {}
        self._known: dict[int, Violation | None] = {}

    def check(self, within: Machine, state: State) -> Violation | None:
        if within.has_peer(state):
            return None  # what an unaware client leaves may well have to stay as it is
        known = self._known.get(state.objects, self)
        if known is self:
            known = self._resume(within.catalogs[state.objects])
            self._known[state.objects] = known
            self.resumed += 1
        assert not isinstance(known, Newcomer)
        return known

    def _resume(self, objects: Objects) -> Violation | None:
        if self._arbiter == "rows":
            return self._resume_rows(objects)
        before = views.of_marker(objects)
        if before.kind == "reviving":
            objects, failure = self._do(("look",), objects)
            if failure:
                return failure
            before = views.of_marker(objects)
            if before.kind == "reviving":
                return Violation("stuck", f"{before} after a look")
        is_empty = before.kind == "live" and before.content in (None, RESERVED)
        for verbs, wanted in _MARKER_PLANS["nothing" if is_empty else before.kind]:
            if wanted == "=" and before.content in (None, RESERVED):
                continue
            if verbs == ("undrop",) and _is_written_to(objects):
                continue
            after, failure = self._do(verbs, objects)
            failure = failure or _compare(views.of_marker(after), wanted, before)
            if failure:
                return Violation("stuck", f"a newcomer's {'+'.join(verbs)}: {failure.text}")
        return None

    def _resume_rows(self, objects: Objects) -> Violation | None:
        held = {table.place for table in views.of_rows(objects)}
        verbs: list[str] = []
        # Unless it is told which, a purge takes what can still be brought back, and a held one not.
        verbs += ["purge"] if "purging" in held and held.isdisjoint(["trash", "held"]) else []
        verbs += ["drop", "undrop"] if TABLE in held else ["create"]
        return self._do(tuple(verbs), objects)[1]

    def _do(self, verbs: tuple[str, ...], objects: Objects) -> tuple[Objects, Violation | None]:
        worker = self._workers.get(verbs)
        if worker is None:
            worker = scenarios.process(self._arbiter, NEWCOMER, verbs, self._code, SKEW_MS)
            self._workers[verbs] = worker
        objects, finished = scenarios.alone(worker, objects)
        for end in finished:
            if end.verdict != "ok":
                return objects, Violation("stuck", f"{verbs[end.at]}: {end.detail}")
        return objects, None


class CommitNewcomer(Newcomer):
    """A newcomer can commit to a table that lives, and clean it up, whatever others left."""

    def _resume(self, objects: Objects) -> Violation | None:
        bookkeeper = Bookkeeper(self._arbiter == "versions")
        books = bookkeeper.view(objects).books
        if books.kind != "live" or books.main.newest is None:
            return None
        # Of a commit that was cut off when its table became managed, the file is drift.
        repair = ("repair",) if self._arbiter == "managed versions" else ()
        after, failure = self._do((*repair, "update", "append", "collect", "scrub"), objects)
        if failure:
            return failure
        main = bookkeeper.view(after).books.main
        left = main.versions.keys() - {max(main.versions)} - set(books.references.values())
        return Violation("stuck", f"a newcomer could not delete {left}") if left else None


def _is_written_to(objects: Objects) -> bool:
    """Whether an unaware writer was here: then an undrop that is not told so refuses, rightly.

    So it does when a first version came too late for a table that was dropped without one.
    """
    present = marker.decode(objects[names.marker_key(TABLE)], TABLE)
    unaware = any(body.startswith(UNAWARE.encode()) for body in objects.values())
    return unaware or not present.version_at_drop


def _compare(after: View, wanted: str, before: View) -> Violation | None:
    if wanted == GONE:
        return None if after.content is None else Violation("stuck", f"left {after}")
    content = before.content if wanted == "=" else wanted
    if after.kind == "live" and after.content == content and content != BROKEN:
        return None
    return Violation("stuck", f"left {after}, wanted {content}")
