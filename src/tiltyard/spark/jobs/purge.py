"""`purge`: everything in the trash whose time has come, deleted for good.

The driver claims each table, and what a claim may delete was listed before it. Executors delete it
in bulk requests, versions last. Then the driver notes that nothing is left. Breaking off is safe
anywhere: a table that was claimed stays "purging", and the next run goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from tiltyard import names
from tiltyard.errors import InternalError, TiltyardError, translate
from tiltyard.lifecycle.arbiter import PurgeClaim
from tiltyard.lifecycle.purge import Purge, PurgeOutcome, Receipt
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.choosing import Name, parts_of
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.packing import within
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

# Keys that one unit deletes: ten requests to a bucket.
KEYS = 10_000
# Claims and ends are small requests, and those to a manifest share its commits.
CLAIMING_THREADS = 16

_Key = tuple[names.TableId, str]


@dataclass(frozen=True, slots=True)
class Purged:
    """The receipt of one table, as a row."""

    table: str
    generation: str
    outcome: PurgeOutcome
    deleted_files_count: int
    deleted_bytes_count: int
    at: datetime
    by: str
    location: str
    error: str | None = None

    @classmethod
    def of(cls, receipt: Receipt) -> Purged:
        return cls(
            names.dotted(receipt.id),
            receipt.generation,
            receipt.outcome,
            receipt.objects,
            receipt.bytes,
            receipt.at,
            receipt.by,
            receipt.location,
            receipt.error,
        )


def purge(
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    tables: Sequence[Name] | None = None,
    older_than: datetime | None = None,
    dry_run: bool = False,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Delete dropped tables whose time has come, or that were dropped before `older_than`, or
    exactly the given ones: one row for each, which is its receipt.

    The receipts are kept in the catalog as well, below `__audit/`. `max_bytes` bounds what is
    deleted in this run; the next one goes on from there.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    receipts = run(
        spark,
        opened,
        chosen(opened, tables, older_than),
        dry_run=dry_run,
        max_tasks=max_tasks,
        max_bytes=max_bytes,
        progress=progress,
    )
    return frame(spark, Purged, [Purged.of(each) for each in receipts])


def chosen(
    catalog: DirectoryNamespace, tables: Sequence[Name] | None, older_than: datetime | None = None
) -> list[DroppedTable]:
    """The dropped tables that are meant. TableNotFoundError for one that is not in the trash."""
    if tables is None:
        return catalog.list_purgable_tables(older_than)
    wanted = [names.parse_table_id(parts_of(each)) for each in tables]
    return list(catalog.plan_purge(wanted, with_bytes=False).tables)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    dropped: Sequence[DroppedTable],
    *,
    dry_run: bool = False,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> list[Receipt]:
    """The receipts of the given tables, without those for which `max_bytes` left no room."""
    catalog.context.store.require_conditions()
    weights: list[tuple[int, int]] = fanout.run(
        spark,
        catalog,
        _weigh,
        dropped,
        lambda item, error: (0, 0),  # what is wrong, the purge itself finds and tells
        doing="look at a dropped table",
        max_tasks=max_tasks,
    )
    weighed = dict(zip(map(_key, dropped), weights, strict=True))
    room = within(dropped, lambda each: weighed[_key(each)][1], max_bytes)
    steps = catalog.services.purge
    if dry_run:
        return [steps.planned(each, *weighed[_key(each)]) for each in dropped[:room]]
    work = _Purging(spark, catalog, steps, weighed, max_tasks, progress)
    receipts = work.done(dropped[:room])
    kept = catalog.keep_receipts(receipts)
    if kept is not None:
        log.info("the receipts are in %s", kept)
    return receipts


@dataclass(frozen=True)
class _Doomed:
    """Some keys of a claim, or the whole directory of one that has no list."""

    claimed: PurgeClaim
    keys: tuple[str, ...] | None
    bytes: float

    @property
    def owner(self) -> _Key:
        return _key(self.claimed.dropped)


class _Purging:
    """One run over tables that were chosen."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        steps: Purge,
        weighed: Mapping[_Key, tuple[int, int]],
        max_tasks: int | None,
        progress: Progress | None,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._steps = steps
        self._weighed = weighed
        self._max_tasks = max_tasks
        self._progress = progress

    def done(self, dropped: Sequence[DroppedTable]) -> list[Receipt]:
        claims = _at_once(self._claimed, dropped)
        claimed = [each for each in claims if isinstance(each, PurgeClaim)]
        failures = self._deleted(claimed)

        def ended(claim: PurgeClaim | Receipt) -> Receipt:
            if isinstance(claim, Receipt):
                return claim
            failure = failures.get(_key(claim.dropped))
            if failure is not None:
                return self._steps.refused(claim.dropped, InternalError(failure))
            return self._finished(claim)

        return _at_once(ended, claims)

    def _claimed(self, dropped: DroppedTable) -> PurgeClaim | Receipt:
        if dropped.held:
            return self._steps.held(dropped)
        try:
            return self._steps.claim(dropped)
        except Exception as error:
            return self._steps.refused(dropped, self._ours(error, "claim", dropped))

    def _deleted(self, claimed: Sequence[PurgeClaim]) -> dict[_Key, str]:
        """Delete what the claims have, versions once all else is gone; which failed, and why."""
        first = [share for each in claimed for share in self._shares(each, each.halves()[0])]
        failures = self._fan_out([*first, *(_whole(each) for each in claimed if each.keys is None)])
        last = [
            share
            for each in claimed
            if _key(each.dropped) not in failures
            for share in self._shares(each, each.halves()[1])
        ]
        return failures | self._fan_out(last)

    def _shares(self, claimed: PurgeClaim, keys: tuple[str, ...]) -> list[_Doomed]:
        chunks = [keys[start : start + KEYS] for start in range(0, len(keys), KEYS)]
        # A unit needs no more of the claim than its keys.
        bare = PurgeClaim(claimed.dropped, ())
        return [_Doomed(bare, chunk, len(chunk)) for chunk in chunks]

    def _fan_out(self, shares: Sequence[_Doomed]) -> dict[_Key, str]:
        errors = fanout.run(
            self._spark,
            self._catalog,
            _delete,
            shares,
            lambda share, error: error,
            doing="delete a dropped table",
            weight=lambda share: share.bytes or self._weighed[share.owner][0],
            max_tasks=self._max_tasks,
            progress=self._progress,
        )
        found = zip(shares, errors, strict=True)
        return {share.owner: error for share, error in found if error is not None}

    def _finished(self, claim: PurgeClaim) -> Receipt:
        objects, size = self._weighed[_key(claim.dropped)]
        if claim.keys is not None:
            objects, size = len(claim.keys), claim.bytes
        try:
            return self._steps.finish(claim, objects, size)
        except Exception as error:
            return self._steps.refused(claim.dropped, self._ours(error, "end", claim.dropped))

    def _ours(self, error: Exception, doing: str, dropped: DroppedTable) -> TiltyardError:
        secrets = Settings.from_properties(self._catalog.as_properties()).secrets
        doing = f"{doing} the purge of table {names.display(dropped.id)}"
        return translate(error, doing, secrets)


def _weigh(catalog: DirectoryNamespace, dropped: DroppedTable) -> tuple[int, int]:
    return catalog.services.purge.weigh(dropped)


def _delete(catalog: DirectoryNamespace, share: _Doomed) -> str | None:
    steps = catalog.services.purge
    if share.keys is None:
        steps.delete_directory(share.claimed)
    else:
        steps.delete(share.keys)
    return None


def _whole(claimed: PurgeClaim) -> _Doomed:
    return _Doomed(claimed, None, 0)


def _key(dropped: DroppedTable) -> _Key:
    return dropped.id, dropped.generation


def _at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(CLAIMING_THREADS) as pool:
        return list(pool.map(work, items))
