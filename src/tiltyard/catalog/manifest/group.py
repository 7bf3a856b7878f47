"""Group commit: concurrent edits share one commit of the manifest, and each gets its own verdict.

Callers queue up; one of them commits for all who are waiting and hands over to the next. A lost
race is replayed on the newer snapshot, where every edit decides again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence

from tiltyard.catalog.manifest.draft import Change, Draft, Edit
from tiltyard.catalog.manifest.table import ManifestTable
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import (
    ConcurrentModificationError,
    ServiceUnavailableError,
    ThrottlingError,
    TiltyardError,
)
from tiltyard.store import Retry, Store

LONGEST_QUEUE = 10_000
LARGEST_GROUP = 1_000
LONGEST_WAIT = 0.005
WAIT_STEP = 0.0002


class _Ticket:
    """One caller's edit and, once decided, its answer or its error."""

    __slots__ = ("change", "edit", "error", "signal", "then")

    def __init__(self, edit: Edit, then: Mapping[str, bytes]) -> None:
        self.edit = edit
        self.then = then
        self.change: Change | None = None
        self.error: Exception | None = None
        self.signal = threading.Event()

    @property
    def decided(self) -> bool:
        return self.change is not None or self.error is not None


class Committer:
    """Turns edits into commits of one manifest. One caller at a time leads, the others wait."""

    def __init__(self, table: ManifestTable, store: Store, retry: Retry) -> None:
        self._table = table
        self._store = store
        self._retry = retry
        self._queue: deque[_Ticket] = deque()
        self._lock = threading.Lock()
        self._has_leader = False
        self._expected = 1
        self._last_seconds = 0.0

    def submit(self, edit: Edit, then: Mapping[str, bytes] | None = None) -> Change:
        """Commit an edit, alone or with others; returns when it is durable, or raises its error.

        One request to look and three to commit, shared by all members of the group. Objects that
        are to be there `then` are written by the leader for all: on a disk, threads that write side
        by side mostly wait for each other.
        """
        ticket = _Ticket(edit, then or {})
        with self._lock:
            if len(self._queue) >= LONGEST_QUEUE:
                raise ThrottlingError(f"{LONGEST_QUEUE} changes wait for the manifest already")
            self._queue.append(ticket)
            leads, self._has_leader = not self._has_leader, True
        try:
            if not leads:
                ticket.signal.wait()  # decided by a leader, or made the next one
                leads = not ticket.decided
            while not ticket.decided:
                self._commit_group()
        finally:
            self._leave(ticket, leads)
        if ticket.error is not None:
            raise ticket.error
        assert ticket.change is not None
        return ticket.change

    def _leave(self, ticket: _Ticket, leads: bool) -> None:
        """Hand over to the first who still waits, if anyone does; also when interrupted."""
        with self._lock:
            if not ticket.decided and ticket in self._queue:
                self._queue.remove(ticket)
                leads = leads or ticket.signal.is_set()
            if leads:
                self._has_leader = bool(self._queue)
                if self._queue:
                    self._queue[0].signal.set()

    def _gather(self) -> list[_Ticket]:
        """Everyone who waits. Those of the last groups are on their way back as a rule, so give
        them a moment; whoever is alone soon waits for nobody."""
        patience = time.monotonic() + min(LONGEST_WAIT, self._last_seconds)
        while len(self._queue) < self._expected and time.monotonic() < patience:
            time.sleep(WAIT_STEP)
        return [self._queue.popleft() for _ in range(min(len(self._queue), LARGEST_GROUP))]

    def _commit_group(self) -> None:
        group = self._gather()
        started = time.monotonic()
        try:
            for attempt in range(self._retry.attempts):
                draft, verdicts = self._draft(group)
                try:
                    if not draft.is_empty:
                        self._table.commit(draft)
                except LostRaceError:
                    self._retry.pause(attempt)
                    continue
                self._store.put_many(_following(group, verdicts))
                for ticket, verdict in zip(group, verdicts, strict=True):
                    ticket.change = verdict if isinstance(verdict, Change) else None
                    ticket.error = verdict if isinstance(verdict, TiltyardError) else None
                    ticket.signal.set()
                self._expected = max(len(group), self._expected // 2)
                self._last_seconds = time.monotonic() - started
                return
            raise ConcurrentModificationError(
                f"others changed the catalog first, {self._retry.attempts} times in a row"
            )
        except BaseException as error:
            for ticket in group:  # all of them have to hear of it, not only the leader
                ticket.error = error if isinstance(error, Exception) else _interrupted()
                ticket.signal.set()
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


def _following(
    group: Sequence[_Ticket], verdicts: Sequence[Change | TiltyardError]
) -> dict[str, bytes]:
    """What those who were let in want to be there afterwards."""
    return {
        key: body
        for ticket, verdict in zip(group, verdicts, strict=True)
        if isinstance(verdict, Change)
        for key, body in ticket.then.items()
    }


def _interrupted() -> ServiceUnavailableError:
    """No refusal: whoever takes it for one would do again what may have happened."""
    return ServiceUnavailableError(
        "the commit was interrupted", hint="it may have happened; look before trying again"
    )
