"""What a paused actor still knows: the variables of its frames, as a value that can be compared.

Two histories that leave an actor at the same instruction with the same variables have the same
future, so the explorer treats them as one position. A variable of a kind that is not known here is
only equal to itself: then positions are kept apart, which costs time and hides nothing. How far a
loop has come is told by its variable, so the explorer wants loops to have one; `test_merging`
compares searches with and without this.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Hashable
from threading import Lock
from types import FrameType, FunctionType, MethodType
from typing import Any

from pydantic import BaseModel

from tests.simulation.datasets import TwinLance
from tests.simulation.files import PlainFiles
from tests.simulation.register import Register, Rows
from tests.simulation.store import ScheduledStore
from tiltyard.catalog.boundary import Boundary
from tiltyard.catalog.compatible import CompatibleCatalog
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.committer import Committer, _Submission
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.table import NoManifestTable
from tiltyard.clock import Clock
from tiltyard.lifecycle.arbiter import Arbiters
from tiltyard.lifecycle.creation import Creation
from tiltyard.lifecycle.marker_arbiter import MarkerArbiter
from tiltyard.lifecycle.purge import Purge
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.lifecycle.renames import Renames
from tiltyard.lifecycle.row_arbiter import RowArbiter
from tiltyard.lifecycle.tables import TableLifecycle
from tiltyard.lifecycle.trash import TrashReader
from tiltyard.lifecycle.writing import Writing
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.recovery import BatchCommits, Recovery
from tiltyard.namespace.access import CommitClients, TableAccess
from tiltyard.store import Retry
from tiltyard.versions.base import Refusals
from tiltyard.versions.branches import Branches
from tiltyard.versions.commit_client import CommitClient
from tiltyard.versions.drift import Drifts
from tiltyard.versions.file_versions import FileVersions
from tiltyard.versions.management import Management
from tiltyard.versions.references import References
from tiltyard.versions.row_versions import RowVersions
from tiltyard.versions.table_versions import TableVersions

# What an actor is made of: the same objects for its whole life, without a memory of their own. The
# committer's guesses about time and company do not matter to one who commits alone.
_SEAM = ("_ask", "_answer")
_PARTS = (
    PlainFiles,
    Register,
    ScheduledStore,
    CatalogContext,
    CompatibleCatalog,
    DirectoryCatalog,
    ManifestCatalog,
    NoManifestTable,
    Committer,
    Arbiters,
    MarkerArbiter,
    RowArbiter,
    Recreation,
    Renames,
    TrashReader,
    TableLifecycle,
    Creation,
    Writing,
    Purge,
    Retry,
    Clock,
    TwinLance,
    BatchCommits,
    CommitClients,
    MaintenanceContext,
    Recovery,
    TableAccess,
    Branches,
    Drifts,
    FileVersions,
    Management,
    References,
    RowVersions,
    TableVersions,
    type(Lock()),
)
# What remembers something: a value by what it has in its variables.
_REMEMBERS = (Boundary, CommitClient, Refusals)


def position(frame: FrameType | None) -> Hashable:
    """Where a paused actor is: the frames between the request and the operation's first."""
    frames = []
    while frame is not None and frame.f_code.co_name != "_judged":
        if frame.f_code.co_name in _SEAM:
            frame = frame.f_back
            continue
        known = frame.f_locals
        variables = tuple((name, _value(known[name])) for name in sorted(known))
        frames.append((frame.f_code, frame.f_lasti, variables))
        frame = frame.f_back
    return tuple(frames)


def memory(part: object) -> Hashable:
    """What a part of an actor has in its variables."""
    return (type(part), _value(vars(part)))


@functools.cache
def _is_part(kind: type) -> bool:
    return issubclass(kind, _PARTS) or hasattr(kind, "has_no_memory")


def _value(given: Any) -> Hashable:
    if given is None or isinstance(given, str | bytes | bool | int | float | type):
        return (type(given), given)
    if _is_part(type(given)):
        return type(given)
    if isinstance(given, tuple | list | deque):
        return (type(given), tuple(map(_value, given)))
    if isinstance(given, set | frozenset):
        return frozenset(map(_value, given))
    if isinstance(given, dict):
        return tuple(sorted(((str(key), _value(value)) for key, value in given.items()), key=str))
    if dataclasses.is_dataclass(given):
        return repr(given)  # values through and through
    if isinstance(given, BaseException):
        return (type(given), _value(given.args))
    if isinstance(given, functools.partial):
        return (_value(given.func), _value(given.args), _value(given.keywords))
    if isinstance(given, FunctionType):
        cells = [cell.cell_contents for cell in given.__closure__ or ()]
        defaults = given.__defaults__ or ()
        return (given.__code__, tuple(map(_value, cells)), tuple(map(_value, defaults)))
    if isinstance(given, MethodType):
        return (given.__func__, _value(given.__self__))
    if isinstance(given, _REMEMBERS):
        return memory(given)
    if isinstance(given, BaseModel):
        return repr(given)
    if isinstance(given, Rows):
        return (Rows, given.version, _value(given.tag))
    if isinstance(given, Draft):
        return (Draft, _value(given.base), _value(given.added), _value(given.removed))
    if isinstance(given, _Submission):
        return (_Submission, _value(given.edit), _value(given.change), _value(given.error))
    return _Itself(given)


class _Itself:
    """Keeps what it stands for alive, so that no other can take its identity."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._given is other._given

    def __hash__(self) -> int:
        return id(self._given)
