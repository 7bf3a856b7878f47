"""Group commit: concurrent edits share one commit of the manifest, and each gets its own verdict.

Callers queue up; one of them commits for all who are waiting and hands over to the next. A lost
race is replayed on the newer snapshot, where every edit decides again. What is to follow a commit
is done by its leader for the whole group, while the next one commits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.catalog.manifest.edits import Edit
from tiltyard.catalog.manifest.table import ManifestTable
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import (
    ConcurrentModificationError,
    ServiceUnavailableError,
    ThrottlingError,
    TiltyardError,
)
from tiltyard.store import Retry

LONGEST_QUEUE = 10_000
LARGEST_GROUP = 1_000
LONGEST_WAIT = 0.005
WAIT_STEP = 0.0002


@dataclass(frozen=True, slots=True)
class Then:
    """What follows a commit: one call of `work` for all of a group who want it.

    It is given the wish of each and the answer of its edit, and returns what to tell instead.
    """

    work: Callable[[Sequence[tuple[Any, Any]]], Sequence[Any]]
    wish: Any


class _Ticket:
    """One caller's edit and, once decided, its answer or its error."""

    __slots__ = ("change", "edit", "error", "signal", "then")

    def __init__(self, edit: Edit, then: Then | None) -> None:
        self.edit = edit
        self.then = then
        self.change: Change | None = None
        self.error: Exception | None = None
        self.signal = threading.Event()

    @property
    def decided(self) -> bool:
        return self.change is not None or self.error is not None

    def conclude(self) -> None:
        """Wake the caller up. An answer for which something was still to be done is none."""
        if self.then is not None and self.error is None:
            self.error = _interrupted()
        self.signal.set()


class Committer:
    """Turns edits into commits of one manifest. One caller at a time leads, the others wait."""

    def __init__(self, table: ManifestTable, retry: Retry) -> None:
        self._table = table
        self._retry = retry
        self._queue: deque[_Ticket] = deque()
        self._lock = threading.Lock()
        self._has_leader = False
        self._expected = 1
        self._last_seconds = 0.0

    def submit(self, edit: Edit, then: Then | None = None) -> Change:
        """Commit an edit, alone or with others; returns when it is durable, or raises its error.

        One request to look and three to commit, shared by all members of the group. What is to be
        done `then` the leader does for all: threads that do it side by side mostly wait for each
        other on a disk, and in a bucket few requests are for many.
        """
        ticket = _Ticket(edit, then)
        with self._lock:
            if len(self._queue) >= LONGEST_QUEUE:
                raise ThrottlingError(f"{LONGEST_QUEUE} changes wait for the manifest already")
            self._queue.append(ticket)
            leads, self._has_leader = not self._has_leader, True
        group: list[_Ticket] = []
        try:
            try:
                if not leads:
                    ticket.signal.wait()  # decided by a leader, or made the next one
                    leads = not ticket.decided
                while not ticket.decided:
                    self._commit_group(group)
            finally:
                self._leave(ticket, leads)
            _follow_up(group)
        finally:
            for each in group:
                each.conclude()
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

    def _commit_group(self, group: list[_Ticket]) -> None:
        """Decide on everyone who waits, who all join the group."""
        members = self._gather()
        group += members
        started = time.monotonic()
        try:
            for _ in self._retry:
                draft, verdicts = self._draft(members)
                try:
                    if not draft.is_empty:
                        self._table.commit(draft)
                except LostRaceError:
                    continue
                for ticket, verdict in zip(members, verdicts, strict=True):
                    ticket.error = verdict if isinstance(verdict, TiltyardError) else None
                    ticket.change = verdict if isinstance(verdict, Change) else None
                self._expected = max(len(members), self._expected // 2)
                self._last_seconds = time.monotonic() - started
                return
            raise ConcurrentModificationError(
                f"others changed the catalog first, {self._retry.attempts} times in a row"
            )
        except BaseException as error:
            _fail(members, error)

    def _draft(self, group: list[_Ticket]) -> tuple[Draft, list[Change | TiltyardError]]:
        draft = Draft(self._table.read_for_writing())
        verdicts: list[Change | TiltyardError] = []
        for ticket in group:
            try:
                change = ticket.edit.apply(draft)
                draft.apply(change)
                verdicts.append(change)
            except TiltyardError as error:
                verdicts.append(error)
        return draft, verdicts


def _follow_up(group: Sequence[_Ticket]) -> None:
    """Do what is to follow for those who were let in."""
    wanting: dict[Callable[..., Sequence[Any]], list[tuple[_Ticket, Any, Change]]] = {}
    for ticket in group:
        if ticket.then is not None and ticket.change is not None:
            wanted = (ticket, ticket.then.wish, ticket.change)
            wanting.setdefault(ticket.then.work, []).append(wanted)
    for work, members in wanting.items():
        try:
            told = work([(wish, change.answer) for _, wish, change in members])
            for (ticket, _, change), answer in zip(members, told, strict=True):
                ticket.change, ticket.then = replace(change, answer=answer), None
        except BaseException as error:
            _fail([ticket for ticket, _, _ in members], error)


def _fail(tickets: Sequence[_Ticket], error: BaseException) -> None:
    """All of them have to hear of it, not only the leader."""
    for ticket in tickets:
        ticket.error = error if isinstance(error, Exception) else _interrupted()
    if not isinstance(error, Exception):
        raise error


def _interrupted() -> ServiceUnavailableError:
    """No refusal: whoever takes it for one would do again what may have happened."""
    return ServiceUnavailableError(
        "the commit was interrupted", hint="it may have happened; look before trying again"
    )
