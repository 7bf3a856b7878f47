"""Group commit: concurrent edits share one commit of the manifest, and each gets its own verdict.

Callers queue up; whoever gets the lock next commits for all who are waiting. A lost race is
replayed on the newer snapshot, where every edit decides again.
"""

from __future__ import annotations

import threading
from collections import deque

from tiltyard.catalog.manifest.draft import Change, Draft, Edit
from tiltyard.catalog.manifest.table import ManifestTable
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import ConcurrentModificationError, ThrottlingError, TiltyardError
from tiltyard.store import Retry

LONGEST_QUEUE = 10_000
LARGEST_GROUP = 1_000


class _Ticket:
    """One caller's edit and, once decided, its answer or its error."""

    __slots__ = ("change", "edit", "error")

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self.change: Change | None = None
        self.error: Exception | None = None

    @property
    def decided(self) -> bool:
        return self.change is not None or self.error is not None


class Committer:
    """Turns edits into commits of one manifest."""

    def __init__(self, table: ManifestTable, retry: Retry) -> None:
        self._table = table
        self._retry = retry
        self._queue: deque[_Ticket] = deque()
        self._turn = threading.Lock()

    def submit(self, edit: Edit) -> Change:
        """Commit an edit, alone or with others; returns when it is durable, or raises its error.

        One request to look and three to commit, shared by all members of the group.
        """
        ticket = _Ticket(edit)
        if len(self._queue) >= LONGEST_QUEUE:
            raise ThrottlingError(f"{LONGEST_QUEUE} changes are waiting for the manifest already")
        self._queue.append(ticket)
        with self._turn:
            while not ticket.decided:  # the one before us may have left us for the next group
                self._commit_group()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.change is not None
        return ticket.change

    def _commit_group(self) -> None:
        group = [self._queue.popleft() for _ in range(min(len(self._queue), LARGEST_GROUP))]
        try:
            for attempt in range(self._retry.attempts):
                draft, verdicts = self._draft(group)
                try:
                    if not draft.is_empty:
                        self._table.commit(draft)
                except LostRaceError:
                    self._retry.pause(attempt)
                    continue
                for ticket, verdict in zip(group, verdicts, strict=True):
                    ticket.change = verdict if isinstance(verdict, Change) else None
                    ticket.error = verdict if isinstance(verdict, TiltyardError) else None
                return
            raise ConcurrentModificationError(
                f"others changed the catalog first, {self._retry.attempts} times in a row"
            )
        except (
            BaseException
        ) as error:  # everyone in the group has to hear of it, not its leader only
            for ticket in group:
                ticket.error = error if isinstance(error, Exception) else _interrupted()
            if not isinstance(error, Exception):
                raise

    def _draft(self, group: list[_Ticket]) -> tuple[Draft, list[Change | TiltyardError]]:
        draft = Draft(self._table.read_for_writing())
        verdicts: list[Change | TiltyardError] = []
        for ticket in group:
            try:
                change = ticket.edit(draft)
                draft.apply(change)
                verdicts.append(change)
            except TiltyardError as error:
                verdicts.append(error)
        return draft, verdicts


def _interrupted() -> ConcurrentModificationError:
    return ConcurrentModificationError(
        "the commit was interrupted", hint="it may have happened; look before trying again"
    )
