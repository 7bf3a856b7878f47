"""One table on a store in memory: its files, its marker, and everything that acts on them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tiltyard.lifecycle.marker_purge import MarkerPurge
from tiltyard.lifecycle.markers import Markers

from tests.kit.stores import FaultyStore
from tests.simulation.files import PlainFiles
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.marker import Marker
from tiltyard.clock import Clock
from tiltyard.lifecycle.recreation import PATIENCE_MS, Recreation
from tiltyard.lifecycle.trash import DropTerms
from tiltyard.store.memory import MemoryStore

TERMS = DropTerms(ttl_ms=1_000, by="ada")
LOCATION = "t.lance"
MARKER = "t.deleted"


@dataclass
class ManualClock:
    now: int = 1_700_000_000_000
    tokens: int = 0

    def token(self, digits: int) -> str:
        self.tokens += 1
        return f"{self.tokens:0{digits}x}"


@dataclass
class Bench:
    """One table's files and everything that acts on its marker, on one store and one clock."""

    store: FaultyStore = field(default_factory=lambda: FaultyStore(MemoryStore(), bulk=1))
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        stepped = Clock(lambda: self.clock.now, self.clock.token)
        self.files = PlainFiles(self.store, stepped)
        self.recreation = Recreation(self.store, stepped, self.files)
        self.markers = Markers(self.store, stepped, self.recreation)
        self.purge = MarkerPurge(self.store, stepped, self.recreation)

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
        return sorted(inner.get(each.key).body.decode() for each in inner.walk(f"{LOCATION}/data"))

    def read(self) -> list[str]:
        """The words of the latest version."""
        inner = self.store.inner
        version = json.loads(inner.get(version_files.key_of(LOCATION, self.latest())).body)
        return [inner.get(key).body.decode() for key in version["files"]]

    def purge_whole(self) -> None:
        claim = self.purge.claim("t")
        self.purge.delete(claim)
        self.purge.finish(claim)

    def late(self) -> None:
        self.clock.now += PATIENCE_MS + 1
