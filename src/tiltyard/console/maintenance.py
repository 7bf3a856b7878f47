"""Maintenance from the console: each kind makes a plan, and the plan can be applied.

A plan says what would be done, and applying it does that and nothing more. Both are runs in the
background, which a page follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from lance_namespace import DescribeTableRequest
from starlette.responses import Response

from tiltyard import formatting
from tiltyard.catalog import names
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.console.background import Column, ReportProgress, Run, RunQueue, RunResult, Work
from tiltyard.console.page_request import PageNotFound, PageRequest
from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.lifecycle.purge import PurgePlan
from tiltyard.maintenance.orphan_candidates import Orphan
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.namespace import DirectoryNamespace

PLAN_THREADS = 4
MAX_ROWS = 500


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a user chose before a plan."""

    namespace: NamespaceId = ()
    keep_versions: int = 10
    older_than: str | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceJob:
    """One kind of maintenance. If it `deletes`, applying its plan has to be confirmed."""

    key: str
    title: str
    description: str
    plan: Callable[[DirectoryNamespace, PlanOptions, ReportProgress], RunResult]
    deletes: bool = True
    options: Sequence[str] = ()
    by_namespace: bool = True


# -- the pages


class MaintenancePages:
    """The pages about runs, and the queue of the runs."""

    def __init__(self) -> None:
        self._runs = RunQueue()

    async def show(self, request: PageRequest) -> Response:
        jobs = [job for job in JOBS.values() if job.by_namespace or request.sees_all]
        runs = self._runs.recent(request.principal)
        return request.render("maintenance.html", jobs=jobs, runs=runs)

    async def plan(self, request: PageRequest) -> Response:
        """Start a run that makes a plan."""
        job = _job(request.field("job"))
        options = _plan_options(request, job)
        where = f" in {names.dotted(options.namespace)}" if options.namespace else ""
        run = Run(job.key, f"{job.title}{where}", request.principal.name, options.namespace)
        return self._start(request, run, partial(job.plan, request.catalog, options))

    async def apply(self, request: PageRequest) -> Response:
        """Start a run that applies a plan. If it deletes, the user has to type how many."""
        plan = self._get(request)
        result = plan.result
        if not plan.is_plan or result is None or result.apply is None:
            raise InvalidInputError("there is nothing to apply", hint="make a plan first")
        if _job(plan.job).deletes and request.field("typed") != str(result.count):
            raise InvalidInputError(
                "that is not how many they are, so nothing was done", hint=f"type {result.count}"
            )
        run = Run(plan.job, plan.title, request.principal.name, plan.namespace, plan_id=plan.id)
        return self._start(request, run, result.apply)

    async def show_run(self, request: PageRequest) -> Response:
        run = self._get(request)
        rows = list(run.result.rows) if run.result else []
        return request.render(
            "run.html",
            run=run,
            job=_job(run.job),
            rows=rows[:MAX_ROWS],
            left=max(0, len(rows) - MAX_ROWS),
        )

    def _get(self, request: PageRequest) -> Run:
        run = self._runs.get(request.field("id"), request.principal)
        if run is None:
            raise PageNotFound("There is no such run. The server keeps the last ones.")
        return run

    def _start(self, request: PageRequest, run: Run, work: Work) -> Response:
        request.target = run.title
        loop = asyncio.get_running_loop()

        def ended(run: Run) -> None:
            if not run.is_plan:
                loop.call_soon_threadsafe(_record, request, run)

        self._runs.start(run, work, ended)
        return request.redirect("run", id=run.id)


def _record(request: PageRequest, run: Run) -> None:
    """Add what a run did to the audit log."""
    request.record(run.job, run.title, run.error, 200 if run.error is None else 500)


def _plan_options(request: PageRequest, job: MaintenanceJob) -> PlanOptions:
    namespace: NamespaceId = names.parse_namespace_id(names.parse_dotted(request.field("in")))
    request.principal.require_visible(namespace if job.by_namespace else ())
    keep = request.field("keep_versions") or "10"
    if not (keep.isascii() and keep.isdigit() and len(keep) < 10):
        raise InvalidInputError(f"{keep!r} is not a number of versions")
    return PlanOptions(namespace, int(keep), request.field("older_than") or None)


# -- columns of the results

_TABLE = Column("table", "Table")
_ERROR = Column("error", "Why not", formatting.plain)


def _number(name: str, title: str) -> Column:
    return Column(name, title, formatting.number, is_number=True)


def _size(name: str, title: str = "Size") -> Column:
    return Column(name, title, formatting.size, is_number=True)


def _with_errors(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[Column]:
    return [*columns, *([_ERROR] if any(row.get("error") for row in rows) else [])]


def _progress(report: ReportProgress) -> Callable[[Any, int, int], None]:
    return lambda row, done, total: report(done, total, getattr(row, "table", ""))


# -- optimize


def _plan_optimize(
    catalog: DirectoryNamespace, options: PlanOptions, report: ReportProgress
) -> RunResult:
    tables = catalog.maintenance.choose_tables(options.namespace)
    rows = []
    with ThreadPoolExecutor(PLAN_THREADS) as pool:
        for done, row in enumerate(pool.map(partial(_fragments, catalog), tables), 1):
            rows.append(row)
            report(done, len(tables), row["table"])
    to_optimize = [row for row in rows if row["fragments"] > 1 or row["deleted"]]
    count = formatting.counted(len(to_optimize), "table")
    columns = [
        _TABLE,
        _number("fragments", "Fragments"),
        _number("rows", "Rows"),
        _number("deleted", "Marked as deleted"),
    ]
    shown = [row for row in rows if row in to_optimize or row["error"]]
    chosen = [row["id"] for row in to_optimize]
    return RunResult(
        f"{count} of {formatting.number(len(rows))} can be made faster.",
        _with_errors(columns, shown),
        shown,
        len(to_optimize),
        partial(_optimize, catalog, chosen) if to_optimize else None,
    )


def _fragments(catalog: DirectoryNamespace, id: TableId) -> dict[str, Any]:
    row = {"id": id, "table": names.dotted(id), "fragments": 0, "rows": 0, "deleted": 0}
    request = DescribeTableRequest(id=list(id), load_detailed_metadata=True)
    try:
        table = catalog.describe_table(request)
    except TiltyardError as error:
        return row | {"error": str(error)}
    if table.stats is not None:
        row["fragments"] = table.stats.num_fragments
        row["deleted"] = table.stats.num_deleted_rows
        row["rows"] = int((table.metadata or {}).get("total_rows", 0))
    return row | {"error": None}


def _optimize(
    catalog: DirectoryNamespace, tables: Sequence[TableId], report: ReportProgress
) -> RunResult:
    results = catalog.maintenance.optimize_all_tables(tables=tables, progress=_progress(report))
    rows = [asdict(result) for result in results]
    done = [row for row in rows if row["committed"]]
    summary = f"Optimized {formatting.counted(len(done), 'table')}"
    if done:
        before = formatting.number(sum(row["files_before"] for row in done))
        after = formatting.number(sum(row["files_after"] for row in done))
        summary += f": {before} files became {after}"
    columns = [
        _TABLE,
        _number("files_before", "Files before"),
        _number("files_after", "Files now"),
        _size("bytes_after"),
    ]
    return RunResult(f"{summary}.", _with_errors(columns, rows), rows)


# -- clean up old versions

_CLEANUP_COLUMNS = [
    _TABLE,
    _number("versions_removed", "Versions"),
    _number("files_removed", "Files"),
    _size("bytes_removed"),
    _number("versions_kept", "Versions kept"),
]


def _plan_cleanup(
    catalog: DirectoryNamespace, options: PlanOptions, report: ReportProgress
) -> RunResult:
    policy = CleanupPolicy(options.keep_versions, options.older_than)
    results = catalog.maintenance.cleanup_all_tables(
        policy, options.namespace, dry_run=True, progress=_progress(report)
    )
    rows = [asdict(result) for result in results if result.error or not result.is_nothing]
    tables = [names.parse_dotted(result.table) for result in results if not result.is_nothing]
    columns = _with_errors(_CLEANUP_COLUMNS, rows)
    if not tables:
        return RunResult("There is nothing to clean up.", columns, rows)
    apply = partial(_cleanup, catalog, policy, tables)
    return RunResult(f"{_removed(rows)} would go.", columns, rows, len(tables), apply)


def _cleanup(
    catalog: DirectoryNamespace,
    policy: CleanupPolicy,
    tables: Sequence[Sequence[str]],
    report: ReportProgress,
) -> RunResult:
    results = catalog.maintenance.cleanup_all_tables(
        policy, tables=tables, progress=_progress(report)
    )
    rows = [asdict(result) for result in results]
    return RunResult(f"Removed {_removed(rows)}.", _with_errors(_CLEANUP_COLUMNS, rows), rows)


def _removed(rows: Sequence[dict[str, Any]]) -> str:
    versions = formatting.counted(sum(row["versions_removed"] for row in rows), "version")
    files = formatting.counted(sum(row["files_removed"] for row in rows), "file")
    return f"{versions} and {files}, {formatting.size(sum(row['bytes_removed'] for row in rows))}"


# -- empty the trash


def _plan_purge(
    catalog: DirectoryNamespace, options: PlanOptions, report: ReportProgress
) -> RunResult:
    whole, namespace = catalog.plan_purge(), options.namespace
    tables = tuple(table for table in whole.tables if table.id[: len(namespace)] == namespace)
    plan = PurgePlan(whole.made_at, tables)
    columns = [_TABLE, Column("reason", "Reason", formatting.value), _size("bytes")]
    rows = [
        {"table": names.dotted(table.id), "reason": table.reason or "", "bytes": table.bytes or 0}
        for table in tables
    ]
    if not rows:
        return RunResult("Nothing in the trash has expired.", columns, rows)
    count = formatting.counted(len(rows), "dropped table")
    summary = f"{count}, {formatting.size(plan.bytes)}, would be deleted for good."
    return RunResult(summary, columns, rows, len(rows), partial(_purge, catalog, plan))


def _purge(catalog: DirectoryNamespace, plan: PurgePlan, report: ReportProgress) -> RunResult:
    receipts = catalog.apply_purge(
        plan, lambda receipt, done, total: report(done, total, names.dotted(receipt.id))
    )
    rows = [
        {**asdict(receipt), "table": names.dotted(receipt.id), "outcome": receipt.outcome.value}
        for receipt in receipts
    ]
    purged = [row for row in rows if row["outcome"] == "purged"]
    size = formatting.size(sum(row["bytes"] for row in purged))
    columns = [_TABLE, Column("outcome", "Outcome"), _number("objects", "Objects"), _size("bytes")]
    return RunResult(
        f"Purged {formatting.counted(len(purged), 'table')}, {size}.",
        _with_errors(columns, rows),
        rows,
    )


# -- remove orphans

_ORPHAN_COLUMNS = [
    Column("path", "Path"),
    Column("kind", "Kind"),
    _size("bytes"),
    Column("why", "Why"),
]


def _plan_orphans(
    catalog: DirectoryNamespace, options: PlanOptions, report: ReportProgress
) -> RunResult:
    orphans = []
    for orphan in catalog.health.find_orphans():
        orphans.append(orphan)
        report(len(orphans), 0, orphan.path)
    rows = [_orphan_row(orphan) for orphan in orphans]
    if not orphans:
        return RunResult("No orphans older than seven days.", _ORPHAN_COLUMNS, rows)
    removable = [orphan for orphan in orphans if orphan.kind.is_removable]
    size = formatting.size(sum(orphan.bytes for orphan in removable))
    summary = f"{formatting.counted(len(removable), 'orphan')}, {size}, would go."
    if kept := len(orphans) - len(removable):
        summary += f" {formatting.counted(kept, 'table')} without a name would stay."
    apply = partial(_remove_orphans, catalog, removable) if removable else None
    return RunResult(summary, _ORPHAN_COLUMNS, rows, len(removable), apply)


def _remove_orphans(
    catalog: DirectoryNamespace, orphans: Sequence[Orphan], report: ReportProgress
) -> RunResult:
    removed = catalog.health.remove_orphans(orphans)
    size = formatting.size(sum(orphan.bytes for orphan in removed))
    summary = f"Removed {formatting.counted(len(removed), 'orphan')}, {size}."
    return RunResult(summary, _ORPHAN_COLUMNS, [_orphan_row(orphan) for orphan in removed])


def _orphan_row(orphan: Orphan) -> dict[str, Any]:
    return {**asdict(orphan), "kind": orphan.kind.value}


# -- the table

JOBS = {
    job.key: job
    for job in (
        MaintenanceJob(
            "optimize",
            "Optimize tables",
            "Joins small files, drops rows that are only marked as deleted, and brings new rows "
            "into the indexes. No row changes.",
            _plan_optimize,
            deletes=False,
        ),
        MaintenanceJob(
            "cleanup",
            "Clean up old versions",
            "Deletes versions that nobody keeps, and the files that only they had. The latest, "
            "tagged ones and the bases of branches stay.",
            _plan_cleanup,
            options=("keep_versions", "older_than"),
        ),
        MaintenanceJob(
            "purge",
            "Empty the trash",
            "Deletes dropped tables for good whose time is over. What is held stays.",
            _plan_purge,
        ),
        MaintenanceJob(
            "orphans",
            "Remove orphans",
            "Deletes files older than seven days that nothing refers to.",
            _plan_orphans,
            by_namespace=False,
        ),
    )
}


def _job(key: str) -> MaintenanceJob:
    if key not in JOBS:
        raise InvalidInputError(f"there is no maintenance called {key!r}")
    return JOBS[key]
