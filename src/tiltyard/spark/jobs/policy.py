"""`tiltyard.toml`: how tables are maintained, by default, by namespace and by table.

What a table says counts before what its namespaces say, the nearest first, and that before the
defaults, key by key. A key has the name and the type of the option of its job, in
`tiltyard.job_options`. Whatever is not understood is refused, and nothing is done.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import lance_namespace as api
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import PydanticCustomError

from tiltyard.catalog import names
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.job_options import (
    LEAST,
    CleanupJob,
    Duration,
    IndexJob,
    JobOptions,
    OptimizeJob,
    OrphansJob,
    PurgeJob,
)
from tiltyard.maintenance.optimize import OptimizeOptions
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.namespace.health import orphan_floor_ms
from tiltyard.settings import duration
from tiltyard.spark.jobs.indexes import request

FILE = "tiltyard.toml"

Keys = Mapping[str, Any]

# -- the sections, as pydantic checks them


def _check_duration(value: Duration | None) -> Duration | None:
    if value is None:
        return None
    try:
        seconds = duration(value)
    except InvalidInputError:
        raise PydanticCustomError(
            "duration", "must be a duration, not {value}", {"value": repr(value)}
        ) from None
    if seconds is None:
        raise PydanticCustomError("duration", "takes a time, not 'never'")
    return value


_Duration = Annotated[Duration | None, AfterValidator(_check_duration)]


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


def _section(job: type[JobOptions], *options: str, **own: Any) -> Any:
    """A section whose keys are options of a job, and own ones."""
    hints = get_type_hints(job)
    least = {option.name: option.metadata.get(LEAST) for option in fields(job)}
    keys: dict[str, Any] = {}
    for name in options:
        kind = _Duration if hints[name] == Duration | None else hints[name]
        keys[name] = (Annotated[kind, Field(ge=least[name])], None)
    return create_model(f"{job.__name__}Section", __base__=_Section, **own, **keys)


_ENABLED = (bool, True)
_Optimize = _section(OptimizeJob, "target_rows_per_fragment", "deleted_share", enabled=_ENABLED)
_Cleanup = _section(
    CleanupJob,
    *("keep_versions", "older_than", "min_age", "allow_young", "allow_below_recovery_floor"),
    enabled=_ENABLED,
)
_Recover = _section(JobOptions, enabled=_ENABLED, older_than=(_Duration, None))
_Purge = _section(PurgeJob, enabled=_ENABLED)
_Orphans = _section(
    OrphansJob, "older_than", "even_if_young", enabled=_ENABLED, remove=(bool, False)
)
_Limits = _section(OptimizeJob, "max_tasks", "max_bytes", "split_above")


class _Index(BaseModel):
    """Other keys are options of the index."""

    model_config = ConfigDict(strict=True, extra="allow")

    column: str
    type: str
    name: str | None = None


_Rules = create_model(
    "Rules",
    __base__=_Section,
    optimize=(_Optimize, None),
    cleanup=(_Cleanup, None),
    indexes=(list[_Index], []),
)
_PolicyFile = create_model(
    "PolicyFile",
    __base__=_Section,
    profiles=(dict[str, Any], {}),  # for the command line
    defaults=(_Rules, None),
    namespaces=(dict[str, _Rules], {}),  # type: ignore[valid-type]
    tables=(dict[str, _Rules], {}),  # type: ignore[valid-type]
    recover=(_Recover, None),
    purge=(_Purge, None),
    orphans=(_Orphans, None),
    limits=(_Limits, None),
)


# -- the policy


@dataclass(frozen=True)
class TableRules:
    """How one table is maintained; None where a step leaves it out."""

    optimize: OptimizeOptions | None
    cleanup: CleanupPolicy | None
    indexes: tuple[api.CreateTableIndexRequest, ...] = ()


@dataclass(frozen=True)
class Policy:
    """A policy that was checked. Sections that are missing have their defaults.

    Optimizing, purging what has expired, recovering and looking for orphans are on unless switched
    off. Versions go, and orphans are removed, only where that was said.
    """

    defaults: Keys = field(default_factory=dict)
    namespaces: Mapping[NamespaceId, Keys] = field(default_factory=dict)
    tables: Mapping[TableId, Keys] = field(default_factory=dict)
    # The sections about the whole catalog, by their names.
    sections: Mapping[str, Keys] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a file. InvalidInputError says what is wrong with it, and where."""
        try:
            return cls.parse(tomllib.loads(Path(path).read_text()))
        except FileNotFoundError as missing:
            raise InvalidInputError(f"there is no policy file {os.fspath(path)!r}") from missing
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"could not read {os.fspath(path)!r}: {error}") from error
        except InvalidInputError as error:
            message = f"{os.fspath(path)}: {error.message}"
            raise InvalidInputError(message, hint=error.hint) from error

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Policy:
        """Check a policy that was read already."""
        try:
            _PolicyFile.model_validate(dict(given))
        except ValidationError as error:
            raise _refusal(error, given) from error
        policy = cls(
            given.get("defaults", {}),
            {
                names.parse_namespace_id(names.parse_dotted(name)): rules
                for name, rules in given.get("namespaces", {}).items()
            },
            {
                names.parse_table_id(names.parse_dotted(name)): rules
                for name, rules in given.get("tables", {}).items()
            },
            {name: given.get(name, {}) for name in ("recover", "purge", "orphans", "limits")},
        )
        orphans = policy.orphans_job()
        orphan_floor_ms(
            orphans.older_than, removes=not orphans.dry_run, even_if_young=orphans.even_if_young
        )
        inside = ((*namespace, "any") for namespace in policy.namespaces)
        for table in (*policy.tables, *inside, ("any",)):
            policy.of(table)
        return policy

    def of(self, table: TableId) -> TableRules:
        """How one table is maintained."""
        merged: dict[str, Any] = {}
        for depth in range(len(table)):
            _add(merged, self.namespaces.get(table[:depth], {}) if depth else self.defaults)
        _add(merged, self.tables.get(table, {}))
        try:
            return TableRules(
                _optimize_options(merged.get("optimize", {})),
                _cleanup_policy(merged.get("cleanup", {})),
                tuple(_index_request(table, index) for index in merged.get("indexes", ())),
            )
        except TiltyardError as error:
            message = f"what counts for table {names.display(table)}: {error.message}"
            raise InvalidInputError(message, hint=error.hint) from error

    # -- the options of the jobs

    def is_on(self, step: str) -> bool:
        return bool(self._section(step).get("enabled", True))

    @property
    def recover_older_than(self) -> Duration | None:
        return self._section("recover").get("older_than")

    @property
    def max_tasks(self) -> int | None:
        return self._section("limits").get("max_tasks")

    def optimize_job(self, **options: Any) -> OptimizeJob:
        return OptimizeJob(**self._section("limits"), **options)

    def cleanup_job(self, **options: Any) -> CleanupJob:
        return CleanupJob(**self._run_limits, **options)

    def purge_job(self, **options: Any) -> PurgeJob:
        return PurgeJob(**self._run_limits, **options)

    def orphans_job(self, *, dry_run: bool = False) -> OrphansJob:
        """Orphans are only looked for unless the policy says `remove`."""
        section = self._section("orphans")
        return OrphansJob(
            older_than=section.get("older_than"),
            even_if_young=section.get("even_if_young", False),
            max_tasks=self.max_tasks,
            dry_run=dry_run or not section.get("remove", False),
        )

    @property
    def _run_limits(self) -> dict[str, Any]:
        limits = self._section("limits")
        return {name: limits.get(name) for name in ("max_tasks", "max_bytes")}

    def _section(self, name: str) -> Keys:
        return self.sections.get(name, {})


def _add(merged: dict[str, Any], rules: Keys) -> None:
    """Put the rules of a nearer section over others, key by key; a list is replaced."""
    for key, value in rules.items():
        if isinstance(value, Mapping):
            merged[key] = {**merged.get(key, {}), **value}
        else:
            merged[key] = value


def _optimize_options(rules: Keys) -> OptimizeOptions | None:
    if not rules.get("enabled", True):
        return None
    return OptimizeOptions(**_without(rules, "enabled"))


def _cleanup_policy(rules: Keys) -> CleanupPolicy | None:
    """None where nothing says what to keep."""
    if not rules.get("enabled", True) or not {"keep_versions", "older_than"} & rules.keys():
        return None
    return CleanupPolicy(**_without(rules, "enabled"))


def _index_request(table: TableId, given: Keys) -> api.CreateTableIndexRequest:
    options = _without(given, "column", "type", "name")
    job = IndexJob(
        column=given["column"], index_type=given["type"], name=given.get("name"), options=options
    )
    return request(table, job)


def _without(keys: Keys, *left_out: str) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key not in left_out}


# -- what is wrong with a file

_TYPES = {
    "bool_type": "true or false",
    "dict_type": "a section",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a section",
    "string_type": "a text",
}


def _refusal(error: ValidationError, given: Mapping[str, Any]) -> InvalidInputError:
    """The first thing that pydantic found wrong, with the path of its key."""
    first, *others = error.errors()
    path = tuple(_keys_of(first["loc"], given))
    where = _shown(path)
    if "indexes" in path and first["type"] in ("missing", "model_type"):
        return InvalidInputError(
            f"an index in {_shown(path[: path.index('indexes') + 1])} needs a column and a type",
            hint='like {column = "id", type = "BTREE"}',
        )
    if first["type"] == "extra_forbidden":
        return _unknown(path)
    if first["type"] == "greater_than_equal":
        return InvalidInputError(f"{where} must be at least {first['ctx']['ge']}")
    if first["type"] in _TYPES:
        at_this_key = [first, *(other for other in others if other["loc"][: len(path)] == path)]
        wanted = [_TYPES[one["type"]] for one in at_this_key if one["type"] in _TYPES]
        return InvalidInputError(f"{where} has to be {' or '.join(wanted)}, not {first['input']!r}")
    hint = "like 12h or 7d" if first["type"] == "duration" else None
    return InvalidInputError(f"{where} {first['msg']}", hint=hint)


def _unknown(path: tuple[str, ...]) -> InvalidInputError:
    model: Any = _PolicyFile
    for key in path[:-1]:
        if key in model.model_fields:  # and not the name of a namespace or table
            kind = model.model_fields[key].annotation
            model = get_args(kind)[-1] if get_args(kind) else kind
    known = list(model.model_fields)
    close = difflib.get_close_matches(path[-1], known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
    return InvalidInputError(f"a policy has no {_shown(path)!r}", hint=hint)


def _shown(path: tuple[str, ...]) -> str:
    """A path as the file has it: names of namespaces and tables are in quotes."""
    quoted = [f'"{key}"' if at == 1 else key for at, key in enumerate(path)]
    return ".".join(quoted if path[0] in ("namespaces", "tables") else path)


def _keys_of(location: tuple[int | str, ...], given: Any) -> Iterator[str]:
    """The keys of a place in a file. Pydantic adds to them which type of several it tried."""
    for step in location:
        if isinstance(given, Mapping) and step in given:
            given = given[step]
            yield str(step)
        elif isinstance(given, list) and isinstance(step, int):
            given = given[step]
        else:
            return
