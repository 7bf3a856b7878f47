"""Actors that commit, tag and delete versions: the code of `versions`, with Lance's part in it
modelled.

A writer does what Lance does: it opens the latest version, looks at what came since, skips what is
gone, stages a manifest and asks for the next number. An update is built on the row that its writer
has read and conflicts with other updates; an append goes well with everything. So an update that
skipped another one loses it, and the newest version shows that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from tests.simulation.actors import (
    LOCATION,
    MARKER_VERBS,
    NO_WAIT,
    ROW_VERBS,
    Code,
    Kit,
    Script,
    Verb,
)
from tests.simulation.process import Ask, Build
from tests.simulation.views import OTHER, TABLE
from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError, VersionBehindBoundaryError, translate
from tiltyard.store import Ambiguous, NotThere
from tiltyard.versions.directory import NewVersion
from tiltyard.versions.reading import branch_of
from tiltyard.versions.references import referred
from tiltyard.versions.room import TableVersions

UPDATE = "update"
APPEND = "append"
BRANCH = "side"
# What the name of a commit to two tables has in it.
BOTH = "-b07b-"
# How often Lance takes the next number after another was first.
TRIES = 2


class CommitKit(Kit):
    """What an actor needs who commits. `marked` tables lie at a V1 location; the versions of others
    may be rows, and are then asked for in the room for both."""

    def __init__(
        self, letter: str, ask: Ask, code: Code, skew_ms: int, marked: bool, managed: bool
    ) -> None:
        super().__init__(letter, ask, code, skew_ms)
        context = (self.in_directory_mode if marked else self.in_manifest_mode).context
        self.catalog: Catalog = context.catalog
        manifest = context.manifest
        self.versions = code.file_versions_type(self.store, self.clock, self.catalog, NO_WAIT)
        self.room = TableVersions(self.store, self.clock, self.catalog, manifest, NO_WAIT)
        self.room.rows = code.row_versions_type(self.store, self.clock, manifest)
        self.room._files = self.versions
        self.is_marked = marked
        self.is_managed = managed

    def location(self) -> str:
        return LOCATION if self.is_marked else self.catalog.find((TABLE,)).location

    def latest(self, location: str) -> VersionFile | None:
        if self.is_managed:
            return self.room.latest((TABLE,))
        return version_files.latest(self.store, location)

    def listed(self, location: str) -> Mapping[int, str]:
        if self.is_managed:
            return {each.version: each.key for each in self.room.visible((TABLE,))}
        return {each.version: each.key for each in version_files.every(self.store, location)}

    def memory(self) -> Hashable:
        known = {key: each._known for key, each in self.versions._boundaries.items()}
        complete = tuple(self.room.rows._complete) if self.room.rows else ()
        return (self.tokens.used, tuple(sorted(known.items())), complete)


# -- committing


def _uuid(token: str) -> str:
    """A name that Lance could have chosen; it still tells whose it is."""
    return f"{ord(token[0]):08x}-0000-0000-0000-{token[1:]:0>12}"


def _commit(kit: CommitKit, kind: str, branch: str | None = None) -> str:
    location = branch_of(kit.location(), branch)
    opened = kit.latest(location)
    if opened is None:
        raise ConcurrentModificationError("there is no version to build on")
    read = _manifest(kit, opened.key)
    if read is None:
        raise ConcurrentModificationError("the version that was opened is gone")
    for attempt in range(TRIES):
        try:
            return _try(kit, kind, branch, location, opened.version, read)
        except VersionBehindBoundaryError:
            raise
        except ConcurrentModificationError:
            if attempt + 1 == TRIES:
                raise
    raise AssertionError


def _try(
    kit: CommitKit, kind: str, branch: str | None, location: str, base: int, read: dict[str, Any]
) -> str:
    found = kit.listed(location)
    newest = read
    for version in range(base + 1, max(found, default=base) + 1):
        between = _manifest(kit, found[version]) if version in found else None
        if between is None:
            continue  # Lance does not notice
        if between["files"] != read["files"] or kind == between.get("kind") == UPDATE:
            raise ConcurrentModificationError(f"version {version} conflicts")
        newest = between
    uuid = _uuid(kit.clock.token(6))
    version = max(found, default=base) + 1
    body = {
        **newest,
        "kind": kind,
        "transaction": f"{base}-{uuid}.txn",
        "row": [*read.get("row", []), uuid] if kind == UPDATE else newest.get("row", []),
        "rows": [*newest.get("rows", []), uuid] if kind == APPEND else newest.get("rows", []),
    }
    return _publish(kit, location, version, uuid, body, branch)


def _publish(
    kit: CommitKit, location: str, version: int, uuid: str, body: object, branch: str | None
) -> str:
    staged = f"{version_files.key_of(location, version)}-{uuid}"
    kit.store.put(staged, json.dumps(body, separators=(",", ":")).encode())
    new = NewVersion((TABLE,), version, staged, branch=branch)
    (kit.room if kit.is_managed else kit.versions).create(new)
    return uuid


def _batch(kit: CommitKit) -> str:
    """An append to two tables at once."""
    uuid = _uuid(kit.clock.token(6)).replace("-0000-", BOTH, 1)
    wanted = []
    for name in (TABLE, OTHER):
        opened = kit.room.latest((name,))
        read = _manifest(kit, opened.key) if opened else None
        if opened is None or read is None:
            raise ConcurrentModificationError("there is no version to build on")
        location = opened.key.partition("/")[0]
        body = {
            **read,
            "kind": APPEND,
            "transaction": f"{opened.version}-{uuid}.txn",
            "rows": [*read.get("rows", []), uuid],
        }
        staged = f"{version_files.key_of(location, opened.version + 1)}-{uuid}"
        kit.store.put(staged, json.dumps(body, separators=(",", ":")).encode())
        wanted.append(NewVersion((name,), opened.version + 1, staged))
    kit.room.create_all(wanted)
    return uuid


def _manage(kit: CommitKit, *tables: str) -> int:
    """Make rows of the versions of tables."""
    found = [kit.catalog.find((name,)) for name in tables]
    return sum(each.added for each in kit.room.management.bring_in(found))


def _manifest(kit: CommitKit, key: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(kit.store.get(key).body)
    except NotThere:
        return None
    return found


# -- deleting


def _collect(kit: CommitKit, branch: str | None = None) -> list[int]:
    """All but the latest, and what is referred to."""
    location = branch_of(kit.location(), branch)
    newest = kit.latest(location)
    last = newest.version - 1 if newest else 0
    needed = sorted(each for each in referred(kit.store, kit.location(), branch) if each <= last)
    edges = [0, *needed, last + 1]
    ranges = [(low + 1, high - 1) for low, high in pairwise(edges) if low + 1 < high]
    room = kit.room if kit.is_managed else kit.versions
    return list(room.delete((TABLE,), ranges, branch=branch)) if ranges else []


def _delete(kit: CommitKit, first: int, last: int) -> list[int]:
    return list(kit.versions.delete((TABLE,), [(first, last)]))


def _delete_head(kit: CommitKit) -> list[int]:
    newest = version_files.latest(kit.store, kit.location())
    return _delete(kit, newest.version, newest.version) if newest else []


# -- referring


def _tag(kit: CommitKit, version: int) -> str:
    body = json.dumps({"version": version}).encode()

    def key(table: Table) -> str:
        return f"{table.location}/{names.REFERENCES_DIRECTORY}/tags/{kit.letter}.json"

    kit.versions.refer(
        (TABLE,),
        version,
        put=lambda table: kit.store.put_new(key(table), body),
        take_back=lambda table: kit.store.delete(key(table)),
    )
    return f"{kit.letter}={version}"


def _branch(kit: CommitKit) -> str:
    """A branch begins as a copy of the latest version, under the same number."""
    location = kit.location()
    newest = version_files.latest(kit.store, location)
    body = _manifest(kit, newest.key) if newest else None
    assert newest is not None
    assert body is not None
    uuid = _uuid(kit.clock.token(6))
    body |= {"transaction": f"{newest.version}-{uuid}.txn"}
    key = f"{location}/{names.REFERENCES_DIRECTORY}/branches/{BRANCH}.json"
    kit.store.put(key, json.dumps({"parentVersion": newest.version}).encode())
    return _publish(kit, branch_of(location, BRANCH), newest.version, uuid, body, BRANCH)


# -- others


def _replace(kit: CommitKit) -> None:
    """Lance's own client: it deletes the directory and makes another table there."""
    kit.store.delete_many(each.key for each in list(kit.store.walk(LOCATION)))
    key = f"{LOCATION}/data/{kit.clock.token(6)}"
    kit.store.put(key, kit.letter.encode())
    body = {"nonce": None, "files": [key]}
    kit.store.put(version_files.key_of(LOCATION, 1), json.dumps(body).encode())


def _plainly(verb: Callable[[CommitKit], object]) -> Verb:
    """As the front door does: what a store leaves in doubt is told as an error of ours."""

    def told(kit: Any) -> object:
        try:
            return verb(kit)
        except Ambiguous as doubt:
            raise translate(doubt, "change versions") from doubt

    return told


_OURS: Mapping[str, Callable[[CommitKit], object]] = {
    "append": partial(_commit, kind=APPEND),
    "update": partial(_commit, kind=UPDATE),
    "collect": _collect,
    "delete2": lambda kit: _delete(kit, 2, 2),
    "delete3": lambda kit: _delete(kit, 3, 3),
    "delete12": lambda kit: _delete(kit, 1, 2),
    "delete_head": _delete_head,
    "scrub": lambda kit: list((kit.room if kit.is_managed else kit.versions).scrub((TABLE,))),
    "tag1": lambda kit: _tag(kit, 1),
    "tag2": lambda kit: _tag(kit, 2),
    "branch": _branch,
    "branch_append": lambda kit: _commit(kit, APPEND, BRANCH),
    "branch_update": lambda kit: _commit(kit, UPDATE, BRANCH),
    "branch_collect": lambda kit: _collect(kit, BRANCH),
    "replace": _replace,
}
_LIVES = ("create", "drop", "undrop", "undrop_newer", "purge")
_PLAIN = {name: _plainly(verb) for name, verb in _OURS.items()}
MARKED_COMMIT_VERBS: dict[str, Verb] = {
    **_PLAIN,
    **{name: MARKER_VERBS[name] for name in _LIVES},
}
ROW_COMMIT_VERBS: dict[str, Verb] = {
    **_PLAIN,
    **{name: ROW_VERBS[name] for name in _LIVES if name in ROW_VERBS},
}


MANAGED_COMMIT_VERBS: dict[str, Verb] = {
    **ROW_COMMIT_VERBS,
    "manage": _plainly(lambda kit: _manage(kit, TABLE)),
    "manage_both": _plainly(lambda kit: _manage(kit, TABLE, OTHER)),
    "batch": _plainly(_batch),
    "read": _plainly(lambda kit: kit.latest("")),
    "create_other": ROW_VERBS["create_other"],
}


class CommitScript(Script):
    """An actor that knows boundaries, and remembers what it has read of them."""

    def __init__(self, kit: CommitKit, verbs: list[Verb]) -> None:
        super().__init__(kit, verbs)
        self._commits = kit

    def memory(self) -> Hashable:
        return self._commits.memory()


def build(
    letter: str, verbs: tuple[str, ...], table: dict[str, Verb], code: Code, skew_ms: int
) -> Build:
    marked, managed = table is MARKED_COMMIT_VERBS, table is MANAGED_COMMIT_VERBS
    return lambda ask: CommitScript(
        CommitKit(letter, ask, code, skew_ms, marked, managed), [table[verb] for verb in verbs]
    )


# -- which reads others can't change

# Where a verb may write. Reading elsewhere is the same before and after it.
_VERSIONS, _REFERENCES, _BOUNDARY, _BRANCH = "versions", "references", "boundary", "branch"
_LIFE, _TOP = "life", "top"
_WRITES: dict[str, frozenset[str]] = {
    "append": frozenset([_VERSIONS]),
    "update": frozenset([_VERSIONS]),
    "collect": frozenset([_VERSIONS, _BOUNDARY]),
    "delete2": frozenset([_VERSIONS, _BOUNDARY]),
    "delete3": frozenset([_VERSIONS, _BOUNDARY]),
    "delete12": frozenset([_VERSIONS, _BOUNDARY]),
    "delete_head": frozenset([_VERSIONS, _BOUNDARY]),
    "scrub": frozenset([_VERSIONS]),
    "tag1": frozenset([_REFERENCES]),
    "tag2": frozenset([_REFERENCES]),
    "branch_append": frozenset([_BRANCH]),
    "branch_update": frozenset([_BRANCH]),
    "branch_collect": frozenset([_BRANCH]),
    "drop": frozenset([_LIFE, _TOP]),
    "undrop": frozenset([_LIFE, _TOP]),
    "undrop_newer": frozenset([_LIFE, _TOP]),
}


def _area(key: str) -> str:
    if f"/{names.BRANCHES_DIRECTORY}/" in key:
        return _BRANCH
    if key.startswith(names.BOUNDARIES):
        return _BOUNDARY
    if f"/{names.VERSIONS_DIRECTORY}" in key:
        return _VERSIONS
    if f"/{names.REFERENCES_DIRECTORY}/" in key:
        return _REFERENCES
    return _TOP if "/" in key or key.endswith(names.TABLE_SUFFIX) else _LIFE


def is_staged(key: str) -> bool:
    return ".manifest-" in key


def is_quiet(key: str, writes: bool, others: frozenset[str]) -> bool:
    """Whether a request goes well with everything that others may still do, in either order.

    Nobody but its writer looks at a staged manifest, and its name is never used again.
    """
    if is_staged(key):
        return others <= _WRITES.keys()  # none that deletes whole directories
    if writes:
        return False
    area = _area(key)
    return all(verb in _WRITES and area not in _WRITES[verb] for verb in others)
