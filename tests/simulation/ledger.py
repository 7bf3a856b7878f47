"""The judge of commits: it keeps the books of what was acknowledged, and looks after every request
whether all of it is still there.

A commit that was acknowledged was in a table that lived, and is in the newest version of that table
for ever after: an update that was skipped by another, a number that was given away twice, a version
that others scrubbed away all show there. Only a restore takes it away, which names a version that
is there when it lands. An acknowledged tag or branch was one of a table that lived, and has its
version for ever. A version goes only behind the boundary, and only if nobody retains it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from tests.simulation import views
from tests.simulation.commits import BOTH, BRANCH, is_staged
from tests.simulation.files import decode_version
from tests.simulation.oracle import Violation
from tests.simulation.process import Finished
from tests.simulation.register import rows_of
from tests.simulation.requests import Objects
from tests.simulation.specs import Op
from tiltyard.catalog import names, version_files
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
from tiltyard.versions.lance_format import restored_by

COMMITS = ("append", "update", "restore1", "branch_append", "branch_update", "batch")
REFERENCES = ("tag1", "tag2", "branch")
# Which versions a collector chooses, if not all but the latest.
CHOICES: dict[str, tuple[int, ...]] = {"delete2": (2,), "delete3": (3,), "delete12": (1, 2)}
# Whoever makes rows of versions chooses none, but a collector may leave it to others to tidy up.
MANAGERS = frozenset(["manage", "manage_both"])
CHOICES |= dict.fromkeys(MANAGERS, ())
COLLECTORS = frozenset(["collect", "branch_collect", "delete_head", *CHOICES])
# While it is being purged or made anew nobody reads a table; `lifecycle` has its own judge.
_READABLE = ("live", "deleted", "held")


class Version(NamedTuple):
    """One version: whose commit it is, of which table, and the commits that it holds. Those before
    version `restored_at` it has as the version had that was restored there."""

    commit: str
    lineage: tuple[str, ...]
    holds: frozenset[str]
    restored_at: int = 0
    restores: int | None = None


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
    """What is there: the state of the table, its versions, those of its branch, and what refers to
    versions by its name: tags, the branch, and pins."""

    kind: str
    main: Line
    branch: Line
    references: Mapping[str, int]
    other: Line | None = None  # another table, if there is one

    def line(self, verb: str) -> Line:
        return self.branch if verb.startswith("branch") else self.main


class Reference(NamedTuple):
    """A tag or a branch, the version that it refers to, and the table that lives there."""

    name: str
    number: int
    version: Version
    lineage: tuple[str, ...]


class Noted(NamedTuple):
    """A commit that was acknowledged."""

    verb: str
    number: int
    version: Version


@dataclass(frozen=True)
class Ledger:
    """What the judge remembers. `lived` are commits, and `referred` references with their versions,
    that were seen in a living table; `references` those that were acknowledged."""

    lived: frozenset[Version] = frozenset()
    commits: frozenset[Noted] = frozenset()
    restores: frozenset[Version] = frozenset()
    begun: frozenset[tuple[Op, tuple[str, ...]]] = frozenset()
    referred: frozenset[Reference] = frozenset()
    references: frozenset[Reference] = frozenset()
    open: frozenset[Op] = frozenset()
    collectors: frozenset[str] = frozenset()
    has_peer: bool = False
    is_void: bool = False  # another client replaced the directory under somebody's hands

    def may_go(self, verb: str, number: int) -> bool:
        """Whether a collector has begun that chooses a version."""
        is_branch = verb.startswith("branch")
        return any(
            number in CHOICES.get(collector, (number,))
            for collector in self.collectors
            if collector.startswith("branch") == is_branch
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
            return Frozen(Books(kind, _managed(objects, row), _EMPTY, {}, twin))
        side = f"{location}/{names.BRANCHES_DIRECTORY}/{BRANCH}"
        references = _references(objects, location)
        return Frozen(Books(kind, _line(objects, location), _line(objects, side), references))

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
        noted = [Noted("append", *item) for item in main.items()]
        noted += [Noted("branch_append", *item) for item in branch.items()]
        return Ledger(commits=frozenset(noted))

    def step(
        self,
        ledger: Ledger,
        started: Op | None,
        view: Frozen,
        finished: Sequence[tuple[Op, Finished]],
    ) -> Ledger | Violation:
        books = view.books
        ledger = self._opened(ledger, started, books) if started else ledger
        restores = frozenset(it for it in books.main.versions.values() if it.restores)
        for version in restores - ledger.restores:
            if version.restores not in books.main.versions:
                return Violation("lost", f"{version} restores a version that is gone")
        ledger = replace(
            ledger,
            lived=ledger.lived | _living(books),
            restores=ledger.restores | restores,
            referred=ledger.referred | _referring(books),
        )
        for op, end in finished:
            if end.verdict == "untyped":
                return Violation("untyped", f"{op} left with {end.detail}")
            if op.verb == "replace":
                ledger = replace(ledger, commits=frozenset(), references=frozenset())
            if end.verdict != "unknown":  # else it may still happen
                ledger = replace(ledger, open=ledger.open - {op})
            if end.verdict != "ok" or ledger.is_void:
                continue
            noted = _noted(ledger, op, end, books)
            if isinstance(noted, Violation):
                return noted
            ledger = noted
        if ledger.is_void or any(request.verb == "replace" for request in ledger.open):
            return ledger
        ledger = _of_this_table(ledger, books)
        if books.other is not None and _half(books.main, books.other):
            return Violation("half", "one of two tables has a commit that is for both")
        is_over = self._tidy and not (ledger.open or ledger.collectors & MANAGERS)
        if is_over and min(books.main.retained, default=0) < 0:
            return Violation("left", f"files without rows: {set(books.main.retained)}")
        return self._audited(ledger, books) or _out_of_sight(ledger, books) or ledger

    def _opened(self, ledger: Ledger, op: Op, books: Books) -> Ledger:
        """A client that replaces whole directories may leave a mixture of two tables, if anybody
        else is at work there. Nothing is promised then but that nobody stumbles.

        At a V1 location the first request of an operation tells which table it is about.
        """
        open_ = ledger.open | {op}
        has_peer = any(request.verb == "replace" for request in open_)
        is_live = self._marked and books.kind == "live" and books.main.newest is not None
        lineage = books.main.newest.lineage if is_live and books.main.newest else None
        return replace(
            ledger,
            open=open_,
            is_void=ledger.is_void or (has_peer and len(open_) > 1),
            collectors=ledger.collectors | ({op.verb} & COLLECTORS),
            begun=ledger.begun | ({(op, lineage)} if lineage else set()),
            has_peer=ledger.has_peer or has_peer,
        )

    def _audited(self, ledger: Ledger, books: Books) -> Violation | None:
        if books.kind not in _READABLE:
            return None
        for verb, number, version in ledger.commits:
            line = books.line(verb)
            held = line.newest.holds if line.newest else frozenset[str]()
            is_restored = line.newest is not None and number < line.newest.restored_at
            if version.commit in version.holds and version.commit not in held and not is_restored:
                return Violation("lost", f"{verb} of version {number} is not in {line.newest}")
            present = line.versions.get(number)
            if present is not None and present != version and line.shows(number):
                return Violation("lost", f"version {number} was {version}, and is {present}")
            if present is None and number and not ledger.may_go(verb, number):
                return Violation("lost", f"version {number} went, and nobody had chosen it")
            if present is None and self._strict and line.shows(number):
                return Violation("early", f"version {number} went, boundary {line.boundary}")
        for name, number, version, _ in ledger.references:
            if books.references.get(name) != number or books.main.versions.get(number) != version:
                return Violation("lost", f"{name} of version {number} refers to nothing")
        return None


class Frozen:
    """Books that can be compared and looked up."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self._key = (
            books.kind,
            _flat(books.main),
            _flat(books.branch),
            tuple(sorted(books.references.items())),
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
        names = f", {dict(self.books.references)}" if self.books.references else ""
        return f"{self.books.kind} [{told}] boundary {line.boundary} {set(line.retained)}{names}"


def _flat(line: Line) -> tuple[object, ...]:
    return tuple(sorted(line.versions.items())), *line[1:]


_EMPTY = Line({}, 0, frozenset())


def _references(objects: Objects, location: str) -> dict[str, int]:
    """What tags, the branch and pins refer to, by their names."""
    folders = (
        f"{location}/{names.REFERENCES_DIRECTORY}/",
        f"{names.BOUNDARIES}/{location}/pins/",
    )
    references = {}
    for key, body in objects.items():
        if key.startswith(folders):
            known = json.loads(body)
            name = key.rpartition("/")[2].removesuffix(".json")
            references[name] = known.get("parentVersion") or known["version"]
    return references


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
    known = decode_version(body)
    transaction = known.get("transaction", "").partition("-")[2].removesuffix(".txn")
    held = frozenset([*known.get("row", ()), *known.get("rows", ())])
    return Version(
        transaction or known["nonce"] or "",
        tuple(known["files"]),
        held,
        known.get("restored_at", 0),
        restored_by(body),
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


def _referring(books: Books) -> frozenset[Reference]:
    """What refers to versions of a table that lives."""
    versions, newest = books.main.versions, books.main.newest
    if books.kind != "live" or newest is None:
        return frozenset()
    return frozenset(
        Reference(name, number, versions[number], newest.lineage)
        for name, number in books.references.items()
        if number in versions
    )


def _noted(ledger: Ledger, op: Op, end: Finished, books: Books) -> Ledger | Violation:
    if op.verb in REFERENCES:
        begun = dict(ledger.begun).get(op)
        for reference in ledger.referred:
            if reference.name == end.detail and begun in (None, reference.lineage):
                return replace(ledger, references=ledger.references | {reference})
        return Violation("false", f"{op} was told that {end.detail} counts")
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
        return replace(ledger, commits=frozenset(), references=frozenset())
    if books.main.newest is None:
        return ledger
    lineage = books.main.newest.lineage
    return replace(
        ledger,
        commits=frozenset(commit for commit in ledger.commits if commit.version.lineage == lineage),
        references=frozenset(it for it in ledger.references if it.lineage == lineage),
    )


def _half(main: Line, other: Line) -> bool:
    """Whether a commit to two tables is in one of them alone."""
    if main.newest is None or other.newest is None:
        return False
    return any(BOTH in hold for hold in main.newest.holds ^ other.newest.holds)


def _out_of_sight(ledger: Ledger, books: Books) -> Violation | None:
    if ledger.has_peer:
        return None
    for line in (books.main, books.branch):
        if line.incarnation > 1:
            return Violation("lost", "nobody replaced the table, and its boundary is closed")
        if books.kind == "live" and line.versions and not line.shows(max(line.versions)):
            return Violation("lost", f"the newest version is behind {line.boundary}")
    return None
