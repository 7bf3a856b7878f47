"""What actors do: the operations of `lifecycle`, and two clients that do not know it.

An actor is built of the real classes over the scheduled store, the twins of Lance's files and of
the manifest, and a clock of its own: a clock that may go wrong, and names that only it can choose.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.simulation.files import PlainFiles
from tests.simulation.process import Ask, Build, Operation
from tests.simulation.register import Register
from tests.simulation.store import ScheduledStore
from tests.simulation.views import OTHER, TABLE, UNAWARE
from tiltyard import names
from tiltyard.catalog.base import CreateMode, Table, no_such_table
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.committer import Committer
from tiltyard.clock import Clock
from tiltyard.errors import TiltyardError, translate
from tiltyard.lifecycle.creation import Creation
from tiltyard.lifecycle.marker_purge import MarkerPurge
from tiltyard.lifecycle.markers import Markers
from tiltyard.lifecycle.moves import Moves
from tiltyard.lifecycle.purge import Purge
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.lifecycle.registration import Registrar, Registration
from tiltyard.lifecycle.tables import TableLifecycle
from tiltyard.lifecycle.trash import DropTerms
from tiltyard.lifecycle.writing import WriteMode, Writing
from tiltyard.store import Ambiguous, Retry
from tiltyard.versions.file_versions import FileVersions
from tiltyard.versions.references import References
from tiltyard.versions.row_versions import RowVersions

EPOCH_MS = 1_700_000_000_000
LOCATION = names.table_directory(TABLE)
TERMS = DropTerms(ttl_ms=1_000, by="actor")
NO_WAIT = Retry(attempts=4, sleep=lambda _: None, dice=lambda: 0.5)


class Tokens:
    """Names that only one actor chooses: its letter first, so that a trace tells whose they are."""

    def __init__(self, letter: str) -> None:
        self.used = 0
        self._letter = letter

    def __call__(self, digits: int) -> str:
        self.used += 1
        return f"{self._letter}{self.used:0{digits - 1}x}"


@dataclass(frozen=True)
class Code:
    """Which classes actors are made of. A mutant puts another in the place of one."""

    markers: type[Markers] = Markers
    recreation: type[Recreation] = Recreation
    marker_purge: type[MarkerPurge] = MarkerPurge
    files: type[PlainFiles] = PlainFiles
    moves: type[Moves] = Moves
    manifest: type[ManifestCatalog] = ManifestCatalog
    purge: type[Purge] = Purge
    tokens: Callable[[str], Tokens] = Tokens
    file_versions: type[FileVersions] = FileVersions
    row_versions: type[RowVersions] = RowVersions
    references: type[References] = References


class Kit:
    """Everything one actor works with. Only the count of its tokens changes."""

    has_no_memory = True

    def __init__(self, letter: str, ask: Ask, code: Code, skew_ms: int = 0) -> None:
        self.letter = letter
        self.store = ScheduledStore(ask)
        self.tokens = code.tokens(letter)
        self.clock = Clock(lambda: EPOCH_MS + skew_ms, self.tokens)
        self.files = code.files(self.store, self.clock)
        self.recreation = code.recreation(self.store, self.clock, self.files, patience_ms=0)
        self.markers = code.markers(self.store, self.clock, self.recreation)
        self.marker_purge = code.marker_purge(self.store, self.clock, self.recreation)
        self.directory = DirectoryCatalog(self.store, self.clock)
        register: Any = Register(self.store, self.clock)
        self.manifest = code.manifest(
            self.store, register, Committer(register, NO_WAIT), self.clock
        )
        self.moves = code.moves(self.store, self.clock, self.manifest)
        self.registrar = Registrar(
            self.store,
            self.directory,
            self.directory,
            self.manifest,
            self.markers,
            self.moves,
            lists_directories=False,
        )
        self.row_registrar = Registrar(
            self.store,
            self.manifest,
            self.directory,
            self.manifest,
            self.markers,
            self.moves,
            lists_directories=False,
        )
        self.lives = TableLifecycle(
            self.store,
            self.clock,
            self.manifest,
            self.directory,
            self.manifest,
            self.markers,
            self.registrar,
        )
        self.purge = code.purge(
            self.store,
            self.clock,
            self.lives.bin,
            self.marker_purge,
            self.manifest,
            self.moves,
            "actor",
        )
        self.creation = Creation(
            self.store,
            self.clock,
            self.manifest,
            self.files,
            self.recreation,
            self.markers,
            NO_WAIT,
        )

        self.writing = Writing(
            self.store,
            self.clock,
            self.directory,
            self.files,
            self.recreation,
            Creation(
                self.store,
                self.clock,
                self.directory,
                self.files,
                self.recreation,
                self.markers,
                NO_WAIT,
            ),
        )


Verb = Callable[[Kit], object]


# -- a table at a V1 location


def _purge(kit: Kit) -> None:
    claim = kit.marker_purge.claim(TABLE)
    kit.marker_purge.delete(claim)
    kit.marker_purge.finish(claim)


def _write(kit: Kit) -> int:
    """A create in two halves, as `namespace.writes` does it: the files are there before a claim."""
    pending = kit.writing.begin((TABLE,), WriteMode.CREATE, {})
    written = kit.files.write(LOCATION, kit.letter)
    try:
        return kit.writing.finish(pending, written).version
    except TiltyardError:
        if not written.is_staged:
            kit.store.delete_many(written.files)
        raise


def _declare(kit: Kit) -> None:
    try:
        kit.directory.declare_all({(TABLE,): {}})
    except Ambiguous as doubt:  # the front door translates what the store says
        raise translate(doubt, "declare table 't'") from doubt


def _register(kit: Kit) -> None:
    kit.registrar.register_all([Registration((TABLE,), LOCATION)])


def _rename(kit: Kit) -> None:
    state = kit.directory.look((TABLE,))
    if not state.is_visible:
        raise no_such_table((TABLE,))
    found = Table((TABLE,), LOCATION, properties={})
    kit.registrar.hand_over(state.marker, found, (OTHER,))


def _zombie(kit: Kit) -> None:
    """A writer that has the table open, and never looks at markers."""
    kit.files.append(LOCATION, UNAWARE + kit.letter)


def _peer(kit: Kit) -> None:
    """Lance's own client, dropping a table as it always did."""
    kit.store.delete_many(each.key for each in list(kit.store.walk(LOCATION)))


MARKER_VERBS: dict[str, Verb] = {
    "create": lambda kit: kit.recreation.create(TABLE, kit.letter),
    "write": _write,
    "drop": lambda kit: kit.markers.drop(TABLE, TERMS).generation,
    "undrop": lambda kit: kit.markers.undrop(TABLE).generation,
    "undrop_newer": lambda kit: kit.markers.undrop(TABLE, keep_newer=True).generation,
    "hold": lambda kit: kit.markers.hold(TABLE, True).generation,
    "purge": _purge,
    "declare": _declare,
    "deregister": lambda kit: kit.markers.deregister(TABLE).generation,
    "register": _register,
    "rename": _rename,
    "undrop_as": lambda kit: kit.lives.undrop((TABLE,), target=(OTHER,)).location,
    "rename_home": lambda kit: kit.row_registrar.rename((OTHER,), (TABLE,)).location,
    "drop_named": lambda kit: kit.lives.drop((TABLE,), lambda _: TERMS).location,
    "undrop_named": lambda kit: kit.lives.undrop((TABLE,)).location,
    "undrop_other": lambda kit: kit.lives.undrop((OTHER,)).location,
    "undrop_other_newer": lambda kit: kit.lives.undrop((OTHER,), keep_newer=True).location,
    "deregister_other": lambda kit: kit.row_registrar.deregister((OTHER,)).location,
    "drop_other": lambda kit: kit.lives.drop((OTHER,), lambda _: TERMS).location,
    "purge_other": lambda kit: kit.purge.purge(kit.lives.bin.find((OTHER,), None)).outcome,
    "zombie": _zombie,
    "peer": _peer,
    "look": lambda kit: kit.recreation.settled(TABLE).state,
}


# -- tables in directories of their own


def _create_row(kit: Kit) -> int:
    return kit.creation.create((TABLE,), kit.letter, CreateMode.CREATE, {}).version


def _purge_row(kit: Kit) -> None:
    kit.purge.purge(kit.lives.bin.find((TABLE,), None))


ROW_VERBS: dict[str, Verb] = {
    "create": _create_row,
    "drop": lambda kit: kit.lives.drop((TABLE,), lambda _: TERMS).location,
    "undrop": lambda kit: kit.lives.undrop((TABLE,)).location,
    "undrop_as": lambda kit: kit.lives.undrop((TABLE,), target=(OTHER,)).location,
    "rename": lambda kit: kit.row_registrar.rename((TABLE,), (OTHER,)).location,
    "hold": lambda kit: kit.lives.hold((TABLE,), True).generation,
    "purge": _purge_row,
}


class Script:
    """An actor that does some verbs, one after the other."""

    def __init__(self, kit: Kit, verbs: Sequence[Verb]) -> None:
        self._kit = kit
        self.operations: Sequence[Operation] = [partial(verb, kit) for verb in verbs]

    def memory(self) -> Hashable:
        return self._kit.tokens.used


def build(
    letter: str, verbs: Sequence[str], table: dict[str, Verb], code: Code, skew_ms: int = 0
) -> Build:
    return lambda ask: Script(Kit(letter, ask, code, skew_ms), [table[verb] for verb in verbs])
