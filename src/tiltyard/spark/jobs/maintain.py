"""`maintain`: the whole round over a catalog, in the order in which each step helps the next.

Recover, optimize, index, cleanup, purge, orphans; then a report of a few lines. What goes wrong
with a table is in the report, and the round goes on.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tiltyard import formatting
from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.errors import TiltyardError
from tiltyard.lifecycle.purge import PurgeOutcome
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.catalyst.jvm import SPARK_FAILURES
from tiltyard.spark.jobs.cleanup import run as run_cleanup
from tiltyard.spark.jobs.indexes import run_all as run_indexes
from tiltyard.spark.jobs.job import CatalogLike, catalog_of, frame, session_of
from tiltyard.spark.jobs.optimize import run as run_optimize
from tiltyard.spark.jobs.orphans import OrphanAction
from tiltyard.spark.jobs.orphans import run as run_orphans
from tiltyard.spark.jobs.policy import Policy, TableRules
from tiltyard.spark.jobs.purge import choose_dropped
from tiltyard.spark.jobs.purge import run as run_purge

log = logging.getLogger(__name__)

# What goes wrong is told this often for each step; the log has all of it.
MOST_ERRORS = 20

StepProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class MaintainStep:
    """One step of a round: what it looked at, what it changed, what failed, and why.

    `done` says it in words. `bytes` are those that were written again, or deleted.
    """

    step: str
    looked_at: int = 0
    changed: int = 0
    failed: int = 0
    bytes: int = 0
    seconds: float = 0.0
    done: str = ""
    errors: tuple[str, ...] = ()


def maintain(
    catalog: CatalogLike,
    spark: SparkSession | None = None,
    *,
    policy: Policy | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: StepProgress | None = None,
) -> DataFrame:
    """Maintain a whole catalog under one policy: one row for each step.

    `policy` is the path of a `tiltyard.toml`, or what is in one. Without it tables are optimized,
    what has expired in the trash is purged, and orphans are looked for.
    """
    spark, opened = session_of(spark), catalog_of(catalog)
    steps = run(spark, opened, policy_of(policy), dry_run=dry_run, progress=progress)
    return frame(spark, MaintainStep, steps)


def policy_of(given: Policy | Mapping[str, Any] | str | os.PathLike[str] | None) -> Policy:
    """A policy, from whatever it was given as."""
    if isinstance(given, Policy):
        return given
    if given is None or isinstance(given, Mapping):
        return Policy.parse(given or {})
    return Policy.load(given)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    policy: Policy,
    *,
    dry_run: bool = False,
    progress: StepProgress | None = None,
) -> list[MaintainStep]:
    """All steps, in their order. One that is switched off has no row."""
    tables = {table: policy.of(table) for table in catalog.maintenance.choose_tables()}
    for table in policy.tables.keys() - tables.keys():
        log.warning("the policy names table %s, which is not there", names.display(table))
    work = _Steps(spark, catalog, policy, tables, dry_run, progress)
    steps: dict[str, Callable[[], MaintainStep]] = {
        "recover": work.recover,
        "optimize": work.optimize,
        "index": work.index,
        "cleanup": work.cleanup,
        "purge": work.purge,
        "orphans": work.orphans,
    }
    return [_timed(name, step) for name, step in steps.items() if policy.is_on(name)]


def summary(steps: Sequence[MaintainStep], *, dry_run: bool = False) -> str:
    """One sentence about a round."""
    failed = sum(step.failed for step in steps)
    changed = [step.done for step in steps if step.changed]
    said = "; ".join(changed) if changed else "nothing to do"
    seconds = sum(step.seconds for step in steps)
    said = f"{'Would do' if dry_run else 'Done'} in {seconds:.0f} s: {said}"
    return f"{said}. {failed} failed." if failed else f"{said}."


def _timed(name: str, step: Callable[[], MaintainStep]) -> MaintainStep:
    begun = time.monotonic()
    try:
        row = step()
    except (TiltyardError, *SPARK_FAILURES) as error:
        log.warning("%s: %s", name, error)
        row = MaintainStep(name, failed=1, done="failed", errors=(str(error).partition("\n")[0],))
    return replace(row, seconds=time.monotonic() - begun)


class _Steps:
    """The steps of one run."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        policy: Policy,
        tables: Mapping[TableId, TableRules],
        dry_run: bool,
        progress: StepProgress | None,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._policy = policy
        self._tables = tables
        self._dry_run = dry_run
        self._progress = progress

    def recover(self) -> MaintainStep:
        if self._dry_run:
            return MaintainStep("recover", done="not looked at in a dry run")
        rows = self._catalog.health.recover(older_than=self._policy.recover_older_than)
        ended = sum(row.outcome.is_final for row in rows)
        bad = [
            f"operation {row.operation}: {row.detail or row.outcome.value}"
            for row in rows
            if row.outcome in (Resolution.FAILED, Resolution.REFUSED)
        ]
        done = f"{formatting.counted(ended, 'operation')} ended"
        return _step("recover", len(rows), ended, bad, 0, done)

    def optimize(self) -> MaintainStep:
        work = {table: rules.optimize for table, rules in self._tables.items() if rules.optimize}
        options = self._policy.optimize_job(**self._run_options("optimize"))
        rows = run_optimize(self._spark, self._catalog, work, options)
        if not self._dry_run:
            self._catalog.maintenance.optimize_catalog()
        changed = [row for row in rows if row.committed or (self._dry_run and row.bytes_rewritten)]
        before = sum(row.files_before for row in changed)
        after = sum(row.files_after for row in changed)
        done = f"{formatting.counted(len(changed), 'table')} optimized"
        done += "" if self._dry_run else f", {before} files became {after}"
        size = sum(row.bytes_rewritten for row in rows)
        return _step("optimize", len(rows), len(changed), _errors(rows), size, done)

    def index(self) -> MaintainStep:
        requests = [request for rules in self._tables.values() for request in rules.indexes]
        if self._dry_run:
            return MaintainStep("index", len(requests), done="not looked at in a dry run")
        rows = run_indexes(self._spark, self._catalog, requests, self._policy.max_tasks)
        built = sum(row.committed for row in rows)
        done = f"{built} {'index' if built == 1 else 'indexes'} built"
        return _step("index", len(requests), built, _errors(rows), 0, done)

    def cleanup(self) -> MaintainStep:
        work = {table: rules.cleanup for table, rules in self._tables.items() if rules.cleanup}
        options = self._policy.cleanup_job(**self._run_options("cleanup"))
        rows = run_cleanup(self._spark, self._catalog, work, options)
        changed = [row for row in rows if not row.is_nothing]
        versions = sum(row.versions_removed for row in rows)
        files = sum(row.files_removed for row in rows)
        size = sum(row.bytes_removed for row in rows)
        done = (
            f"{formatting.counted(versions, 'version')} and {formatting.counted(files, 'file')} of "
            f"{formatting.counted(len(changed), 'table')} removed"
        )
        return _step("cleanup", len(rows), len(changed), _errors(rows), size, done)

    def purge(self) -> MaintainStep:
        options = self._policy.purge_job(**self._run_options("purge"))
        dropped = choose_dropped(self._catalog, options)
        receipts = run_purge(self._spark, self._catalog, dropped, options)
        purged = [
            row for row in receipts if row.outcome in (PurgeOutcome.PURGED, PurgeOutcome.PLANNED)
        ]
        bad = [
            f"{names.dotted(row.id)}: {row.error}"
            for row in receipts
            if row.outcome is PurgeOutcome.FAILED
        ]
        size = sum(row.bytes for row in purged)
        done = f"{formatting.counted(len(purged), 'table')} purged"
        return _step("purge", len(dropped), len(purged), bad, size, done)

    def orphans(self) -> MaintainStep:
        options = self._policy.orphans_job(dry_run=self._dry_run)
        rows = run_orphans(self._spark, self._catalog, options)
        bad = [f"{row.path}: {row.error}" for row in rows if row.error is not None]
        orphans = [row for row in rows if row.error is None]
        removed = [row for row in orphans if row.action is OrphanAction.REMOVED]
        counted = orphans if options.dry_run else removed
        verb = "found" if options.dry_run else "removed"
        done = f"{formatting.counted(len(counted), 'orphan')} {verb}"
        size = sum(row.bytes for row in counted)
        return _step("orphans", len(orphans), len(removed), bad, size, done)

    def _run_options(self, step: str) -> dict[str, Any]:
        report = self._progress
        return {
            "dry_run": self._dry_run,
            "progress": None if report is None else lambda done, total: report(step, done, total),
        }


def _step(
    name: str, looked_at: int, changed: int, bad: Sequence[str], size: int, done: str
) -> MaintainStep:
    for message in bad:
        log.warning("%s: %s", name, message)
    return MaintainStep(
        name, looked_at, changed, len(bad), size, 0.0, done, tuple(bad[:MOST_ERRORS])
    )


def _errors(rows: Iterable[Any]) -> list[str]:
    return [f"{row.table}: {row.error}" for row in rows if row.error is not None]
