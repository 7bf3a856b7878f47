"""The catalog's own list of the branches of a table, and Lance's branches that are not on it.

A branch is put on the list before Lance makes it, and marked as going before Lance removes it. So a
branch that Lance has and the list has not, or has as going, is what a crash left of a removal, and
may go. Where no list is, or it can't be understood, nothing does. The list is an object of its own,
by the table's location: it works in every mode, and follows the table whatever its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import lance

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES
from tiltyard.clock import Clock
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError, translate
from tiltyard.store import AlreadyThere, Ambiguous, Blob, Changed, NotThere, Store, read_back

FORMAT = 1
MAIN = "main"
TRIES = 20


class Standing(StrEnum):
    """What the list says of a branch."""

    LIVE = "live"
    GOING = "going"


@dataclass(frozen=True, slots=True)
class RemovedBranch:
    """A branch of Lance's that the list does not know; `reason` tells why it stayed, if it did."""

    branch: str
    removed: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _List:
    standing: Mapping[str, Standing]
    blob: Blob | None


class Branches:
    """The lists of branches of one catalog."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def known(self, table: Table) -> Mapping[str, Standing] | None:
        """What the list says, None if there is none. One request."""
        found = self._read(table)
        return None if found.blob is None else found.standing

    def create(
        self, table: Table, name: str, dataset: lance.LanceDataset, make: Callable[[], None]
    ) -> None:
        """Put a branch on the list, then let Lance make it; if that fails it is taken off again.

        The first list of a table takes in what Lance has already.
        """
        existing = set(dataset.branches.list())
        is_new = name not in existing

        def listed(present: _List) -> dict[str, Standing]:
            if present.standing.get(name) is Standing.GOING:
                raise ConcurrentModificationError(
                    f"branch '{name}' of table {names.display(table.id)} is being removed",
                    hint="health.reconcile_branches finishes that",
                )
            before = existing if present.blob is None else ()
            return {**dict.fromkeys(before, Standing.LIVE), **present.standing, name: Standing.LIVE}

        self._change(table, listed)
        try:
            make()
        except Exception:
            if is_new and name not in dataset.branches.list():
                self._forget(table, name)
            raise

    def delete(
        self, table: Table, name: str, dataset: lance.LanceDataset, remove: Callable[[], None]
    ) -> None:
        """Mark a branch as going, let Lance remove it, and take it off the list.

        Once it is marked, a crash leaves what `reconcile` finishes. If Lance refuses, it is live
        again.
        """
        existing = set(dataset.branches.list())
        if name not in existing:  # for Lance to say
            remove()

        def going(present: _List) -> dict[str, Standing]:
            before = existing if present.blob is None else ()
            return {
                **dict.fromkeys(before, Standing.LIVE),
                **present.standing,
                name: Standing.GOING,
            }

        self._change(table, going)
        try:
            remove()
        except Exception:
            if name in dataset.branches.list():
                live = {name: Standing.LIVE}
                self._change(table, lambda present: {**present.standing, **live})
            raise
        self._forget(table, name)

    def orphans(self, table: Table, dataset: lance.LanceDataset) -> list[str]:
        """Lance's branches that the list does not know, or knows as going. None without a list.

        Lance is asked first: what it has then was on the list before.
        """
        existing = dataset.branches.list()
        known = self.known(table)
        if known is None:
            return []
        return sorted(
            name
            for name in existing
            if name != MAIN and known.get(name, Standing.GOING) is Standing.GOING
        )

    def reconcile(
        self, table: Table, dataset: lance.LanceDataset, *, dry_run: bool = False
    ) -> list[RemovedBranch]:
        """Remove Lance's branches that the list does not know. Safe to repeat, and never `main`.

        One that a tag or another branch refers to stays. InvalidTableStateError if the list can't
        be understood: then nothing is removed.
        """
        found = self.orphans(table, dataset)
        if not dry_run:
            for name in set(self.known(table) or ()) - set(dataset.branches.list()):
                self._forget(table, name, only_if=Standing.GOING)
        return [self._removed(table, dataset, name, dry_run=dry_run) for name in found]

    def finish_removals(self, table: Table, dataset: lance.LanceDataset) -> list[RemovedBranch]:
        """Remove branches that the list has as going: what a crash left of a removal.

        Those that it does not know somebody has made past the catalog, and they stay.
        """
        known = self.known(table) or {}
        going = [name for name, how in sorted(known.items()) if how is Standing.GOING]
        existing = dataset.branches.list() if going else ()
        return [
            self._removed(table, dataset, name, dry_run=False) for name in going if name in existing
        ]

    def _removed(
        self, table: Table, dataset: lance.LanceDataset, name: str, *, dry_run: bool
    ) -> RemovedBranch:
        user = _user_of(dataset, name)
        if user is not None:
            return RemovedBranch(name, removed=False, reason=f"{user} refers to it")
        if dry_run:
            return RemovedBranch(name, removed=False)

        def going(present: _List) -> dict[str, Standing]:
            if present.blob is None or present.standing.get(name) is Standing.LIVE:
                raise ConcurrentModificationError(f"branch '{name}' was created meanwhile")
            return {**present.standing, name: Standing.GOING}

        try:
            self._change(table, going)
        except ConcurrentModificationError as lost:
            return RemovedBranch(name, removed=False, reason=lost.message)
        try:
            dataset.branches.delete(name)
        except FAILURES as error:
            if name in dataset.branches.list():
                raise translate(error, f"remove branch '{name}'") from error
        self._forget(table, name)
        return RemovedBranch(name, removed=True)

    # -- the list

    def _forget(self, table: Table, name: str, only_if: Standing | None = None) -> None:
        def without(present: _List) -> dict[str, Standing]:
            if only_if is not None and present.standing.get(name) is not only_if:
                return dict(present.standing)
            return {each: how for each, how in present.standing.items() if each != name}

        self._change(table, without)

    def _change(self, table: Table, following: Callable[[_List], dict[str, Standing]]) -> None:
        """One compare-and-swap; nothing is written if nothing changes."""
        self._store.require_conditions()
        for _ in range(TRIES):
            present = self._read(table)
            wanted = following(present)
            if present.blob is not None and wanted == present.standing:
                return
            body = {
                "format": FORMAT,
                "nonce": self._clock.token(12),
                "branches": {name: how.value for name, how in sorted(wanted.items())},
            }
            try:
                self._put(table, present.blob, json.dumps(body, ensure_ascii=False).encode())
            except (AlreadyThere, Changed, Ambiguous):
                continue
            return
        raise ConcurrentModificationError(
            f"others changed the branches of table {names.display(table.id)} first, {TRIES} times"
        )

    def _put(self, table: Table, present: Blob | None, body: bytes) -> None:
        if present is None:
            read_back.put_new(self._store, key_of(table.location), body)
        else:
            read_back.replace(self._store, key_of(table.location), body, present.tag)

    def _read(self, table: Table) -> _List:
        key = key_of(table.location)
        try:
            blob = self._store.get(key)
        except NotThere:
            return _List({}, None)
        try:
            body: dict[str, Any] = json.loads(blob.body)
            if body["format"] != FORMAT:
                raise ValueError(f"format {body['format']}")
            return _List({name: Standing(how) for name, how in body["branches"].items()}, blob)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidTableStateError(
                f"{key} is not one that this version of tiltyard understands: {error}",
                hint="upgrade tiltyard; the file was left as it is",
            ) from error


def key_of(location: str) -> str:
    return f"{names.BRANCH_LISTS}/{location}.json"


def _user_of(dataset: lance.LanceDataset, name: str) -> str | None:
    for each, of in dataset.branches.list().items():
        if of["parent_branch"] == name:
            return f"branch '{each}'"
    for tag, about in dataset.tags.list().items():
        if about["branch"] == name:
            return f"tag '{tag}'"
    return None
