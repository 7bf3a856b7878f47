"""The options of the jobs over a whole catalog: one dataclass for each job.

`jobs.optimize(...)` takes them as keywords, `tiltyard jobs optimize` as flags, and the policy file
of `maintain` as keys. Names, types, defaults, limits and help texts are written down here alone.
The help of the command line is made from this module, so it imports nothing that takes long.
"""

# ruff: noqa: RUF009 (the functions called in defaults make fields)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

# A table or namespace: dotted, like `prod.users`, or the parts of its id.
Name = str | Sequence[str]
Duration = str | int | float | timedelta
# Called with how many items are done, and how many there are.
JobProgress = Callable[[int, int], None]

FLAG = "flag"
LEAST = "least"

SPLIT_ABOVE = 512 * 1024 * 1024
MOST_REJECTS = 10_000


@dataclass(frozen=True, kw_only=True)
class Flag:
    """How the command line shows an option, if not by its own name."""

    help: str
    name: str | None = None
    metavar: str | None = None
    is_argument: bool = False
    shows_default: bool = False
    # Only where the command has another default than the function.
    command_default: Any = None


def _option(default: Any, help: str, *, least: int | None = None, **shown: Any) -> Any:
    return field(default=default, metadata={FLAG: Flag(help=help, **shown), LEAST: least})


def _pairs(help: str, name: str, metavar: str) -> Any:
    return field(default_factory=dict, metadata={FLAG: Flag(help=help, name=name, metavar=metavar)})


def _limit(default: int) -> Any:
    return field(default=default, metadata={LEAST: 1})


# -- options that several jobs have


def _tables() -> Any:
    return _option(None, "The tables; none means all of them.", metavar="TABLE", is_argument=True)


def _namespace() -> Any:
    return _option(None, "The tables of a namespace only.", name="--in", metavar="NAMESPACE")


def _max_tasks() -> Any:
    return _option(None, "At most so many tasks.", metavar="N", least=1)


def _max_bytes() -> Any:
    return _option(None, "Work on no more than so many bytes.", metavar="N", least=1)


def _dry_run() -> Any:
    return _option(False, "Only tell what would be done.")


def _format(default: str | None) -> Any:
    return _option(default, "parquet, csv, json or arrow.", metavar="NAME")


def _older_than(help: str) -> Any:
    return _option(None, help, metavar="TIME")


@dataclass(frozen=True)
class JobOptions:
    """What the dataclasses below have in common: numbers are checked when one is made."""

    def __post_init__(self) -> None:
        for option in fields(self):
            least, value = option.metadata.get(LEAST), getattr(self, option.name)
            if least is not None and value is not None and value < least:
                raise _invalid(f"{option.name} must be at least {least}")


def _invalid(message: str, hint: str | None = None) -> Exception:
    from tiltyard.errors import InvalidInputError

    return InvalidInputError(message, hint=hint)


# -- tables


@dataclass(frozen=True, kw_only=True)
class OptimizeJob(JobOptions):
    """A table of which more than `split_above` bytes have to be rewritten is compacted in parts by
    all executors. `max_bytes` bounds what is rewritten in this run; the next one goes on."""

    tables: Sequence[Name] | None = _tables()
    namespace: Name | None = _namespace()
    target_rows_per_fragment: int | None = _option(
        None, "Join fragments up to this size.", name="--target-rows", metavar="ROWS"
    )
    deleted_share: float | None = None
    split_above: int = _option(
        SPLIT_ABOVE, "Share out tables above this size.", metavar="BYTES", least=1
    )
    max_tasks: int | None = _max_tasks()
    max_bytes: int | None = _max_bytes()
    dry_run: bool = _dry_run()
    progress: JobProgress | None = None


@dataclass(frozen=True, kw_only=True)
class CleanupJob(JobOptions):
    """The options from `keep_versions` to `branches` are those of `CleanupPolicy`. `max_bytes`
    bounds what is deleted in this run; the next one goes on."""

    tables: Sequence[Name] | None = _tables()
    namespace: Name | None = _namespace()
    keep_versions: int | None = _option(
        None,
        "How many of the newest versions stay.",
        metavar="N",
        command_default=10,
        shows_default=True,
    )
    older_than: Duration | None = _older_than("Only what is older than this, like 7d.")
    min_age: Duration | None = None
    allow_young: bool = False
    allow_below_recovery_floor: bool = False
    branches: bool = False
    max_tasks: int | None = _max_tasks()
    max_bytes: int | None = _max_bytes()
    dry_run: bool = False
    progress: JobProgress | None = None


@dataclass(frozen=True, kw_only=True)
class PurgeJob(JobOptions):
    """Exactly the given `tables`, or those dropped before `older_than`, or else those that have
    expired. `max_bytes` bounds what is deleted in this run; the next one goes on."""

    tables: Sequence[Name] | None = _option(
        None, "Dropped tables; none means what has expired.", metavar="TABLE", is_argument=True
    )
    older_than: datetime | None = None
    max_tasks: int | None = _max_tasks()
    max_bytes: int | None = _max_bytes()
    dry_run: bool = False
    progress: JobProgress | None = None


@dataclass(frozen=True, kw_only=True)
class IndexJob(JobOptions):
    """One `table`; or several by `tables` or `namespace`. `options` are those of
    `CreateTableIndexRequest`, like `num_partitions` or `with_position`."""

    table: Name | None = None
    tables: Sequence[Name] | None = None
    namespace: Name | None = None
    column: str = field(
        metadata={FLAG: Flag(help="The column.", metavar="COLUMN", is_argument=True)}
    )
    index_type: str = _option(
        "BTREE",
        "Like BTREE, INVERTED or IVF_PQ.",
        name="--type",
        metavar="TYPE",
        shows_default=True,
    )
    name: str | None = _option(None, "By default COLUMN_idx.", metavar="NAME")
    options: Mapping[str, Any] = field(default_factory=dict)
    max_tasks: int | None = _max_tasks()
    progress: JobProgress | None = None


# -- files of a catalog


@dataclass(frozen=True, kw_only=True)
class InventoryJob(JobOptions):
    """With `versions` one row for each version in place of one for each table."""

    tables: Sequence[Name] | None = _tables()
    namespace: Name | None = _namespace()
    versions: bool = _option(False, "One row for each version instead.")
    max_tasks: int | None = _max_tasks()
    progress: JobProgress | None = None


@dataclass(frozen=True, kw_only=True)
class OrphansJob(JobOptions):
    """`inventory` is a DataFrame of path, size and modified, in place of a listing."""

    older_than: Duration | None = _older_than("Only what is older; 7d if not said.")
    even_if_young: bool = _option(
        False, "With --apply: also below 7d. Only if nobody writes to the catalog."
    )
    inventory: Any = None
    max_tasks: int | None = _max_tasks()
    dry_run: bool = False
    progress: JobProgress | None = None


@dataclass(frozen=True, kw_only=True)
class MigrateJob(JobOptions):
    max_tasks: int | None = _max_tasks()
    dry_run: bool = _dry_run()
    progress: JobProgress | None = None


# -- files into tables, and back


@dataclass(frozen=True, kw_only=True)
class SourceOptions(JobOptions):
    """How the records of source files become rows of a table.

    `columns` gives columns of the source another name. A column that the source lacks is null with
    `missing="null"`, and one that the table lacks is left out with `extra="ignore"`; "error" keeps
    the file out. Bad records go to the table `rejects`, or to one named like the table with
    `_rejects` at its end; with `max_rejects=0` a file with a bad record stays out.
    """

    format: str | None = _format(None)
    columns: Mapping[str, str] = _pairs(
        "A column's name in the table. May be repeated.", "--column", "OLD=NEW"
    )
    missing: str = _option(
        "null", "Columns that a file lacks.", metavar="null|error", shows_default=True
    )
    extra: str = _option(
        "error", "Columns that the table lacks.", metavar="error|ignore", shows_default=True
    )
    delimiter: str = _option(
        ",", "What is between CSV values.", metavar="CHARACTER", shows_default=True
    )
    rejects: str | None = _option(None, "For bad records; else TABLE_rejects.", metavar="TABLE")
    max_rejects: int = _option(
        MOST_REJECTS, "The most bad records of a file.", metavar="N", least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in (("missing", ("null", "error")), ("extra", ("error", "ignore"))):
            value = getattr(self, name)
            if value not in known:
                raise _invalid(f"{name} can't be {value!r}", f"one of {', '.join(known)}")
        if len(self.delimiter) != 1:
            raise _invalid(f"a delimiter is one character, not {self.delimiter!r}")


@dataclass(frozen=True, kw_only=True)
class IngestJob(JobOptions):
    """`storage` are the options of the sources' bucket, if they are not those of the catalog.
    `again` loads files once more that were loaded before. `max_bytes` is the most that one run
    reads."""

    storage: Mapping[str, str] | None = None
    again: bool = _option(False, "Load files once more that were loaded before.")
    files_per_commit: int = _limit(10_000)
    max_tasks: int | None = _max_tasks()
    max_bytes: int | None = _max_bytes()
    dry_run: bool = _dry_run()
    progress: JobProgress | None = None


@dataclass(frozen=True, kw_only=True)
class ExportJob(JobOptions):
    """A table is read at its latest version, or at the one that `versions` has for its dotted
    name. `storage` are the options of the destination's bucket, if not the catalog's."""

    tables: Sequence[Name] | None = _tables()
    namespace: Name | None = _namespace()
    format: str = _format("parquet")
    versions: Mapping[str, int] = _pairs(
        "A table's version; else the latest.", "--version", "TABLE=N"
    )
    columns: Sequence[str] | None = None
    overwrite: bool = _option(False, "Replace another export of a table.")
    storage: Mapping[str, str] | None = None
    rows_per_file: int = _limit(1024 * 1024)
    max_tasks: int | None = _max_tasks()
    dry_run: bool = _dry_run()
    progress: JobProgress | None = None
