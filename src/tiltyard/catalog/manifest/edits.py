"""What can be done to the manifest: each edit checks a draft and answers with a change, or raises.

Pure functions. The committer replays them on a newer snapshot after a lost race, so whatever an
edit found true is true of the commit that carries it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog.base import CreateMode, DropBehaviour, already_exists, no_such_table
from tiltyard.catalog.manifest import versions
from tiltyard.catalog.manifest.draft import Change, Draft, Edit
from tiltyard.catalog.manifest.rows import CREATED_AT, MOVED, NAMESPACE, PROTECTED, Row
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TiltyardError,
)
from tiltyard.names import NamespaceId, TableId


def create_namespace(
    namespace: NamespaceId, mode: CreateMode, properties: Mapping[str, str], now_ms: int
) -> Edit:
    """Make a namespace; the answer is its row."""
    row = Row(names.object_id(namespace), NAMESPACE, None, {**properties, CREATED_AT: str(now_ms)})

    def edit(draft: Draft) -> Change:
        require_namespace(draft, namespace[:-1])
        existing = draft.get(row.object_id)
        if existing is None:
            return Change(add=(row,), answer=row)
        if existing.is_table or mode is CreateMode.CREATE:
            raise taken(existing)
        if mode is CreateMode.EXIST_OK:
            return Change(answer=existing)
        if draft.holds_any(namespace):
            raise NamespaceNotEmptyError(
                f"namespace {names.display(namespace)} is not empty, so it can't be replaced",
                hint="drop it with behavior=Cascade first",
            )
        return Change(remove=(row.object_id,), add=(row,), answer=row)

    return edit


def drop_namespace(namespace: NamespaceId, behaviour: DropBehaviour) -> Edit:
    """Remove a namespace; the answer is its row and, with Cascade, every row below it."""

    def edit(draft: Draft) -> Change:
        row = require_namespace(draft, namespace)
        assert row is not None, "the root has no row"
        below = draft.below(namespace)
        if below and behaviour is DropBehaviour.RESTRICT:
            raise NamespaceNotEmptyError(
                f"namespace {names.display(namespace)} holds {len(below)} tables or namespaces",
                hint="drop them first, or use behavior=Cascade",
            )
        gone = (row, *below)
        return Change(remove=tuple(each.object_id for each in gone), answer=gone)

    return edit


def add_table(row: Row, files: Sequence[VersionFile] | None = None) -> Edit:
    """Publish a table under a free name in a namespace that exists.

    With `files` its versions are rows: those, for a beginning.
    """
    rows = (row,) if files is None else versions.born(row, files)

    def edit(draft: Draft) -> Change:
        require_namespace(draft, row.id[:-1])
        existing = draft.get(row.object_id)
        if existing is not None:
            raise taken(existing)
        require_unowned(draft, row)
        return Change(add=rows, answer=rows[0])

    return edit


def index_table(row: Row, *, keep: bool = False) -> Edit:
    """Note a table whose directory is its arbiter.

    A row that only indexes the same directory may be left over from a table that is gone, so it is
    replaced, unless it is to be kept; any other row has the name.
    """

    def edit(draft: Draft) -> Change:
        existing = draft.get(row.object_id)
        if existing is None:
            require_unowned(draft, row)
            return Change(add=(row,), answer=row)
        if not (existing.is_table and existing.location == row.location):
            raise taken(existing)
        if keep or existing == row:
            return Change(answer=existing)
        return Change(remove=(row.object_id,), add=(row,), answer=row)

    return edit


def is_index(row: Row) -> bool:
    """Whether a row only repeats what a V1 directory and its marker say."""
    is_home = row.location == names.table_directory(row.object_id)
    return row.is_table and is_home and MOVED not in row.metadata


def replace_table(row: Row) -> Edit:
    """Point a name to another location; what lay at the old one is no longer registered."""

    def edit(draft: Draft) -> Change:
        require_namespace(draft, row.id[:-1])
        existing = draft.get(row.object_id)
        if existing is not None and not existing.is_table:
            raise taken(existing)
        require_unowned(draft, row)
        gone = (row.object_id,) if existing is not None else ()
        former = versions.removed(draft, row.object_id)
        return Change(remove=(*gone, *former), add=(row,), answer=row)

    return edit


def remove_table(table: TableId, location: str | None = None) -> Edit:
    """Take a table out; the answer is its row. With a location, only if it is still there."""

    def edit(draft: Draft) -> Change:
        row = require_table(draft, table)
        if location is not None and row.location != location:
            raise ConcurrentModificationError(
                f"table {names.display(table)} was replaced by another of that name meanwhile"
            )
        gone = (row.object_id, *versions.removed(draft, row.object_id))
        return Change(remove=gone, answer=row)

    return edit


def forget_table(table: TableId, location: str) -> Edit:
    """Remove the row of a table that its own arbiter has hidden; no row is fine."""

    def edit(draft: Draft) -> Change:
        row = draft.get(names.object_id(table))
        if row is None or not row.is_table or row.location != location:
            return Change()
        return Change(remove=(row.object_id,), answer=row)

    return edit


def forget_left_over(left_over: Row) -> Edit:
    """Remove a row that stands for nothing, if it is still that one."""

    def edit(draft: Draft) -> Change:
        is_there = _is_same_move(draft, left_over)
        return Change(remove=(left_over.object_id,)) if is_there else Change()

    return edit


def while_moved(row: Row, edit: Edit) -> Edit:
    """An edit of the row of a table at a V1 location, if it is still of the same rename."""

    def checked(draft: Draft) -> Change:
        if not _is_same_move(draft, row):
            raise ConcurrentModificationError(
                f"table {names.display(row.id)} was replaced by another of that name meanwhile"
            )
        return edit(draft)

    return checked


def as_index(returned: Row) -> Edit:
    """Note that a renamed table is home again: from here on its marker decides."""

    def edit(draft: Draft) -> Change:
        row = draft.get(returned.object_id)
        if row is None or not _is_same_move(draft, returned):
            return Change(answer=row)
        kept = {key: each for key, each in row.metadata.items() if key not in (MOVED, PROTECTED)}
        index = replace(row, metadata=kept)
        return Change(remove=(row.object_id,), add=(index,), answer=index)

    return edit


def _is_same_move(draft: Draft, wanted: Row) -> bool:
    row = draft.get(wanted.object_id)
    if row is None or row.location != wanted.location:
        return False
    return row.metadata.get(MOVED) == wanted.metadata.get(MOVED)


def rename_table(table: TableId, target: TableId, location: str) -> Edit:
    """Move a table to a free name, in one commit; its bytes stay where they are."""

    def edit(draft: Draft) -> Change:
        row = require_table(draft, table)
        if row.location != location:
            raise ConcurrentModificationError(
                f"table {names.display(table)} was replaced by another of that name meanwhile"
            )
        require_namespace(draft, target[:-1])
        existing = draft.get(names.object_id(target))
        if existing is not None:
            raise taken(existing)
        renamed = replace(row, object_id=names.object_id(target))
        old, new = versions.moved(draft, row.object_id, renamed.object_id)
        return Change(remove=(row.object_id, *old), add=(renamed, *new), answer=renamed)

    return edit


def all_of(edits: list[Edit]) -> Edit:
    """Several edits as one: all of them take effect, or none."""

    if len(edits) == 1:
        return lambda draft: _listed(edits[0](draft))

    def edit(draft: Draft) -> Change:
        trial = draft.copy()
        changes = []
        for each in edits:
            change = each(trial)
            trial.apply(change)
            changes.append(change)
        return Change(
            remove=tuple(identifier for change in changes for identifier in change.remove),
            add=tuple(row for change in changes for row in change.add),
            answer=[change.answer for change in changes],
        )

    return edit


def _listed(change: Change) -> Change:
    return replace(change, answer=[change.answer])


# -- what edits ask of a draft


def require_namespace(draft: Draft, namespace: NamespaceId) -> Row | None:
    """The row of a namespace that must exist; the root always does and has none."""
    if not namespace:
        return None
    row = draft.get(names.object_id(namespace))
    if row is None or row.is_table:
        raise no_such_namespace(namespace)
    return row


def require_table(draft: Draft, table: TableId) -> Row:
    row = draft.get(names.object_id(table))
    if row is None or not row.is_table:
        require_namespace(draft, table[:-1])
        raise no_such_table(table)
    return row


def require_unowned(draft: Draft, row: Row) -> None:
    """Locations are owned once: else dropping one table takes another's bytes away."""
    assert row.location is not None
    owner = draft.owner(row.location)
    if owner is not None and owner != row.object_id:
        raise InvalidInputError(
            f"location '{row.location}' belongs to {names.display(names.split_object_id(owner))}"
        )


def taken(row: Row) -> TiltyardError:
    """The object that exists names the error."""
    if row.is_table:
        return already_exists(row.id)
    return NamespaceAlreadyExistsError(f"namespace {names.display(row.id)} already exists")


def no_such_namespace(namespace: NamespaceId) -> NamespaceNotFoundError:
    return NamespaceNotFoundError(f"there is no namespace {names.display(namespace)}")
