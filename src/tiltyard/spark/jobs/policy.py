"""`tiltyard.toml`: how tables are looked after, by default, by namespace and by table.

What a table says counts before what its namespaces say, the nearest first, and that before the
defaults, key by key. Whatever is not understood is refused, and nothing is done.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance_namespace as api

from tiltyard import names
from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.maintenance.optimize import OptimizeOptions
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.names import NamespaceId, TableId
from tiltyard.namespace.health import orphan_floor_ms
from tiltyard.settings import duration
from tiltyard.spark.jobs.indexes import request
from tiltyard.spark.jobs.optimize import SPLIT_ABOVE

FILE = "tiltyard.toml"

Table = dict[str, Any]
_Keys = Mapping[str, tuple[type, ...]]

_DURATION = (str, int, float)
_OPTIMIZE: _Keys = {
    "enabled": (bool,),
    "target_rows_per_fragment": (int,),
    "deleted_share": (int, float),
}
_CLEANUP: _Keys = {
    "enabled": (bool,),
    "keep_versions": (int,),
    "older_than": _DURATION,
    "min_age": _DURATION,
    "allow_young": (bool,),
    "allow_below_recovery_floor": (bool,),
}
_RULES: _Keys = {"optimize": (dict,), "cleanup": (dict,), "indexes": (list,)}
_WHOLE: Mapping[str, _Keys] = {
    "recover": {"enabled": (bool,), "older_than": _DURATION},
    "purge": {"enabled": (bool,)},
    "orphans": {
        "enabled": (bool,),
        "older_than": _DURATION,
        "remove": (bool,),
        "even_if_young": (bool,),
    },
    "limits": {"max_tasks": (int,), "max_bytes": (int,), "split_above": (int,)},
}
# Profiles are in the same file, and are for the command line.
_SECTIONS = ("profiles", "defaults", "namespaces", "tables", *_WHOLE)


@dataclass(frozen=True)
class TableRules:
    """How one table is looked after; None where a step leaves it out."""

    optimize: OptimizeOptions | None
    cleanup: CleanupPolicy | None
    indexes: tuple[api.CreateTableIndexRequest, ...] = ()


@dataclass(frozen=True)
class Policy:
    """A policy that was checked. Sections that are missing have their defaults.

    Optimizing, purging what has had its time, recovering and looking for orphans are on unless
    switched off. Versions go, and orphans are removed, only where that was said.
    """

    defaults: Table = field(default_factory=dict)
    namespaces: Mapping[NamespaceId, Table] = field(default_factory=dict)
    tables: Mapping[TableId, Table] = field(default_factory=dict)
    whole: Mapping[str, Table] = field(default_factory=dict)

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
        _known(given, dict.fromkeys(_SECTIONS, (dict,)), "")
        whole = {each: given.get(each, {}) for each in _WHOLE}
        for section, keys in _WHOLE.items():
            _known(whole[section], keys, section)
            if "older_than" in whole[section]:
                _time(whole[section]["older_than"], f"{section}.older_than")
        _at_least_one(whole["limits"])
        orphan_floor_ms(
            whole["orphans"].get("older_than"),
            removes=whole["orphans"].get("remove", False),
            even_if_young=whole["orphans"].get("even_if_young", False),
        )
        policy = cls(
            _checked(given.get("defaults", {}), "defaults"),
            {
                names.parse_namespace_id(names.parse_dotted(name)): _checked(
                    rules, f'namespaces."{name}"'
                )
                for name, rules in given.get("namespaces", {}).items()
            },
            {
                names.parse_table_id(names.parse_dotted(name)): _checked(rules, f'tables."{name}"')
                for name, rules in given.get("tables", {}).items()
            },
            whole,
        )
        for table in (*policy.tables, *((*each, "any") for each in policy.namespaces), ("any",)):
            policy.of(table)
        return policy

    def of(self, table: TableId) -> TableRules:
        """How one table is looked after."""
        merged: Table = {}
        for depth in range(len(table)):
            _add(merged, self.namespaces.get(table[:depth], {}) if depth else self.defaults)
        _add(merged, self.tables.get(table, {}))
        try:
            return TableRules(
                _optimize_options(merged.get("optimize", {})),
                _cleanup_policy(merged.get("cleanup", {})),
                tuple(_index(table, each) for each in merged.get("indexes", ())),
            )
        except TiltyardError as error:
            message = f"what counts for table {names.display(table)}: {error.message}"
            raise InvalidInputError(message, hint=error.hint) from error

    # -- what is about the whole catalog

    def is_on(self, step: str) -> bool:
        return bool(self.whole.get(step, {}).get("enabled", True))

    @property
    def recover_older_than(self) -> str | int | float | None:
        return self.whole.get("recover", {}).get("older_than")

    @property
    def orphans_older_than(self) -> str | int | float | None:
        return self.whole.get("orphans", {}).get("older_than")

    @property
    def removes_orphans(self) -> bool:
        return bool(self.whole.get("orphans", {}).get("remove", False))

    @property
    def removes_young_orphans(self) -> bool:
        return bool(self.whole.get("orphans", {}).get("even_if_young", False))

    @property
    def max_tasks(self) -> int | None:
        return self.whole.get("limits", {}).get("max_tasks")

    @property
    def max_bytes(self) -> int | None:
        return self.whole.get("limits", {}).get("max_bytes")

    @property
    def split_above(self) -> int:
        return int(self.whole.get("limits", {}).get("split_above", SPLIT_ABOVE))


def _checked(rules: Any, where: str) -> Table:
    """The rules of one section, every key of it known and of the right type."""
    if not isinstance(rules, dict):
        raise InvalidInputError(f"{where} has to be a section", hint=f"like [{where}.cleanup]")
    _known(rules, _RULES, where)
    _known(rules.get("optimize", {}), _OPTIMIZE, f"{where}.optimize")
    _known(rules.get("cleanup", {}), _CLEANUP, f"{where}.cleanup")
    for each in rules.get("indexes", ()):
        if not isinstance(each, dict) or not {"column", "type"} <= each.keys():
            raise InvalidInputError(
                f"an index in {where}.indexes needs a column and a type",
                hint='like {column = "id", type = "BTREE"}',
            )
    return rules


def _known(given: Mapping[str, Any], keys: _Keys, where: str) -> None:
    for key, value in given.items():
        full = f"{where}.{key}" if where else key
        if key not in keys:
            close = difflib.get_close_matches(key, keys, n=1)
            there = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(keys)}"
            raise InvalidInputError(f"a policy has no {full!r}", hint=there)
        kinds = keys[key]
        is_flag = isinstance(value, bool)
        if not isinstance(value, kinds) or (is_flag and bool not in kinds):
            wanted = " or ".join(_WORDS[kind] for kind in kinds)
            raise InvalidInputError(f"{full} has to be {wanted}, not {value!r}")


_WORDS: Mapping[type, str] = {
    bool: "true or false",
    dict: "a section",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a text",
}


def _time(value: Any, name: str) -> None:
    if duration(value, name) is None:
        raise InvalidInputError(f"{name} takes a time, not 'never'", hint="like 12h or 7d")


def _at_least_one(limits: Mapping[str, int]) -> None:
    for key, value in limits.items():
        if value < 1:
            raise InvalidInputError(f"limits.{key} must be at least 1")


def _add(merged: Table, rules: Mapping[str, Any]) -> None:
    """Put the rules of a nearer section over others, key by key; a list is replaced."""
    for key, value in rules.items():
        if isinstance(value, dict):
            merged[key] = {**merged.get(key, {}), **value}
        else:
            merged[key] = value


def _optimize_options(rules: Mapping[str, Any]) -> OptimizeOptions | None:
    if not rules.get("enabled", True):
        return None
    return OptimizeOptions(rules.get("target_rows_per_fragment"), rules.get("deleted_share"))


def _cleanup_policy(rules: Mapping[str, Any]) -> CleanupPolicy | None:
    """None where nothing says what to keep."""
    if not rules.get("enabled", True) or not {"keep_versions", "older_than"} & rules.keys():
        return None
    return CleanupPolicy(
        rules.get("keep_versions"),
        rules.get("older_than"),
        rules.get("min_age"),
        rules.get("allow_below_recovery_floor", False),
        rules.get("allow_young", False),
    )


def _index(table: TableId, given: Mapping[str, Any]) -> api.CreateTableIndexRequest:
    options = {key: value for key, value in given.items() if key not in ("column", "type", "name")}
    return request(table, given["column"], given["type"], given.get("name"), options)
