"""An export as it is planned: for each table its version, its folder, and the files to write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from tiltyard import names
from tiltyard.errors import TableAlreadyExistsError, TiltyardError
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs.sources import Format
from tiltyard.store import NotThere, Store
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Piece, Snapshot, Wanted

SUCCESS = "_SUCCESS"
OURS = re.compile(r"part-\d{5}-([0-9a-f]{32})-[0-9a-f]{8}\.\w+")


class Action(StrEnum):
    """What became of a table."""

    EXPORTED = "exported"
    PRESENT = "present"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Exported:
    """One table, at one version, and its files."""

    table: str
    path: str
    action: Action
    version: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Wish:
    """What is the same for all tables of an export."""

    format: Format
    columns: tuple[str, ...] | None
    overwrite: bool

    def record(self, version: int | None) -> dict[str, Any]:
        """What `_SUCCESS` says beside the files."""
        columns = None if self.columns is None else list(self.columns)
        return {"version": version, "format": self.format.value, "columns": columns}


@dataclass(frozen=True)
class Part:
    """One file to be written."""

    snapshot: Snapshot
    piece: Piece
    folder: str
    number: int
    token: str


@dataclass(frozen=True)
class Plan:
    """One table, its row so far, and the files to be written for it."""

    row: Exported
    folder: str
    token: str
    parts: tuple[Part, ...] = ()


def plan_table(
    catalog: DirectoryNamespace,
    store: Store,
    root: str,
    table: TableId,
    version: int | None,
    wanted: Wish,
    rows_per_file: int,
) -> Plan:
    folder = "/".join(quote(part, safe=" ") for part in table)
    row = Exported(names.dotted(table), f"{root}/{folder}", Action.PLANNED, version)
    plan = Plan(row, folder, uuid4().hex)
    try:
        snapshot = catalog.versions.snapshot_table(table, At(version))
        plan = replace(plan, row=replace(row, version=snapshot.at.version))
        there = _record(store, folder)
        if there is not None and _is_same(there, wanted.record(snapshot.at.version)):
            sizes = sum(each["bytes"] for each in there["files"])
            rows, files = there["rows"], len(there["files"])
            done = replace(plan.row, action=Action.PRESENT, rows=rows, files=files, bytes=sizes)
            return replace(plan, row=done)
        _must_be_free(store, folder, plan.row.path, there is not None, wanted.overwrite)
        chosen = Wanted(columns=wanted.columns)
        scan.schema_of(snapshot, chosen)
        count = -(-scan.count(snapshot) // rows_per_file)
        pieces = scan.pieces_of(snapshot, chosen, max(1, count)) or [Piece(())]
        parts = [
            Part(snapshot, each, folder, number, plan.token) for number, each in enumerate(pieces)
        ]
        return replace(plan, parts=tuple(parts))
    except (TiltyardError, OSError, ValueError, RuntimeError) as error:
        return replace(plan, row=replace(plan.row, action=Action.FAILED, error=str(error)))


def _record(store: Store, folder: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(store.get(f"{folder}/{SUCCESS}").body)
    except NotThere:
        return None
    except ValueError:
        return {}
    return found


def _is_same(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return "files" in there and all(there.get(key) == value for key, value in wanted.items())


def _must_be_free(store: Store, folder: str, path: str, is_exported: bool, overwrite: bool) -> None:
    """What is there is left by a run that broke off, or may be overwritten."""
    foreign = [e.name for e in store.list(folder).objects if not OURS.fullmatch(e.name)]
    if overwrite:
        return
    if is_exported:
        raise TableAlreadyExistsError(
            f"{path} holds another export", hint="pass overwrite, or another destination"
        )
    if foreign:
        raise TableAlreadyExistsError(
            f"{path} is not empty: it holds {foreign[0]!r}",
            hint="pass overwrite if it may stay beside the export, or another destination",
        )
