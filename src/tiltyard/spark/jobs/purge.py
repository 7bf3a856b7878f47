"""`purge`: everything in the trash whose time has come, deleted for good.

The driver claims each table, and what a claim may delete was listed before it. Executors delete it
in bulk requests, versions last. Then the driver notes that nothing is left. Breaking off is safe
anywhere: a table that was claimed stays "purging", and the next run goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.errors import InternalError, TiltyardError, translate
from tiltyard.job_options import PurgeJob
from tiltyard.lifecycle.arbiter import PurgeClaim
from tiltyard.lifecycle.purge import Purge, PurgeOutcome, Receipt
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.job import frame, job, parts_of

log = logging.getLogger(__name__)

# Keys that one unit deletes: ten requests to a bucket.
KEYS_PER_UNIT = 10_000

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


@job(PurgeJob)
def purge(spark: SparkSession, catalog: DirectoryNamespace, options: PurgeJob) -> DataFrame:
    """Delete dropped tables whose time has come, or that were dropped before `older_than`, or
    exactly the given ones: one row for each, which is its receipt.

    The receipts are kept in the catalog as well, below `__audit/`. `max_bytes` bounds what is
    deleted in this run; the next one goes on from there.
    """
    receipts = run(spark, catalog, choose_dropped(catalog, options), options)
    return frame(spark, Purged, [Purged.of(receipt) for receipt in receipts])


def choose_dropped(catalog: DirectoryNamespace, options: PurgeJob) -> list[DroppedTable]:
    """The dropped tables that are meant. TableNotFoundError for one that is not in the trash."""
    if options.tables is None:
        return catalog.list_purgable_tables(options.older_than)
    tables = [names.parse_table_id(parts_of(table)) for table in options.tables]
    return list(catalog.plan_purge(tables, with_bytes=False).tables)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    dropped: Sequence[DroppedTable],
    options: PurgeJob,
) -> list[Receipt]:
    """The receipts of the given tables, without those that are beyond `max_bytes`."""
    catalog.context.store.require_conditions()
    sizes: list[tuple[int, int]] = fanout.run(
        spark,
        catalog,
        _weigh,
        dropped,
        lambda item, error: (0, 0),  # what is wrong, the purge itself finds and tells
        doing="look at a dropped table",
        max_tasks=options.max_tasks,
    )
    weighed = dict(zip(map(_key, dropped), sizes, strict=True))
    count = fanout.within(dropped, lambda table: weighed[_key(table)][1], options.max_bytes)
    steps = catalog.services.purge
    if options.dry_run:
        return [steps.planned(table, *weighed[_key(table)]) for table in dropped[:count]]
    receipts = _PurgeRun(spark, catalog, steps, weighed, options).purge(dropped[:count])
    path = catalog.keep_receipts(receipts)
    if path is not None:
        log.info("the receipts are in %s", path)
    return receipts


@dataclass(frozen=True)
class _DeleteShare:
    """Some keys of a claim, or the whole directory of one that has no list."""

    claimed: PurgeClaim
    keys: tuple[str, ...] | None
    bytes: float

    @property
    def owner(self) -> _Key:
        return _key(self.claimed.dropped)


class _PurgeRun:
    """One run over tables that were chosen."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        steps: Purge,
        weighed: Mapping[_Key, tuple[int, int]],
        options: PurgeJob,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._steps = steps
        self._weighed = weighed
        self._options = options

    def purge(self, dropped: Sequence[DroppedTable]) -> list[Receipt]:
        claims = fanout.run_on_driver(self._claimed, dropped)
        claimed = [claim for claim in claims if isinstance(claim, PurgeClaim)]
        failures = self._deleted(claimed)

        def ended(claim: PurgeClaim | Receipt) -> Receipt:
            if isinstance(claim, Receipt):
                return claim
            failure = failures.get(_key(claim.dropped))
            if failure is not None:
                return self._steps.refused(claim.dropped, InternalError(failure))
            return self._finished(claim)

        return fanout.run_on_driver(ended, claims)

    def _claimed(self, dropped: DroppedTable) -> PurgeClaim | Receipt:
        if dropped.held:
            return self._steps.held(dropped)
        try:
            return self._steps.claim(dropped)
        except Exception as error:
            return self._steps.refused(dropped, self._ours(error, "claim", dropped))

    def _deleted(self, claimed: Sequence[PurgeClaim]) -> dict[_Key, str]:
        """Delete what the claims have, versions once all else is gone; which failed, and why."""
        first = [share for claim in claimed for share in self._shares(claim, claim.halves()[0])]
        whole = [_DeleteShare(claim, None, 0) for claim in claimed if claim.keys is None]
        failures = self._fan_out([*first, *whole])
        last = [
            share
            for claim in claimed
            if _key(claim.dropped) not in failures
            for share in self._shares(claim, claim.halves()[1])
        ]
        return failures | self._fan_out(last)

    def _shares(self, claimed: PurgeClaim, keys: tuple[str, ...]) -> list[_DeleteShare]:
        chunks = [
            keys[start : start + KEYS_PER_UNIT] for start in range(0, len(keys), KEYS_PER_UNIT)
        ]
        # A unit needs no more of the claim than its keys.
        bare = PurgeClaim(claimed.dropped, ())
        return [_DeleteShare(bare, chunk, len(chunk)) for chunk in chunks]

    def _fan_out(self, shares: Sequence[_DeleteShare]) -> dict[_Key, str]:
        errors = fanout.run(
            self._spark,
            self._catalog,
            _delete,
            shares,
            lambda share, error: error,
            doing="delete a dropped table",
            weight=lambda share: share.bytes or self._weighed[share.owner][0],
            max_tasks=self._options.max_tasks,
            progress=self._options.progress,
        )
        answers = zip(shares, errors, strict=True)
        return {share.owner: error for share, error in answers if error is not None}

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


def _delete(catalog: DirectoryNamespace, share: _DeleteShare) -> str | None:
    steps = catalog.services.purge
    if share.keys is None:
        steps.delete_directory(share.claimed)
    else:
        steps.delete(share.keys)
    return None


def _key(dropped: DroppedTable) -> _Key:
    return dropped.id, dropped.generation
