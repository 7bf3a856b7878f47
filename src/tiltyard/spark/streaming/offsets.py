"""How far a stream has come, and how much of what follows makes a batch. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.tables.changes import AddedRows, Work


@dataclass(frozen=True, order=True)
class Offset:
    """Everything up to `version` has been read, and so many pieces of the next one.

    The first version of the stream is `began`; as a snapshot it stands for all rows that it has.
    Both go along because Spark keeps no start of a first batch: replayed, it asks again where the
    stream begins, and the answer may be another by then.
    """

    version: int
    pieces: int
    began: int
    snapshot: bool
    table: str

    @classmethod
    def beginning(cls, began: int, table: str, *, snapshot: bool = False) -> Offset:
        return cls(began - 1, 0, began, snapshot, table)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Offset:
        try:
            return cls(**given)
        except TypeError:
            raise InvalidInputError(
                f"the checkpoint has no offset of a Lance table but {dict(given)}",
                hint="was it made by a query over another source?",
            ) from None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def at(self, version: int, pieces: int = 0) -> Offset:
        return replace(self, version=version, pieces=pieces)

    def start_of(self, end: Offset) -> Offset:
        """Where a batch that ends at `end` starts, if Spark says that it starts here."""
        if (self.began, self.snapshot) == (end.began, end.snapshot):
            return self
        return Offset.beginning(end.began, end.table, snapshot=end.snapshot)


@dataclass(frozen=True)
class Step:
    """What is to be read of one version, or why the stream can't go past it."""

    version: int
    work: Sequence[Work] = ()
    refusal: TiltyardError | None = None

    @property
    def can_be_cut(self) -> bool:
        """Rows that only came may come in several batches; a change comes in one."""
        return all(isinstance(each, AddedRows) and not each.mixed for each in self.work)


def admit(start: Offset, steps: Sequence[Step], most_rows: int | None = None) -> Offset:
    """The end of a batch of about so many rows, and of one piece at least.

    It ends before a version that the stream can't go past; only one right at the start is raised.
    """
    end, rows = start, 0
    for step in steps:
        if step.refusal is not None:
            if end == start:
                raise step.refusal
            return end
        done = end.pieces
        left = [each.rows for each in step.work[done:]]
        if not step.can_be_cut:
            left = [sum(left)]
        for taken, more in enumerate(left):
            if most_rows is not None and rows and rows + more > most_rows:
                return end.at(step.version - 1, done + taken)
            rows += more
        end = end.at(step.version)
    return end


def between(start: Offset, end: Offset, steps: Sequence[Step]) -> list[Work]:
    """What a batch reads: the steps are those from the version after `start` on."""
    found: list[Work] = []
    for step in steps:
        if step.refusal is not None:
            raise step.refusal
        work = list(step.work)
        if step.version == end.version + 1:
            work = work[: end.pieces]
        if step.version == start.version + 1:
            work = work[start.pieces :]
        found += work
    return found


def shares(work: Sequence[Work], count: int) -> list[tuple[Work, ...]]:
    """Cut work into at most so many shares of about equal numbers of rows, in order."""
    total = sum(each.rows for each in work)
    found: list[list[Work]] = [[]]
    rows = 0
    for each in work:
        if found[-1] and len(found) < count and rows * count >= total * len(found):
            found.append([])
        found[-1].append(each)
        rows += each.rows
    return [tuple(share) for share in found if share]
