"""One table on a store in memory, in directory mode: its files, its marker, and its services."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.kit.stores import FaultyStore
from tests.simulation.actors import DIRECTORY, mutated, open_services, terms
from tests.simulation.files import PlainFiles
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.base import CreateMode
from tiltyard.catalog.marker import Marker
from tiltyard.clock import Clock
from tiltyard.lifecycle.arbiter import PurgeClaim, Registration
from tiltyard.lifecycle.recreation import PATIENCE_MS
from tiltyard.store.memory import MemoryStore

TABLE = ("t",)
LOCATION = "t.lance"
MARKER = "t.deleted"
PATIENT = mutated(patience_ms=PATIENCE_MS)


@dataclass
class ManualClock:
    now: int = 1_700_000_000_000
    tokens: int = 0

    def token(self, digits: int) -> str:
        self.tokens += 1
        return f"{self.tokens:0{digits}x}"


@dataclass
class Bench:
    """The services of a catalog for one table, on one store and one clock."""

    store: FaultyStore = field(default_factory=lambda: FaultyStore(MemoryStore(), bulk=1))
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        clock = Clock(lambda: self.clock.now, self.clock.token)
        self.services = open_services(DIRECTORY, self.store, clock, PATIENT)
        self.files = PlainFiles(self.store, clock)

    # -- what can be done with the table

    def create(self, word: str) -> int:
        return self.services.creation.create(TABLE, word, CreateMode.CREATE, {}).version

    def drop(self) -> None:
        self.services.lifecycle.drop(TABLE, terms)

    def undrop(self) -> None:
        self.services.lifecycle.undrop(TABLE)

    def hold(self, held: bool) -> None:
        self.services.lifecycle.hold(TABLE, held)

    def protect(self, protected: bool) -> None:
        self.services.lifecycle.protect(TABLE, protected)

    def deregister(self) -> None:
        self.services.lifecycle.deregister(TABLE)

    def register(self) -> None:
        self.services.lifecycle.register_all([Registration(TABLE, LOCATION)])

    def claim(self) -> PurgeClaim:
        return self.services.purge.claim(self.services.trash.find(TABLE))

    def finish(self, claim: PurgeClaim) -> None:
        self.services.purge.delete(claim.keys or ())
        self.services.purge.finish(claim, 0, 0)

    def purge(self) -> None:
        self.services.purge.purge(TABLE)

    # -- what is there

    @property
    def marker(self) -> Marker:
        return marker.read(self.store.inner, "t")

    @property
    def body(self) -> bytes:
        return self.store.inner.get(MARKER).body

    def latest(self) -> int:
        newest = version_files.latest(self.store.inner, LOCATION)
        return newest.version if newest else 0

    def held(self) -> list[str]:
        """The words in the data files, whatever version they belong to."""
        inner = self.store.inner
        return sorted(
            inner.get(entry.key).body.decode() for entry in inner.walk(f"{LOCATION}/data")
        )

    def read(self) -> list[str]:
        """The words of the latest version."""
        inner = self.store.inner
        version = json.loads(inner.get(version_files.key_of(LOCATION, self.latest())).body)
        return [inner.get(key).body.decode() for key in version["files"]]

    def late(self) -> None:
        self.clock.now += PATIENCE_MS + 1
