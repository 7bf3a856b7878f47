"""What actors do: operations of the services that users call, and two clients that know none.

An actor has the services of a catalog in each mode, over the scheduled store, the twins of Lance's
files and of the manifest, and a clock of its own: a clock that may go wrong, and names that only it
can choose.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

from tests.simulation.datasets import ROOT, TwinLance
from tests.simulation.files import PlainFiles
from tests.simulation.process import Ask, Build, Operation
from tests.simulation.register import Register
from tests.simulation.store import ScheduledStore
from tests.simulation.views import OTHER, TABLE, UNAWARE
from tiltyard import Settings
from tiltyard.catalog import names
from tiltyard.catalog.base import Catalog, CreateMode, DropTerms
from tiltyard.catalog.compatible import CompatibleCatalog
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.committer import Committer
from tiltyard.catalog.manifest.table import NoManifestTable
from tiltyard.catalog.names import NamespaceId
from tiltyard.clock import Clock
from tiltyard.errors import TiltyardError, translate
from tiltyard.lifecycle.arbiter import Registration
from tiltyard.lifecycle.writing import WriteMode
from tiltyard.namespace.services import Services
from tiltyard.store import Ambiguous, Retry, Store

EPOCH_MS = 1_700_000_000_000
LOCATION = names.table_directory(TABLE)
NO_WAIT = Retry(attempts=4, sleep=lambda _: None, dice=lambda: 0.5)
# How often an operation starts over: two that disturb each other do so again and again.
TRIES = 2

COMPATIBLE = Settings(ROOT, actor="actor", recover_on_write=False)
DIRECTORY = replace(COMPATIBLE, manifest_enabled=False)
MANIFEST = replace(COMPATIBLE, dir_listing_enabled=False)


class Tokens:
    """Names that only one actor chooses: its letter first, so that a trace tells whose they are."""

    def __init__(self, letter: str) -> None:
        self.used = 0
        self._letter = letter

    def __call__(self, digits: int) -> str:
        self.used += 1
        return f"{self._letter}{self.used:0{digits - 1}x}"


class SimulatedServices(Services):
    """The services with twins in them. A mutant puts another class in the place of one."""

    has_no_memory: ClassVar[bool] = True
    patience_ms = 0
    files_type: ClassVar[type[PlainFiles]] = PlainFiles
    manifest_type: ClassVar[type[ManifestCatalog]] = ManifestCatalog
    tokens_type: ClassVar[type[Tokens]] = Tokens

    def make_files(self) -> Any:
        return self.files_type(self.context.store, self.context.clock)


Code = type[SimulatedServices]


def mutated(**replaced: Any) -> Code:
    """The services with other classes for some."""
    return type("MutatedServices", (SimulatedServices,), replaced)


class StampedDirectory(DirectoryCatalog):
    """A catalog that was stamped long ago: nobody lists the root to see whether it is new."""

    def notice_if_new(self) -> None:
        """It is not."""


def open_services(
    settings: Settings,
    store: Store,
    clock: Clock,
    code: Code = SimulatedServices,
    retry: Retry = NO_WAIT,
) -> SimulatedServices:
    """The services of a catalog in one mode, with the twins of Lance and of the manifest."""
    lance: Any = TwinLance(store, clock)
    directory = StampedDirectory(store, clock)
    table: Any = NoManifestTable(store, lance, settings, NO_WAIT)
    if settings.manifest_enabled:
        table = Register(store, clock)
    manifest = code.manifest_type(store, table, Committer(table, NO_WAIT), clock)
    catalog: Catalog = directory
    if settings.manifest_enabled:
        both = settings.dir_listing_enabled
        catalog = CompatibleCatalog(manifest, directory) if both else manifest
    context = CatalogContext(settings, store, clock, lance, directory, manifest, catalog, retry)
    return code(context)


class Kit:
    """Everything one actor works with. Only the count of its tokens changes."""

    has_no_memory = True

    def __init__(self, letter: str, ask: Ask, code: Code, skew_ms: int = 0) -> None:
        self.letter = letter
        self.store = ScheduledStore(ask)
        self.tokens = code.tokens_type(letter)
        self.clock = Clock(lambda: EPOCH_MS + skew_ms, self.tokens)
        self.files = code.files_type(self.store, self.clock)
        self._code = code

    @cached_property
    def in_directory_mode(self) -> SimulatedServices:
        return self._services(DIRECTORY)

    @cached_property
    def in_manifest_mode(self) -> SimulatedServices:
        return self._services(MANIFEST)

    @cached_property
    def in_default_mode(self) -> SimulatedServices:
        return self._services(COMPATIBLE)

    def _services(self, settings: Settings) -> SimulatedServices:
        retry = Retry(TRIES, sleep=NO_WAIT.sleep, dice=NO_WAIT.dice)
        return open_services(settings, self.store, self.clock, self._code, retry)


Verb = Callable[[Kit], object]


def terms(namespace: NamespaceId) -> DropTerms:
    return DropTerms(ttl_ms=1_000, by="actor")


def _create(services: Services, name: str, rows: str) -> int:
    return services.creation.create((name,), rows, CreateMode.CREATE, {}).version


# -- a table at a V1 location


def _write(kit: Kit) -> int:
    """A create in two halves, as `namespace.writes` does it: the files are there before a claim."""
    services = kit.in_directory_mode
    pending = services.writing.begin((TABLE,), WriteMode.CREATE, {})
    written = kit.files.write(LOCATION, kit.letter)
    try:
        return services.writing.finish(pending, written).version
    except TiltyardError:
        if not written.is_staged:
            kit.store.delete_many(written.files)
        raise


def _declare(kit: Kit) -> None:
    try:
        kit.in_directory_mode.context.catalog.declare_all({(TABLE,): {}})
    except Ambiguous as doubt:  # `namespace` translates what the store says
        raise translate(doubt, "declare table 't'") from doubt


def _register(kit: Kit) -> None:
    kit.in_default_mode.lifecycle.register_all([Registration((TABLE,), LOCATION)])


def _zombie(kit: Kit) -> None:
    """A writer that has the table open, and never looks at markers."""
    kit.files.append(LOCATION, UNAWARE + kit.letter)


def _peer(kit: Kit) -> None:
    """Lance's own client, dropping a table as it always did."""
    kit.store.delete_many(entry.key for entry in list(kit.store.walk(LOCATION)))


# Clients in directory mode, and in the default mode where a row matters.
MARKER_VERBS: dict[str, Verb] = {
    "create": lambda kit: _create(kit.in_directory_mode, TABLE, kit.letter),
    "write": _write,
    "drop": lambda kit: kit.in_directory_mode.lifecycle.drop((TABLE,), terms).location,
    "undrop": lambda kit: kit.in_directory_mode.lifecycle.undrop((TABLE,)).location,
    "undrop_newer": lambda kit: (
        kit.in_directory_mode.lifecycle.undrop((TABLE,), keep_newer=True).location
    ),
    "hold": lambda kit: kit.in_directory_mode.lifecycle.hold((TABLE,), True).generation,
    "purge": lambda kit: kit.in_directory_mode.purge.purge((TABLE,)).outcome,
    "declare": _declare,
    "deregister": lambda kit: kit.in_directory_mode.lifecycle.deregister((TABLE,)).location,
    "register": _register,
    "rename": lambda kit: kit.in_default_mode.lifecycle.rename((TABLE,), (OTHER,)).location,
    "undrop_as": lambda kit: (
        kit.in_default_mode.lifecycle.undrop((TABLE,), target=(OTHER,)).location
    ),
    "rename_back": lambda kit: kit.in_default_mode.lifecycle.rename((OTHER,), (TABLE,)).location,
    "drop_named": lambda kit: kit.in_default_mode.lifecycle.drop((TABLE,), terms).location,
    "undrop_named": lambda kit: kit.in_default_mode.lifecycle.undrop((TABLE,)).location,
    "undrop_other": lambda kit: kit.in_default_mode.lifecycle.undrop((OTHER,)).location,
    "undrop_other_newer": lambda kit: (
        kit.in_default_mode.lifecycle.undrop((OTHER,), keep_newer=True).location
    ),
    "deregister_other": lambda kit: kit.in_default_mode.lifecycle.deregister((OTHER,)).location,
    "drop_other": lambda kit: kit.in_default_mode.lifecycle.drop((OTHER,), terms).location,
    "purge_other": lambda kit: kit.in_default_mode.purge.purge((OTHER,)).outcome,
    "zombie": _zombie,
    "peer": _peer,
    "look": lambda kit: kit.in_directory_mode.recreation.decided_marker(TABLE).state,
}


# -- tables in directories of their own

ROW_VERBS: dict[str, Verb] = {
    "create": lambda kit: _create(kit.in_manifest_mode, TABLE, kit.letter),
    "create_other": lambda kit: _create(kit.in_manifest_mode, OTHER, kit.letter),
    "drop": lambda kit: kit.in_manifest_mode.lifecycle.drop((TABLE,), terms).location,
    "undrop": lambda kit: kit.in_manifest_mode.lifecycle.undrop((TABLE,)).location,
    "undrop_as": lambda kit: (
        kit.in_manifest_mode.lifecycle.undrop((TABLE,), target=(OTHER,)).location
    ),
    "rename": lambda kit: kit.in_manifest_mode.lifecycle.rename((TABLE,), (OTHER,)).location,
    "hold": lambda kit: kit.in_manifest_mode.lifecycle.hold((TABLE,), True).generation,
    "purge": lambda kit: kit.in_manifest_mode.purge.purge((TABLE,)).outcome,
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
