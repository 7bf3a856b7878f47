"""The kinds of maintenance that a page can start. Each makes a plan, and the plan can be applied.

A plan says what would be done, and what is applied is what the plan had: never more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from lance_namespace import DescribeTableRequest

from tiltyard import formatting, names
from tiltyard.console.runs import Column, Progress, Result
from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.lifecycle.purge import PurgePlan
from tiltyard.maintenance.orphan import Orphan
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.names import NamespaceId, TableId
from tiltyard.namespace import DirectoryNamespace

LOOKING_THREADS = 4


@dataclass(frozen=True, slots=True)
class Choices:
    """What somebody chose before a plan."""

    inside: NamespaceId = ()
    keep: int = 10
    older_than: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One kind of maintenance. What `deletes` has to be confirmed."""

    key: str
    title: str
    about: str
    plan: Callable[[DirectoryNamespace, Choices, Progress], Result]
    deletes: bool = True
    asks: Sequence[str] = ()
    by_namespace: bool = True


_TABLE = Column("table", "Table")
_WHY = Column("error", "Why not", formatting.plain)


def _count(name: str, title: str) -> Column:
    return Column(name, title, formatting.number, right=True)


def _size(name: str, title: str = "Size") -> Column:
    return Column(name, title, formatting.size, right=True)


def _with_errors(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[Column]:
    return [*columns, *([_WHY] if any(row.get("error") for row in rows) else [])]


def _progress(note: Progress) -> Callable[[Any, int, int], None]:
    return lambda row, done, total: note(done, total, getattr(row, "table", ""))


# -- optimize


def _plan_optimize(catalog: DirectoryNamespace, choices: Choices, note: Progress) -> Result:
    tables = catalog.maintenance.choose_tables(choices.inside)
    rows = []
    with ThreadPoolExecutor(LOOKING_THREADS) as pool:
        looked = pool.map(lambda table: _shape(catalog, table), tables)
        for done, row in enumerate(looked, 1):
            rows.append(row)
            note(done, len(tables), row["table"])
    going = [row for row in rows if row["fragments"] > 1 or row["deleted"]]
    counted = formatting.counted(len(going), "table")
    said = f"{counted} of {formatting.number(len(rows))} can be made faster."
    columns = [
        _TABLE,
        _count("fragments", "Fragments"),
        _count("rows", "Rows"),
        _count("deleted", "Marked as deleted"),
    ]
    shown = [row for row in rows if row in going or row["error"]]
    chosen = [row["id"] for row in going]
    return Result(
        said,
        _with_errors(columns, shown),
        shown,
        len(going),
        (lambda note: _optimize(catalog, chosen, note)) if going else None,
    )


def _shape(catalog: DirectoryNamespace, table: TableId) -> dict[str, Any]:
    row = {"id": table, "table": names.dotted(table), "fragments": 0, "rows": 0, "deleted": 0}
    request = DescribeTableRequest(id=list(table), load_detailed_metadata=True)
    try:
        found = catalog.describe_table(request)
    except TiltyardError as problem:
        return row | {"error": str(problem)}
    if found.stats is not None:
        row["fragments"] = found.stats.num_fragments
        row["deleted"] = found.stats.num_deleted_rows
        row["rows"] = int((found.metadata or {}).get("total_rows", 0))
    return row | {"error": None}


def _optimize(catalog: DirectoryNamespace, tables: Sequence[TableId], note: Progress) -> Result:
    rows = [
        asdict(each)
        for each in catalog.maintenance.optimize_all_tables(tables=tables, progress=_progress(note))
    ]
    done = [row for row in rows if row["committed"]]
    before, after = sum(r["files_before"] for r in done), sum(r["files_after"] for r in done)
    said = f"Optimized {formatting.counted(len(done), 'table')}"
    said += (
        f": {formatting.number(before)} files became {formatting.number(after)}." if done else "."
    )
    columns = [
        _TABLE,
        _count("files_before", "Files before"),
        _count("files_after", "Files now"),
        _size("bytes_after"),
    ]
    return Result(said, _with_errors(columns, rows), rows)


# -- clean up old versions


def _plan_cleanup(catalog: DirectoryNamespace, choices: Choices, note: Progress) -> Result:
    policy = CleanupPolicy(choices.keep, choices.older_than)
    found = catalog.maintenance.cleanup_all_tables(
        policy, choices.inside, dry_run=True, progress=_progress(note)
    )
    rows = [asdict(each) for each in found if each.error or not each.is_nothing]
    going = [names.parse_dotted(each.table) for each in found if not each.is_nothing]
    if not going:
        return Result("There is nothing to clean up.", _with_errors(_CLEANED, rows), rows)
    return Result(
        f"{_cleaned(rows)} would go.",
        _with_errors(_CLEANED, rows),
        rows,
        len(going),
        lambda note: _cleanup(catalog, policy, going, note),
    )


def _cleanup(
    catalog: DirectoryNamespace,
    policy: CleanupPolicy,
    tables: Sequence[Sequence[str]],
    note: Progress,
) -> Result:
    found = catalog.maintenance.cleanup_all_tables(policy, tables=tables, progress=_progress(note))
    rows = [asdict(each) for each in found]
    return Result(f"Removed {_cleaned(rows)}.", _with_errors(_CLEANED, rows), rows)


_CLEANED = [
    _TABLE,
    _count("versions_removed", "Versions"),
    _count("files_removed", "Files"),
    _size("bytes_removed"),
    _count("versions_kept", "Versions kept"),
]


def _cleaned(rows: Sequence[dict[str, Any]]) -> str:
    versions = formatting.counted(sum(row["versions_removed"] for row in rows), "version")
    files = formatting.counted(sum(row["files_removed"] for row in rows), "file")
    return f"{versions} and {files}, {formatting.size(sum(row['bytes_removed'] for row in rows))}"


# -- empty the trash


def _plan_purge(catalog: DirectoryNamespace, choices: Choices, note: Progress) -> Result:
    whole = catalog.plan_purge()
    inside = choices.inside
    plan = PurgePlan(
        whole.made_at, tuple(each for each in whole.tables if each.id[: len(inside)] == inside)
    )
    columns = [_TABLE, Column("reason", "Reason", formatting.value), _size("bytes")]
    rows = [
        {"table": names.dotted(each.id), "reason": each.reason or "", "bytes": each.bytes or 0}
        for each in plan.tables
    ]
    if not rows:
        return Result("Nothing in the trash has expired.", columns, rows)
    counted = formatting.counted(len(rows), "dropped table")
    said = f"{counted}, {formatting.size(plan.bytes)}, would be deleted for good."
    return Result(said, columns, rows, len(rows), lambda n: _purge(catalog, plan, n))


def _purge(catalog: DirectoryNamespace, plan: PurgePlan, note: Progress) -> Result:
    receipts = catalog.apply_purge(
        plan, lambda receipt, done, total: note(done, total, names.dotted(receipt.id))
    )
    rows = [
        {**asdict(each), "table": names.dotted(each.id), "outcome": each.outcome.value}
        for each in receipts
    ]
    gone = [row for row in rows if row["outcome"] == "purged"]
    size = formatting.size(sum(row["bytes"] for row in gone))
    columns = [_TABLE, Column("outcome", "Outcome"), _count("objects", "Objects"), _size("bytes")]
    return Result(
        f"Purged {formatting.counted(len(gone), 'table')}, {size}.",
        _with_errors(columns, rows),
        rows,
    )


# -- remove orphans


def _plan_orphans(catalog: DirectoryNamespace, choices: Choices, note: Progress) -> Result:
    found = []
    for each in catalog.health.find_orphans():
        found.append(each)
        note(len(found), 0, each.path)
    removable = [each for each in found if each.kind.is_removable]
    rows = [_orphan(each) for each in found]
    if not found:
        return Result("No orphans older than seven days.", _ORPHAN, rows)
    size = formatting.size(sum(each.bytes for each in removable))
    said = f"{formatting.counted(len(removable), 'orphan')}, {size}, would go."
    left = len(found) - len(removable)
    said += f" {formatting.counted(left, 'table')} without a name would stay." if left else ""
    return Result(
        said,
        _ORPHAN,
        rows,
        len(removable),
        (lambda note: _remove(catalog, removable)) if removable else None,
    )


def _remove(catalog: DirectoryNamespace, found: Sequence[Orphan]) -> Result:
    gone = catalog.health.remove_orphans(found)
    size = formatting.size(sum(each.bytes for each in gone))
    said = f"Removed {formatting.counted(len(gone), 'orphan')}, {size}."
    return Result(said, _ORPHAN, [_orphan(each) for each in gone])


_ORPHAN = [Column("path", "Path"), Column("kind", "Kind"), _size("bytes"), Column("why", "Why")]


def _orphan(orphan: Orphan) -> dict[str, Any]:
    return {**asdict(orphan), "kind": orphan.kind.value}


# -- which there are


JOBS = {
    each.key: each
    for each in (
        Job(
            "optimize",
            "Optimize tables",
            "Joins small files, drops rows that are only marked as deleted, and brings new rows "
            "into the indexes. No row changes.",
            _plan_optimize,
            deletes=False,
        ),
        Job(
            "cleanup",
            "Clean up old versions",
            "Deletes versions that nobody keeps, and the files that only they had. The latest, "
            "tagged ones and the bases of branches stay.",
            _plan_cleanup,
            asks=("keep", "older_than"),
        ),
        Job(
            "purge",
            "Empty the trash",
            "Deletes dropped tables for good whose time is over. What is held stays.",
            _plan_purge,
        ),
        Job(
            "orphans",
            "Remove orphans",
            "Deletes files older than seven days that nothing refers to.",
            _plan_orphans,
            by_namespace=False,
        ),
    )
}


def job(key: str) -> Job:
    if key not in JOBS:
        raise InvalidInputError(f"there is no maintenance called {key!r}")
    return JOBS[key]
