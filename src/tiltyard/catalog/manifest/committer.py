"""Group commit: concurrent edits share one commit of the manifest, and each has its own outcome.

Callers queue up; one of them, the leader, commits for all who are waiting, and then the first of
those who wait leads. After a lost race all edits are applied to the newer snapshot, where each may
be refused. What follows a commit is done by its leader for the whole group, while the next group
commits.
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

LARGEST_GROUP = 1_000
LONGEST_WAIT = 0.005
WAIT_STEP = 0.0002


@dataclass(frozen=True, slots=True)
class Then:
    """What follows a commit, in this process: one call of `run` for all members of a group.

    It is given the `argument` of each and the answer of its edit, and returns the new answers.
    """

    run: Callable[[Sequence[tuple[Any, Any]]], Sequence[Any]]
    argument: Any


class _Submission:
    """One caller's edit and, once it is decided, its change or its error."""

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
        """Wake the caller. Without what was to follow, its outcome is unknown."""
        if self.then is not None and self.error is None:
            self.error = _interrupted()
        self.signal.set()


class Committer:
    """Commits edits to one manifest. One caller at a time leads, the others wait."""

    def __init__(self, table: ManifestTable, retry: Retry, *, longest_queue: int = 10_000) -> None:
        self._table = table
        self._retry = retry
        self._longest_queue = longest_queue
        self._queue: deque[_Submission] = deque()
        self._lock = threading.Lock()
        self._has_leader = False
        self._expected = 1
        self._last_seconds = 0.0

    @property
    def waiting(self) -> int:
        """How many submissions no leader has taken yet."""
        return len(self._queue)

    def submit(self, edit: Edit, then: Then | None = None) -> Change:
        """Commit an edit, alone or with others; returns when it is durable, or raises its error.

        One request to read and three to commit, shared by all members of the group. The leader
        does what is to follow `then` for all: on a disk, threads that do it at the same time mostly
        wait for each other, and in a bucket few requests serve many.
        """
        submission = _Submission(edit, then)
        with self._lock:
            if self.waiting >= self._longest_queue:
                raise ThrottlingError(f"{self.waiting} changes wait for the manifest already")
            self._queue.append(submission)
            leads, self._has_leader = not self._has_leader, True
        group: list[_Submission] = []
        try:
            try:
                if not leads:
                    submission.signal.wait()  # decided by a leader, or made the next one
                    leads = not submission.decided
                while not submission.decided:
                    self._commit_group(group)
            finally:
                self._leave(submission, leads)
            _follow_up(group)
        finally:
            for member in group:
                member.conclude()
        if submission.error is not None:
            raise submission.error
        assert submission.change is not None
        return submission.change

    def _leave(self, submission: _Submission, leads: bool) -> None:
        """Let the first who waits lead, if anyone does; also when interrupted."""
        with self._lock:
            if not submission.decided and submission in self._queue:
                self._queue.remove(submission)
                leads = leads or submission.signal.is_set()
            if leads:
                self._has_leader = bool(self._queue)
                if self._queue:
                    self._queue[0].signal.set()

    def _gather(self) -> list[_Submission]:
        """All submissions that wait. Callers of the last group mostly submit again, so a leader
        waits for as many, but not for long. A caller that is alone soon expects nobody."""
        deadline = time.monotonic() + min(LONGEST_WAIT, self._last_seconds)
        while self.waiting < self._expected and time.monotonic() < deadline:
            time.sleep(WAIT_STEP)
        return [self._queue.popleft() for _ in range(min(self.waiting, LARGEST_GROUP))]

    def _commit_group(self, group: list[_Submission]) -> None:
        """Decide about all submissions that wait. They join the group."""
        members = self._gather()
        group += members
        started = time.monotonic()
        try:
            outcomes = self._commit([submission.edit for submission in members])
            for submission, outcome in zip(members, outcomes, strict=True):
                submission.error = outcome if isinstance(outcome, TiltyardError) else None
                submission.change = outcome if isinstance(outcome, Change) else None
            self._expected = max(len(members), self._expected // 2)
            self._last_seconds = time.monotonic() - started
        except BaseException as error:
            _fail(members, error)

    def _commit(self, edits: Sequence[Edit]) -> list[Change | TiltyardError]:
        """Commit what is not refused of some edits; the change or the refusal of each."""

        def attempt() -> list[Change | TiltyardError]:
            draft = Draft(self._table.read_for_writing())
            outcomes = [_apply(edit, draft) for edit in edits]
            if not draft.is_empty:
                self._table.commit(draft)
            return outcomes

        try:
            return self._retry.on(LostRaceError, attempt)
        except LostRaceError as lost:
            raise ConcurrentModificationError(
                f"others changed the catalog first, {self._retry.attempts} times in a row"
            ) from lost


def _apply(edit: Edit, draft: Draft) -> Change | TiltyardError:
    try:
        change = edit.apply(draft)
    except TiltyardError as refusal:
        return refusal
    draft.apply(change)
    return change


def _follow_up(group: Sequence[_Submission]) -> None:
    """Do what follows, for those whose edits were committed."""
    following: dict[Callable[..., Sequence[Any]], list[tuple[_Submission, Any, Change]]] = {}
    for submission in group:
        then, change = submission.then, submission.change
        if then is not None and change is not None:
            following.setdefault(then.run, []).append((submission, then.argument, change))
    for run, members in following.items():
        try:
            answers = run([(argument, change.answer) for _, argument, change in members])
            for (submission, _, change), answer in zip(members, answers, strict=True):
                submission.change, submission.then = replace(change, answer=answer), None
        except BaseException as error:
            _fail([submission for submission, _, _ in members], error)


def _fail(submissions: Sequence[_Submission], error: BaseException) -> None:
    """Give all members the error, not only the leader."""
    for submission in submissions:
        submission.error = error if isinstance(error, Exception) else _interrupted()
    if not isinstance(error, Exception):
        raise error


def _interrupted() -> ServiceUnavailableError:
    """Not a refusal: after one, a caller would do again what may have happened."""
    return ServiceUnavailableError(
        "the commit was interrupted", hint="it may have happened; look before trying again"
    )
