"""The catalog's own list of the branches of a table, and Lance's branches that are not on it.

A branch is put on the list before Lance makes it, and marked as going before Lance removes it. So a
branch that Lance has and the list has not, or has as going, is the rest of an interrupted removal,
and may be removed. Without a list, or with one that is not understood, nothing is removed. The list
is an object named by the table's location: it works in every mode, and stays with a renamed table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import lance

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError, translate
from tiltyard.store import AlreadyThere, Ambiguous, Blob, Changed, NotThere, Retry, read_back
from tiltyard.tables.refs import MAIN

FORMAT = 1
# How often a change is made because another process changed the list first.
_SWAPS = Retry(attempts=20, first_pause=0)


class BranchState(StrEnum):
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
class _BranchList:
    """The list of one table as it was read; without a blob there is none."""

    states: Mapping[str, BranchState]
    blob: Blob | None

    def with_branch(
        self, name: str, state: BranchState, existing: set[str]
    ) -> dict[str, BranchState]:
        """The first list of a table also takes in what Lance has already."""
        first = existing if self.blob is None else ()
        return {**dict.fromkeys(first, BranchState.LIVE), **self.states, name: state}


class Branches:
    """The lists of branches of one catalog."""

    def __init__(self, context: CatalogContext) -> None:
        self._store = context.store
        self._clock = context.clock

    def states(self, table: Table) -> Mapping[str, BranchState] | None:
        """What the list of a table says, None if there is none. One request."""
        present = self._read(table)
        return None if present.blob is None else present.states

    def create(
        self, table: Table, name: str, dataset: lance.LanceDataset, make: Callable[[], None]
    ) -> None:
        """Put a branch on the list, then let Lance make it; if that fails it is taken off again."""
        existing = set(dataset.branches.list())
        is_new = name not in existing

        def listed(present: _BranchList) -> dict[str, BranchState]:
            if present.states.get(name) is BranchState.GOING:
                raise ConcurrentModificationError(
                    f"branch '{name}' of table {names.display(table.id)} is being removed",
                    hint="health.reconcile_branches finishes that",
                )
            return present.with_branch(name, BranchState.LIVE, existing)

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

        Once it is marked, `reconcile` finishes what a crash leaves. If Lance refuses, it is live
        again.
        """
        existing = set(dataset.branches.list())
        if name not in existing:
            remove()  # raises Lance's error
        self._change(table, lambda present: present.with_branch(name, BranchState.GOING, existing))
        try:
            remove()
        except Exception:
            if name in dataset.branches.list():
                live = {name: BranchState.LIVE}
                self._change(table, lambda present: {**present.states, **live})
            raise
        self._forget(table, name)

    def orphans(self, table: Table, dataset: lance.LanceDataset) -> list[str]:
        """Lance's branches that the list does not know, or knows as going. None without a list.

        Lance is asked first: every branch that it has then was put on the list before.
        """
        existing = dataset.branches.list()
        states = self.states(table)
        if states is None:
            return []
        return sorted(
            name
            for name in existing
            if name != MAIN and states.get(name, BranchState.GOING) is BranchState.GOING
        )

    def reconcile(
        self, table: Table, dataset: lance.LanceDataset, *, dry_run: bool = False
    ) -> list[RemovedBranch]:
        """Remove Lance's branches that the list does not know. Safe to repeat, and never `main`.

        One that a tag or another branch refers to stays. InvalidTableStateError if the list is not
        understood: then nothing is removed.
        """
        orphans = self.orphans(table, dataset)
        if not dry_run:
            for name in set(self.states(table) or ()) - set(dataset.branches.list()):
                self._forget(table, name, only_if=BranchState.GOING)
        return [self._remove(table, dataset, name, dry_run=dry_run) for name in orphans]

    def finish_removals(self, table: Table, dataset: lance.LanceDataset) -> list[RemovedBranch]:
        """Remove branches that the list has as going: the rest of interrupted removals.

        Those that it does not know were made past the catalog, and stay.
        """
        states = self.states(table) or {}
        going = [name for name, state in sorted(states.items()) if state is BranchState.GOING]
        existing = dataset.branches.list() if going else ()
        return [
            self._remove(table, dataset, name, dry_run=False) for name in going if name in existing
        ]

    def _remove(
        self, table: Table, dataset: lance.LanceDataset, name: str, *, dry_run: bool
    ) -> RemovedBranch:
        user = _user_of(dataset, name)
        if user is not None:
            return RemovedBranch(name, removed=False, reason=f"{user} refers to it")
        if dry_run:
            return RemovedBranch(name, removed=False)

        def going(present: _BranchList) -> dict[str, BranchState]:
            if present.blob is None or present.states.get(name) is BranchState.LIVE:
                raise ConcurrentModificationError(f"branch '{name}' was created meanwhile")
            return {**present.states, name: BranchState.GOING}

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

    def _forget(self, table: Table, name: str, only_if: BranchState | None = None) -> None:
        def without(present: _BranchList) -> dict[str, BranchState]:
            states = dict(present.states)
            if only_if is None or states.get(name) is only_if:
                states.pop(name, None)
            return states

        self._change(table, without)

    def _change(
        self, table: Table, change: Callable[[_BranchList], dict[str, BranchState]]
    ) -> None:
        """Replace the list by one compare-and-swap; nothing is written if nothing changes."""
        self._store.require_conditions()
        for _ in _SWAPS:
            present = self._read(table)
            states = change(present)
            if present.blob is not None and states == present.states:
                return
            body = {
                "format": FORMAT,
                "nonce": self._clock.token(12),
                "branches": {name: state.value for name, state in sorted(states.items())},
            }
            try:
                self._put(table, present.blob, json.dumps(body, ensure_ascii=False).encode())
            except (AlreadyThere, Changed, Ambiguous):
                continue
            return
        raise ConcurrentModificationError(
            f"others changed the branches of table {names.display(table.id)} first, "
            f"{_SWAPS.attempts} times"
        )

    def _put(self, table: Table, present: Blob | None, body: bytes) -> None:
        if present is None:
            read_back.put_new(self._store, _key_of(table.location), body)
        else:
            read_back.replace(self._store, _key_of(table.location), body, present.tag)

    def _read(self, table: Table) -> _BranchList:
        key = _key_of(table.location)
        try:
            blob = self._store.get(key)
        except NotThere:
            return _BranchList({}, None)
        try:
            body: dict[str, Any] = json.loads(blob.body)
            if body["format"] != FORMAT:
                raise ValueError(f"format {body['format']}")
            states = {name: BranchState(state) for name, state in body["branches"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidTableStateError(
                f"{key} is not one that this version of tiltyard understands: {error}",
                hint="upgrade tiltyard; the file was left as it is",
            ) from error
        return _BranchList(states, blob)


def _key_of(location: str) -> str:
    return f"{names.BRANCH_LISTS}/{location}.json"


def _user_of(dataset: lance.LanceDataset, name: str) -> str | None:
    for branch, details in dataset.branches.list().items():
        if details["parent_branch"] == name:
            return f"branch '{branch}'"
    for tag, target in dataset.tags.list().items():
        if target["branch"] == name:
            return f"tag '{tag}'"
    return None
