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

from tiltyard import formatting, names
from tiltyard.errors import TiltyardError
from tiltyard.lifecycle.purge import PurgeOutcome
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.catalyst.jvm import SPARK_FAILURES
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.cleanup import run as clean_up
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.indexes import run_all as build
from tiltyard.spark.jobs.optimize import run as sweep
from tiltyard.spark.jobs.orphans import Action
from tiltyard.spark.jobs.orphans import orphans as find_orphans
from tiltyard.spark.jobs.policy import Policy, TableRules
from tiltyard.spark.jobs.purge import chosen
from tiltyard.spark.jobs.purge import run as purge_all
from tiltyard.spark.jobs.results import frame

log = logging.getLogger(__name__)

# What goes wrong is told this often for each step; the log has all of it.
MOST_ERRORS = 20

StepProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Step:
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
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    policy: Policy | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    progress: StepProgress | None = None,
) -> DataFrame:
    """Look after a whole catalog under one policy: one row for each step.

    `policy` is the path of a `tiltyard.toml`, or what is in one. Without it tables are optimized,
    what has had its time in the trash is purged, and orphans are looked for.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    steps = run(spark, opened, policy_of(policy), dry_run=dry_run, progress=progress)
    return frame(spark, Step, steps)


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
) -> list[Step]:
    """All steps, in their order. One that is switched off has no row."""
    tables = {each: policy.of(each) for each in catalog.maintenance.choose_tables()}
    for table in policy.tables.keys() - tables.keys():
        log.warning("the policy names table %s, which is not there", names.display(table))
    made = _Round(spark, catalog, policy, tables, dry_run, progress)
    steps: dict[str, Callable[[], Step]] = {
        "recover": made.recover,
        "optimize": made.optimize,
        "index": made.index,
        "cleanup": made.cleanup,
        "purge": made.purge,
        "orphans": made.orphans,
    }
    return [_timed(name, step) for name, step in steps.items() if policy.is_on(name)]


def summary(steps: Sequence[Step], *, dry_run: bool = False) -> str:
    """One sentence about a round."""
    failed = sum(each.failed for each in steps)
    changed = [each.done for each in steps if each.changed]
    said = "; ".join(changed) if changed else "nothing to do"
    seconds = sum(each.seconds for each in steps)
    said = f"{'Would do' if dry_run else 'Done'} in {seconds:.0f} s: {said}"
    return f"{said}. {failed} failed." if failed else f"{said}."


def _timed(name: str, step: Callable[[], Step]) -> Step:
    begun = time.monotonic()
    try:
        found = step()
    except (TiltyardError, *SPARK_FAILURES) as error:
        log.warning("%s: %s", name, error)
        found = Step(name, failed=1, done="failed", errors=(str(error).partition("\n")[0],))
    return replace(found, seconds=time.monotonic() - begun)


class _Round:
    """The steps of one round."""

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

    def recover(self) -> Step:
        if self._dry_run:
            return Step("recover", done="not looked at in a dry run")
        found = self._catalog.health.recover(older_than=self._policy.recover_older_than)
        ended = sum(each.outcome.is_final for each in found)
        bad = [
            f"operation {each.operation}: {each.detail or each.outcome.value}"
            for each in found
            if each.outcome in (Resolution.FAILED, Resolution.REFUSED)
        ]
        said = f"{formatting.counted(ended, 'operation')} ended"
        return _step("recover", len(found), ended, bad, 0, said)

    def optimize(self) -> Step:
        work = {table: each.optimize for table, each in self._tables.items() if each.optimize}
        rows = sweep(
            self._spark,
            self._catalog,
            work,
            split_above=self._policy.split_above,
            dry_run=self._dry_run,
            **self._limits("optimize"),
        )
        if not self._dry_run:
            self._catalog.maintenance.optimize_catalog()
        changed = [
            each for each in rows if each.committed or (self._dry_run and each.bytes_rewritten)
        ]
        before = sum(each.files_before for each in changed)
        after = sum(each.files_after for each in changed)
        said = f"{formatting.counted(len(changed), 'table')} optimized"
        said += "" if self._dry_run else f", {before} files became {after}"
        size = sum(each.bytes_rewritten for each in rows)
        return _step("optimize", len(rows), len(changed), _errors(rows), size, said)

    def index(self) -> Step:
        wanted = [asked for each in self._tables.values() for asked in each.indexes]
        if self._dry_run:
            return Step("index", len(wanted), done="not looked at in a dry run")
        rows = build(self._spark, self._catalog, wanted, self._policy.max_tasks)
        built = sum(each.committed for each in rows)
        said = f"{built} {'index' if built == 1 else 'indexes'} built"
        return _step("index", len(wanted), built, _errors(rows), 0, said)

    def cleanup(self) -> Step:
        work = {table: each.cleanup for table, each in self._tables.items() if each.cleanup}
        rows = clean_up(
            self._spark, self._catalog, work, dry_run=self._dry_run, **self._limits("cleanup")
        )
        changed = [each for each in rows if not each.is_nothing]
        versions = sum(each.versions_removed for each in rows)
        files = sum(each.files_removed for each in rows)
        size = sum(each.bytes_removed for each in rows)
        said = (
            f"{formatting.counted(versions, 'version')} and {formatting.counted(files, 'file')} of "
            f"{formatting.counted(len(changed), 'table')} removed"
        )
        return _step("cleanup", len(rows), len(changed), _errors(rows), size, said)

    def purge(self) -> Step:
        dropped = chosen(self._catalog, None)
        receipts = purge_all(
            self._spark, self._catalog, dropped, dry_run=self._dry_run, **self._limits("purge")
        )
        gone = [
            each for each in receipts if each.outcome in (PurgeOutcome.PURGED, PurgeOutcome.PLANNED)
        ]
        bad = [
            f"{names.dotted(each.id)}: {each.error}"
            for each in receipts
            if each.outcome is PurgeOutcome.FAILED
        ]
        size = sum(each.bytes for each in gone)
        said = f"{formatting.counted(len(gone), 'table')} purged"
        return _step("purge", len(dropped), len(gone), bad, size, said)

    def orphans(self) -> Step:
        removes = self._policy.removes_orphans and not self._dry_run
        rows = find_orphans(
            self._catalog,
            self._spark,
            older_than=self._policy.orphans_older_than,
            even_if_young=self._policy.removes_young_orphans,
            dry_run=not removes,
            max_tasks=self._policy.max_tasks,
        ).collect()
        bad = [f"{each.path}: {each.error}" for each in rows if each.error is not None]
        found = [each for each in rows if each.error is None]
        gone = [each for each in found if each.action == Action.REMOVED]
        counted = formatting.counted(len(gone) if removes else len(found), "orphan")
        said = f"{counted} {'removed' if removes else 'found'}"
        size = sum(each.bytes for each in (gone if removes else found))
        return _step("orphans", len(found), len(gone), bad, size, said)

    def _limits(self, step: str) -> dict[str, Any]:
        told = self._progress
        return {
            "max_tasks": self._policy.max_tasks,
            "max_bytes": self._policy.max_bytes,
            "progress": None if told is None else lambda done, total: told(step, done, total),
        }


def _step(
    name: str, looked_at: int, changed: int, bad: Sequence[str], size: int, done: str
) -> Step:
    for each in bad:
        log.warning("%s: %s", name, each)
    return Step(name, looked_at, changed, len(bad), size, 0.0, done, tuple(bad[:MOST_ERRORS]))


def _errors(rows: Iterable[Any]) -> list[str]:
    return [f"{each.table}: {each.error}" for each in rows if each.error is not None]
