"""Edits of namespaces and of the tables in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tiltyard.catalog import names
from tiltyard.catalog.base import CreateMode, DropBehaviour
from tiltyard.catalog.manifest.draft import Change, Draft, replaced, taken
from tiltyard.catalog.manifest.edits.base import Edit
from tiltyard.catalog.manifest.edits.versions import version_ids, with_new_id
from tiltyard.catalog.manifest.rows import (
    CREATED_AT,
    MANAGED,
    MOVED,
    NAMESPACE,
    PROTECTED,
    VERSIONS,
    Row,
    RowIdentity,
)
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError, NamespaceNotEmptyError


@dataclass(frozen=True)
class CreateNamespace(Edit, kind="create_namespace"):
    """Make a namespace; the answer is its row."""

    namespace: NamespaceId
    mode: CreateMode
    now_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)

    def apply(self, draft: Draft) -> Change:
        metadata = {**self.properties, CREATED_AT: str(self.now_ms)}
        row = Row(names.object_id(self.namespace), NAMESPACE, None, metadata)
        draft.require_namespace(self.namespace[:-1])
        existing = draft.get(row.object_id)
        if existing is None:
            return Change(add=(row,), answer=row)
        if existing.is_table or self.mode is CreateMode.CREATE:
            raise taken(existing)
        if self.mode is CreateMode.EXIST_OK:
            return Change(answer=existing)
        if draft.holds_any(self.namespace):
            raise NamespaceNotEmptyError(
                f"namespace {names.display(self.namespace)} is not empty, so it can't be replaced",
                hint="drop it with behavior=Cascade first",
            )
        return Change(remove=(row.object_id,), add=(row,), answer=row)


@dataclass(frozen=True)
class DropNamespace(Edit, kind="drop_namespace"):
    """Remove a namespace and, with Cascade, the namespaces below it; the answer is its row.

    The tables of a cascade are dropped by edits before this one, in the same commit.
    """

    namespace: NamespaceId
    behaviour: DropBehaviour

    def apply(self, draft: Draft) -> Change:
        row = draft.require_namespace(self.namespace)
        assert row is not None, "the root has no row"
        below = draft.below(self.namespace)
        if below and self.behaviour is DropBehaviour.RESTRICT:
            raise NamespaceNotEmptyError(
                f"namespace {names.display(self.namespace)} holds {len(below)} tables or "
                f"namespaces",
                hint="drop them first, or use behavior=Cascade",
            )
        table = next((row for row in below if row.is_table), None)
        if table is not None:
            raise ConcurrentModificationError(
                f"table {names.display(table.id)} was created while its namespace was dropped"
            )
        gone = (row.object_id, *(row.object_id for row in below))
        return Change(remove=gone, answer=row)


@dataclass(frozen=True)
class AddTable(Edit, kind="add_table"):
    """Publish a table under a free name in a namespace that exists; the answer is its row.

    With `files` its versions are rows, at first those of these files.
    """

    row: Row
    files: tuple[VersionFile, ...] | None = None

    def apply(self, draft: Draft) -> Change:
        draft.require_namespace(self.row.id[:-1])
        draft.require_free(self.row.object_id)
        draft.require_unowned(self.row)
        if self.files is None:
            return Change(add=(self.row,), answer=self.row)
        managed = replace(self.row, metadata={**self.row.metadata, VERSIONS: MANAGED})
        versions = (Row.of_version(managed.object_id, file) for file in self.files)
        return Change(add=(managed, *versions), answer=managed)


@dataclass(frozen=True)
class IndexTable(Edit, kind="index_table"):
    """Add the row of a table at `<name>.lance`, where its marker decides; the answer is the row.

    A row of the same directory may be left of an earlier table, so it is replaced, unless it is to
    be kept. TableAlreadyExistsError or NamespaceAlreadyExistsError if any other row has the name.
    """

    row: Row
    keep: bool = False

    def apply(self, draft: Draft) -> Change:
        existing = draft.get(self.row.object_id)
        if existing is None:
            draft.require_unowned(self.row)
            return Change(add=(self.row,), answer=self.row)
        if not (existing.is_table and existing.location == self.row.location):
            raise taken(existing)
        if self.keep or existing == self.row:
            return Change(answer=existing)
        return Change(remove=(self.row.object_id,), add=(self.row,), answer=self.row)


@dataclass(frozen=True)
class ReplaceTable(Edit, kind="replace_table"):
    """Point a name to another location; the table at the old one is no longer registered."""

    row: Row

    def apply(self, draft: Draft) -> Change:
        draft.require_namespace(self.row.id[:-1])
        existing = draft.get(self.row.object_id)
        if existing is not None and not existing.is_table:
            raise taken(existing)
        draft.require_unowned(self.row)
        gone = (self.row.object_id,) if existing is not None else ()
        versions = version_ids(draft, self.row.object_id)
        return Change(remove=(*gone, *versions), add=(self.row,), answer=self.row)


@dataclass(frozen=True)
class RemoveTable(Edit, kind="remove_table"):
    """Remove the row of a table; the answer is that row."""

    table: TableId
    location: str

    def apply(self, draft: Draft) -> Change:
        row = draft.require_table(self.table, self.location)
        gone = (row.object_id, *version_ids(draft, row.object_id))
        return Change(remove=gone, answer=row)


@dataclass(frozen=True)
class RenameTable(Edit, kind="rename_table"):
    """Move a table's row to a free name; its files stay where they are. The answer is its row."""

    table: TableId
    target: TableId
    location: str

    def apply(self, draft: Draft) -> Change:
        row = draft.require_table(self.table, self.location)
        draft.require_namespace(self.target[:-1])
        draft.require_free(names.object_id(self.target))
        renamed = replace(row, object_id=names.object_id(self.target))
        old, new = with_new_id(draft, row.object_id, renamed.object_id)
        return Change(remove=(row.object_id, *old), add=(renamed, *new), answer=renamed)


# -- rows at V1 locations, where the marker decides


@dataclass(frozen=True)
class RemoveIndex(Edit, kind="remove_index"):
    """Remove the row of a table that its marker has hidden; none is fine."""

    table: TableId
    location: str

    def apply(self, draft: Draft) -> Change:
        row = draft.get(names.object_id(self.table))
        if row is None or not row.is_table or row.location != self.location:
            return Change()
        return Change(remove=(row.object_id,), answer=row)


@dataclass(frozen=True)
class RemoveStaleRow(Edit, kind="remove_stale_row"):
    """Remove a row that has no table any more, if it is still that one."""

    row: RowIdentity

    def apply(self, draft: Draft) -> Change:
        return Change(remove=(self.row.object_id,)) if draft.has(self.row) else Change()


@dataclass(frozen=True)
class ClearRename(Edit, kind="clear_rename"):
    """Make the row of a table that was renamed back an index again: its marker decides now."""

    row: RowIdentity

    def apply(self, draft: Draft) -> Change:
        row = draft.get(self.row.object_id)
        if row is None or not draft.has(self.row):
            return Change(answer=row)
        gone = (MOVED, PROTECTED)
        kept = {key: value for key, value in row.metadata.items() if key not in gone}
        index = replace(row, metadata=kept)
        return Change(remove=(row.object_id,), add=(index,), answer=index)


# -- combined edits


@dataclass(frozen=True)
class IfSameRow(Edit, kind="if_same_row"):
    """Another edit, unless the row that it is about was replaced: ConcurrentModificationError."""

    row: RowIdentity
    edit: Edit

    def apply(self, draft: Draft) -> Change:
        if not draft.has(self.row):
            raise replaced(names.split_object_id(self.row.object_id))
        return self.edit.apply(draft)


@dataclass(frozen=True)
class AllOf(Edit, kind="all_of"):
    """Several edits, each on top of the one before: all take effect, or none.

    The answer is the list of their answers.
    """

    edits: tuple[Edit, ...]

    def apply(self, draft: Draft) -> Change:
        if len(self.edits) == 1:
            change = self.edits[0].apply(draft)
            return replace(change, answer=[change.answer])
        trial = draft.copy()
        changes = []
        for edit in self.edits:
            change = edit.apply(trial)
            trial.apply(change)
            changes.append(change)
        return Change(
            remove=tuple(object_id for change in changes for object_id in change.remove),
            add=tuple(row for change in changes for row in change.add),
            answer=[change.answer for change in changes],
        )
