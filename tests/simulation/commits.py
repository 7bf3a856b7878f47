"""Actors that commit, restore, tag, branch and delete versions: they call `TableVersions` and
`References` as the namespace does, and write through the twin of Lance's datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise
from typing import Any

from lance_namespace_urllib3_client.models.create_table_version_entry import (
    CreateTableVersionEntry,
)

from tests.simulation import frames
from tests.simulation.actors import (
    DIRECTORY,
    LOCATION,
    MANIFEST,
    MARKER_VERBS,
    ROW_VERBS,
    Code,
    Kit,
    Script,
    Verb,
    open_services,
)
from tests.simulation.datasets import APPEND, ROOT, UPDATE, encode, new_uuid
from tests.simulation.process import Ask, Build
from tests.simulation.views import OTHER, TABLE
from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.errors import translate
from tiltyard.store import Ambiguous
from tiltyard.tables.refs import Point
from tiltyard.versions import commit_client
from tiltyard.versions.retention import referenced_versions

BRANCH = "side"
# What the name of a commit to two tables has in it.
BOTH = "-b07b-"


class CommitKit(Kit):
    """What an actor needs who commits. `marked` tables lie at a V1 location; others have a row, and
    their versions may be rows, too."""

    def __init__(self, letter: str, ask: Ask, code: Code, skew_ms: int, marked: bool) -> None:
        super().__init__(letter, ask, code, skew_ms)
        settings = DIRECTORY if marked else MANIFEST
        self.services = open_services(settings, self.store, self.clock, code)
        self.versions = self.services.versions
        self.references = self.services.references

    def open(self, name: str = TABLE, branch: str | None = None) -> AbstractContextManager[Any]:
        """The latest version of a table, to change it."""
        return self.services.access.change(self.find(name), branch)

    def find(self, name: str = TABLE) -> Table:
        return self.services.access.find((name,))

    def memory(self) -> Hashable:
        stores = (self.versions.files, self.versions.rows)
        return (self.tokens.used, *(frames.memory(store) for store in stores))


# -- committing


def _commit(kit: CommitKit, kind: str, branch: str | None = None) -> str:
    with kit.open(branch=branch) as dataset:
        return str(dataset.commit(kind).transaction)


def _restore(kit: CommitKit, version: int) -> str:
    restored: Any = kit.references.restore((TABLE,), version, None)
    return str(restored.transaction)


def _batch(kit: CommitKit) -> str:
    """An append to two tables at once."""
    uuid = new_uuid(kit.clock).replace("-0000-", BOTH, 1)
    wanted = []
    for name in (TABLE, OTHER):
        with kit.open(name) as dataset:
            request = CreateTableVersionEntry(**dataset.stage(APPEND, uuid))
        wanted.append(commit_client.new_version(ROOT, request))
    kit.services.batches.create_all(wanted)
    return uuid


def _manage(kit: CommitKit, *tables: str) -> int:
    """Make rows of the versions of tables."""
    managed = kit.versions.management.manage([kit.find(name) for name in tables])
    return sum(table.added for table in managed)


def _repair(kit: CommitKit) -> str:
    """Let versions count that were written past the catalog."""
    table = kit.find()
    if table.managed and not table.becoming_managed:
        return kit.versions.drifts.adopt(table).action.value
    return ""


# -- deleting


def _collect(kit: CommitKit, branch: str | None = None) -> list[int]:
    """All but the latest, and what is referred to."""
    newest = kit.versions.latest((TABLE,), branch)
    last = newest.version - 1 if newest else 0
    references = referenced_versions(kit.store, kit.find().location, branch)
    edges = [0, *sorted(version for version in references if version <= last), last + 1]
    ranges = [(low + 1, high - 1) for low, high in pairwise(edges) if low + 1 < high]
    return list(kit.versions.delete((TABLE,), ranges, branch=branch)) if ranges else []


def _delete(kit: CommitKit, first: int, last: int) -> list[int]:
    return list(kit.versions.delete((TABLE,), [(first, last)]))


def _delete_head(kit: CommitKit) -> list[int]:
    newest = kit.versions.latest((TABLE,))
    return _delete(kit, newest.version, newest.version) if newest else []


# -- referring


def _tag(kit: CommitKit, version: int) -> str:
    kit.references.create_tag((TABLE,), kit.letter, Point(version))
    return kit.letter


def _branch(kit: CommitKit) -> str:
    kit.references.create_branch((TABLE,), BRANCH, version=None, origin=None)
    return BRANCH


# -- others


def _replace(kit: CommitKit) -> None:
    """Lance's own client: it deletes the directory and makes another table there."""
    kit.store.delete_many(entry.key for entry in list(kit.store.walk(LOCATION)))
    key = f"{LOCATION}/data/{kit.clock.token(6)}"
    kit.store.put(key, kit.letter.encode())
    kit.store.put(version_files.key_of(LOCATION, 1), encode({"nonce": None, "files": [key]}))


def _translated(verb: Callable[[CommitKit], object]) -> Verb:
    """As the namespace does: what a store leaves in doubt is told as an error of ours."""

    def translated(kit: Any) -> object:
        try:
            return verb(kit)
        except Ambiguous as doubt:
            raise translate(doubt, "change versions") from doubt

    return translated


_OURS: Mapping[str, Callable[[CommitKit], object]] = {
    "append": partial(_commit, kind=APPEND),
    "update": partial(_commit, kind=UPDATE),
    "restore1": partial(_restore, version=1),
    "collect": _collect,
    "delete2": lambda kit: _delete(kit, 2, 2),
    "delete3": lambda kit: _delete(kit, 3, 3),
    "delete12": lambda kit: _delete(kit, 1, 2),
    "delete_head": _delete_head,
    "scrub": lambda kit: list(kit.versions.scrub((TABLE,))),
    "tag1": lambda kit: _tag(kit, 1),
    "tag2": lambda kit: _tag(kit, 2),
    "branch": _branch,
    "branch_append": lambda kit: _commit(kit, APPEND, BRANCH),
    "branch_update": lambda kit: _commit(kit, UPDATE, BRANCH),
    "branch_collect": lambda kit: _collect(kit, BRANCH),
    "replace": _replace,
}
_LIFECYCLE = ("create", "drop", "undrop", "undrop_newer", "purge")
_TRANSLATED = {name: _translated(verb) for name, verb in _OURS.items()}
MARKED_COMMIT_VERBS: dict[str, Verb] = {
    **_TRANSLATED,
    **{name: MARKER_VERBS[name] for name in _LIFECYCLE},
}
ROW_COMMIT_VERBS: dict[str, Verb] = {
    **_TRANSLATED,
    **{name: ROW_VERBS[name] for name in _LIFECYCLE if name in ROW_VERBS},
}
MANAGED_COMMIT_VERBS: dict[str, Verb] = {
    **ROW_COMMIT_VERBS,
    "manage": _translated(lambda kit: _manage(kit, TABLE)),
    "manage_both": _translated(lambda kit: _manage(kit, TABLE, OTHER)),
    "repair": _translated(_repair),
    "batch": _translated(_batch),
    "read": _translated(lambda kit: kit.versions.latest((TABLE,))),
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
    marked = table is MARKED_COMMIT_VERBS
    return lambda ask: CommitScript(
        CommitKit(letter, ask, code, skew_ms, marked), [table[verb] for verb in verbs]
    )


# -- which reads others can't change

# Where a verb may write. Reading elsewhere is the same before and after it.
_VERSIONS, _REFERENCES, _BOUNDARY, _BRANCH = "versions", "references", "boundary", "branch"
_STATE, _TOP = "state", "top"
_WRITES: dict[str, frozenset[str]] = {
    "append": frozenset([_VERSIONS]),
    "update": frozenset([_VERSIONS]),
    "restore1": frozenset([_VERSIONS, _BOUNDARY]),
    "collect": frozenset([_VERSIONS, _BOUNDARY]),
    "delete2": frozenset([_VERSIONS, _BOUNDARY]),
    "delete3": frozenset([_VERSIONS, _BOUNDARY]),
    "delete12": frozenset([_VERSIONS, _BOUNDARY]),
    "delete_head": frozenset([_VERSIONS, _BOUNDARY]),
    "scrub": frozenset([_VERSIONS]),
    "tag1": frozenset([_REFERENCES]),
    "tag2": frozenset([_REFERENCES]),
    "branch": frozenset([_REFERENCES, _BRANCH]),
    "branch_append": frozenset([_BRANCH]),
    "branch_update": frozenset([_BRANCH]),
    "branch_collect": frozenset([_BRANCH]),
    "drop": frozenset([_STATE, _TOP]),
    "undrop": frozenset([_STATE, _TOP]),
    "undrop_newer": frozenset([_STATE, _TOP]),
}


def _area(key: str) -> str:
    if f"/{names.BRANCHES_DIRECTORY}/" in key or key.startswith(names.BRANCH_LISTS):
        return _BRANCH
    if key.startswith(names.BOUNDARIES):
        return _BOUNDARY
    if f"/{names.VERSIONS_DIRECTORY}" in key:
        return _VERSIONS
    if f"/{names.REFERENCES_DIRECTORY}/" in key:
        return _REFERENCES
    return _TOP if "/" in key or key.endswith(names.TABLE_SUFFIX) else _STATE


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
