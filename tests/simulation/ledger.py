"""The judge of commits: it keeps the books of what was acknowledged, and looks after every request
whether all of it is still there.

A commit that was acknowledged was in a table that lived, and is in the newest version of that table
for ever after: an update that was skipped by another, a number that was given away twice, a version
that others scrubbed away all show there. An acknowledged tag has its version for ever. A version
goes only behind the boundary, and only if nobody retains it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from tests.simulation import views
from tests.simulation.commits import BOTH, BRANCH, is_staged
from tests.simulation.oracle import Violation
from tests.simulation.process import Finished
from tests.simulation.register import rows_of
from tests.simulation.requests import Objects
from tests.simulation.specs import Op
from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.boundary import CLOSED
from tiltyard.catalog.manifest.rows import (
    BOUNDARY,
    MANAGED,
    MANIFEST_PATH,
    PURGING,
    STAGED,
    STATE,
    VERSIONS,
    Row,
)
from tiltyard.store import Entry

COMMITS = ("append", "update", "branch_append", "branch_update", "batch")
TAGS = ("tag1", "tag2")
# Which versions a collector chooses, if not all but the latest.
CHOICES: dict[str, tuple[int, ...]] = {"delete2": (2,), "delete3": (3,), "delete12": (1, 2)}
# Whoever makes rows of versions chooses none, but a collector may leave it to others to tidy up.
MANAGERS = frozenset(["manage", "manage_both"])
CHOICES |= dict.fromkeys(MANAGERS, ())
COLLECTORS = frozenset(["collect", "branch_collect", "delete_head", *CHOICES])
# While it is being purged or made anew nobody reads a table; `lifecycle` has its own judge.
_READABLE = ("live", "deleted", "held")


class Version(NamedTuple):
    """One version: whose commit it is, of which table, and the commits that it holds."""

    commit: str
    lineage: tuple[str, ...]
    holds: frozenset[str]


BROKEN = Version("broken", (), frozenset())


class Line(NamedTuple):
    """A sequence of versions, and what its boundary says about them."""

    versions: Mapping[int, Version]
    boundary: int
    retained: frozenset[int]
    incarnation: int = 1

    @property
    def newest(self) -> Version | None:
        return self.versions[max(self.versions)] if self.versions else None

    def shows(self, number: int) -> bool:
        return number > self.boundary or number in self.retained


class Books(NamedTuple):
    """What is there: the state of the table, its versions, those of its branch, and its tags."""

    kind: str
    main: Line
    branch: Line
    tags: Mapping[str, int]
    fork: int | None = None  # where the branch begins
    other: Line | None = None  # another table, if there is one

    def line(self, verb: str) -> Line:
        return self.branch if verb.startswith("branch") else self.main


class Noted(NamedTuple):
    """A commit that was acknowledged."""

    verb: str
    number: int
    version: Version


@dataclass(frozen=True)
class Ledger:
    """What the judge remembers. `lived` are commits that were seen in a living table."""

    lived: frozenset[Version] = frozenset()
    commits: frozenset[Noted] = frozenset()
    tags: frozenset[tuple[str, int, Version]] = frozenset()
    open: frozenset[Op] = frozenset()
    collectors: frozenset[str] = frozenset()
    has_peer: bool = False
    is_void: bool = False  # another client replaced the directory under somebody's hands

    def may_go(self, verb: str, number: int) -> bool:
        """Whether a collector has begun that chooses a version."""
        is_branch = verb.startswith("branch")
        return any(
            number in CHOICES.get(each, (number,))
            for each in self.collectors
            if each.startswith("branch") == is_branch
        )


class Bookkeeper:
    """Judges one scenario. `strict`: also how versions go, not only what is lost by it. `tidy`: no
    file is left behind, either; one that was sent twice may be, until a scrub."""

    def __init__(self, marked: bool, *, strict: bool = True, tidy: bool = True) -> None:
        self._marked = marked
        self._strict = strict
        self._tidy = tidy

    @property
    def spec(self) -> Bookkeeper:
        return self

    def view(self, objects: Objects) -> Frozen:
        row, location, kind = self._table(objects)
        if location is None:
            return Frozen(Books(kind, _EMPTY, _EMPTY, {}))
        other = rows_of(objects).get(views.OTHER)
        if row is not None and row.metadata.get(VERSIONS) == MANAGED:
            twin = _managed(objects, other) if other else _EMPTY
            return Frozen(Books(kind, _managed(objects, row), _EMPTY, {}, None, twin))
        side = f"{location}/{names.BRANCHES_DIRECTORY}/{BRANCH}"
        folder = f"{location}/{names.REFERENCES_DIRECTORY}/tags/"
        tags = {
            key.removeprefix(folder).removesuffix(".json"): int(json.loads(body)["version"])
            for key, body in objects.items()
            if key.startswith(folder)
        }
        begun = objects.get(f"{location}/{names.REFERENCES_DIRECTORY}/branches/{BRANCH}.json")
        fork = int(json.loads(begun)["parentVersion"]) if begun else None
        return Frozen(Books(kind, _line(objects, location), _line(objects, side), tags, fork))

    def _table(self, objects: Objects) -> tuple[Row | None, str | None, str]:
        if self._marked:
            return None, names.table_directory(views.TABLE), views.state_of(objects)
        rows = rows_of(objects)
        if views.TABLE in rows:
            return rows[views.TABLE], rows[views.TABLE].location, "live"
        for row in rows.values():
            if row.metadata.get(STATE) not in (None, PURGING):
                return row, row.location, "deleted"
        return None, None, "gone"

    def start(self, view: Frozen) -> Ledger:
        """What was there before was acknowledged, too."""
        main, branch = view.books.main.versions, view.books.branch.versions
        noted = [Noted("append", *each) for each in main.items()]
        noted += [Noted("branch_append", *each) for each in branch.items()]
        return Ledger(commits=frozenset(noted))

    def step(
        self,
        ledger: Ledger,
        started: Op | None,
        view: Frozen,
        finished: Sequence[tuple[Op, Finished]],
    ) -> Ledger | Violation:
        books = view.books
        ledger = _opened(ledger, started) if started else ledger
        ledger = replace(ledger, lived=ledger.lived | _living(books))
        for op, end in finished:
            if end.verdict == "untyped":
                return Violation("untyped", f"{op} left with {end.detail}")
            if op.verb == "replace":
                ledger = replace(ledger, commits=frozenset(), tags=frozenset())
            if end.verdict != "unknown":  # else it may still happen
                ledger = replace(ledger, open=ledger.open - {op})
            if end.verdict != "ok" or ledger.is_void:
                continue
            noted = _noted(ledger, op, end, books)
            if isinstance(noted, Violation):
                return noted
            ledger = noted
        if ledger.is_void or any(each.verb == "replace" for each in ledger.open):
            return ledger
        ledger = _of_this_table(ledger, books)
        if books.other is not None and _half(books.main, books.other):
            return Violation("half", "one of two tables has a commit that is for both")
        is_over = self._tidy and not (ledger.open or ledger.collectors & MANAGERS)
        if is_over and min(books.main.retained, default=0) < 0:
            return Violation("left", f"files without rows: {set(books.main.retained)}")
        return self._audited(ledger, books) or _out_of_sight(ledger, books) or ledger

    def _audited(self, ledger: Ledger, books: Books) -> Violation | None:
        if books.kind not in _READABLE:
            return None
        for verb, number, version in ledger.commits:
            line = books.line(verb)
            held = line.newest.holds if line.newest else frozenset[str]()
            if version.commit in version.holds and version.commit not in held:
                return Violation("lost", f"{verb} of version {number} is not in {line.newest}")
            present = line.versions.get(number)
            if present is not None and present != version and line.shows(number):
                return Violation("lost", f"version {number} was {version}, and is {present}")
            if present is None and number and not ledger.may_go(verb, number):
                return Violation("lost", f"version {number} went, and nobody had chosen it")
            if present is None and self._strict and line.shows(number):
                return Violation("early", f"version {number} went, boundary {line.boundary}")
        for tag, number, version in ledger.tags:
            if books.tags.get(tag) != number or books.main.versions.get(number) != version:
                return Violation("lost", f"tag {tag} of version {number} refers to nothing")
        return None


class Frozen:
    """Books that can be compared and looked up."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self._key = (
            books.kind,
            _flat(books.main),
            _flat(books.branch),
            tuple(sorted(books.tags.items())),
            books.fork,
            _flat(books.other or _EMPTY),
        )
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        line = self.books.main
        told = " ".join(f"{number}:{each.commit[-4:]}" for number, each in line.versions.items())
        tags = f", tags {dict(self.books.tags)}" if self.books.tags else ""
        return f"{self.books.kind} [{told}] boundary {line.boundary} {set(line.retained)}{tags}"


def _flat(line: Line) -> tuple[object, ...]:
    return tuple(sorted(line.versions.items())), *line[1:]


_EMPTY = Line({}, 0, frozenset())


def _line(objects: Objects, location: str) -> Line:
    start = f"{location}/{names.VERSIONS_DIRECTORY}/"
    found: dict[int, Version] = {}
    for key, body in objects.items():
        if key.startswith(start) and not is_staged(key):
            parsed = version_files.parse(Entry(key, 0, 0))
            assert parsed is not None
            found[parsed.version] = _decoded(body)
    stem, boundary = f"{names.BOUNDARIES}/{location}/versions", CLOSED
    incarnation = 1
    while boundary == CLOSED:
        middle = "" if incarnation == 1 else f"-{incarnation}"
        boundary = int(objects.get(f"{stem}{middle}.boundary", b"0"))
        incarnation += 1
    retained = objects.get(f"{stem}{middle}.retained")
    kept = json.loads(retained)["versions"] if retained else ()
    return Line(dict(sorted(found.items())), boundary, frozenset(kept), incarnation - 1)


def _managed(objects: Objects, owner: Row) -> Line:
    """Versions that are rows: what their files hold, or the staged ones as long as those are there.

    Files behind the boundary that have no row are noted under their numbers, below zero.
    """
    found: dict[int, Version] = {}
    start = owner.object_id + names.DELIMITER
    for key, row in rows_of(objects).items():
        if row.is_version and key.startswith(start):
            staged, final = row.metadata.get(STAGED, ""), row.metadata[MANIFEST_PATH]
            body = objects.get(staged) or objects.get(final)
            found[int(key.removeprefix(start))] = _decoded(body) if body else BROKEN
    boundary = int(owner.metadata.get(BOUNDARY, "0"))
    numbers = frozenset(found)
    strays = frozenset(
        -number
        for number in _line(objects, owner.location or "").versions
        if number <= boundary and number not in numbers
    )
    return Line(dict(sorted(found.items())), boundary, numbers | strays)


@lru_cache(maxsize=100_000)
def _decoded(body: bytes) -> Version:
    known = json.loads(body)
    transaction = known.get("transaction", "").partition("-")[2].removesuffix(".txn")
    held = frozenset([*known.get("row", ()), *known.get("rows", ())])
    return Version(transaction or known["nonce"] or "", tuple(known["files"]), held)


def _opened(ledger: Ledger, op: Op) -> Ledger:
    """A client that replaces whole directories may leave a mixture of two tables, if anybody else
    is at work there. Nothing is promised then but that nobody stumbles."""
    open_ = ledger.open | {op}
    has_peer = any(each.verb == "replace" for each in open_)
    return replace(
        ledger,
        open=open_,
        is_void=ledger.is_void or (has_peer and len(open_) > 1),
        collectors=ledger.collectors | ({op.verb} & COLLECTORS),
        has_peer=ledger.has_peer or has_peer,
    )


def _living(books: Books) -> frozenset[Version]:
    """Commits whose own version is to be seen in a living table."""
    if books.kind != "live":
        return frozenset()
    found = set[Version]()
    for line in (books.main, books.branch):
        for number, version in line.versions.items():
            assert line.newest is not None
            if line.shows(number) and version.lineage == line.newest.lineage:
                found.add(version)
    return frozenset(found)


def _noted(ledger: Ledger, op: Op, end: Finished, books: Books) -> Ledger | Violation:
    if op.verb in TAGS:
        tag, _, number = end.detail.partition("=")
        version = books.main.versions.get(int(number))
        if books.kind not in _READABLE:
            return ledger
        if version is None:
            return Violation("lost", f"tag {tag} was put on version {number}, which is gone")
        return replace(ledger, tags=ledger.tags | {(tag, int(number), version)})
    if op.verb not in COMMITS:
        return ledger
    version = next((each for each in ledger.lived if each.commit == end.detail), None)
    if version is None:
        return Violation("false", f"{op} was told that {end.detail} counts")
    # Should its version be deleted by now, newer ones hold the commit.
    numbers = [n for n, each in books.line(op.verb).versions.items() if each == version]
    noted = Noted(op.verb, max(numbers, default=0), version)
    return replace(ledger, commits=ledger.commits | {noted})


def _of_this_table(ledger: Ledger, books: Books) -> Ledger:
    """A purged table takes its commits and tags along."""
    if books.kind not in _READABLE:
        return replace(ledger, commits=frozenset(), tags=frozenset())
    if books.main.newest is None:
        return ledger
    lineage = books.main.newest.lineage
    return replace(
        ledger,
        commits=frozenset(each for each in ledger.commits if each.version.lineage == lineage),
        tags=frozenset(each for each in ledger.tags if each[2].lineage == lineage),
    )


def _half(main: Line, other: Line) -> bool:
    """Whether a commit to two tables is in one of them alone."""
    if main.newest is None or other.newest is None:
        return False
    return any(BOTH in each for each in main.newest.holds ^ other.newest.holds)


def _out_of_sight(ledger: Ledger, books: Books) -> Violation | None:
    if ledger.has_peer:
        return None
    for line in (books.main, books.branch):
        if line.incarnation > 1:
            return Violation("lost", "nobody replaced the table, and its boundary is closed")
        if books.kind == "live" and line.versions and not line.shows(max(line.versions)):
            return Violation("lost", f"the newest version is behind {line.boundary}")
    return None
