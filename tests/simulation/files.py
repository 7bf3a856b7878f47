"""The twin of `lifecycle.recreation.Files`: versions and data files as plain objects.

A version is a JSON object that names its data files and its writer's nonce. It behaves as Lance
does where the protocols care: a commit looks for the newest version first, begins again at 1 if
there is none, and never rebases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tiltyard.catalog import version_files
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.clock import Clock
from tiltyard.errors import ConcurrentModificationError, ServiceUnavailableError
from tiltyard.lifecycle.recreation import FENCE
from tiltyard.store import AlreadyThere, Ambiguous, NotThere, Store


@dataclass(frozen=True)
class Staged:
    """Data files for the version after `base`."""

    location: str
    base: int
    files: tuple[str, ...]


class Written:
    """Data files that are there before anything is claimed; `tables.fragments.Written`'s twin."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self.files = files
        self.is_staged = False

    def stage(self) -> tuple[str, ...]:
        if self.is_staged:
            raise ConcurrentModificationError("write it again")
        self.is_staged = True
        return self.files


def decode_version(body: bytes) -> dict[str, Any]:
    """What a version holds. After the JSON of a restore follows what Lance's format has there."""
    version: dict[str, Any] = json.loads(body.partition(b"\n")[0])
    return version


def encode_version(nonce: str | None, files: tuple[str, ...]) -> bytes:
    return json.dumps({"nonce": nonce, "files": files}, separators=(",", ":")).encode()


class PlainFiles:
    """Tables without Lance. `rows` is a word that tells who wrote them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def write(self, location: str, rows: str) -> Written:
        """The first half of a write in two halves."""
        return Written(self._write(location, rows))

    def stage(self, location: str, rows: str | Written, base: int) -> Staged:
        if base:
            self._store.get(version_files.key_of(location, base))
        elif version_files.latest(self._store, location) is not None:
            raise LostRaceError(f"{location} has a version already")
        files = rows.stage() if isinstance(rows, Written) else self._write(location, rows)
        return Staged(location, base, files)

    def _write(self, location: str, rows: str) -> tuple[str, ...]:
        key = f"{location}/data/{self._clock.token(6)}"
        self._store.put(key, rows.encode())
        return (key,)

    def commit(self, staged: Staged, nonce: str) -> int:
        newest = version_files.latest(self._store, staged.location)
        if newest is not None and newest.version > staged.base:
            raise LostRaceError(f"{staged.location} has moved on")
        # Seen with Lance: over a directory without any version it begins again at 1.
        version = staged.base + 1 if newest is not None else 1
        return self._put(staged, version, nonce)

    def _put(self, staged: Staged, version: int, nonce: str) -> int:
        key = version_files.key_of(staged.location, version)
        body = encode_version(nonce, staged.files)
        try:
            self._store.put_new(key, body)
        except (AlreadyThere, Ambiguous) as outcome:
            self._read_back(key, body, outcome)
        return version

    def _read_back(self, key: str, body: bytes, outcome: Exception) -> None:
        """As `catalog.pylance` does: only another's version proves that ours can't come."""
        try:
            present = self._store.get(key)
        except NotThere:
            raise ServiceUnavailableError(f"no clear answer for {key}") from outcome
        if present.body != body:
            raise LostRaceError(f"{key} is another's") from outcome

    def discard(self, staged: Staged) -> None:
        self._store.delete_many(staged.files)

    def written_by(self, location: str, version: int) -> str | None:
        found = self._store.get(version_files.key_of(location, version))
        nonce: str | None = decode_version(found.body)["nonce"]
        return nonce

    def fence(self, location: str, base: int) -> None:
        held = decode_version(self._store.get(version_files.key_of(location, base)).body)
        fence = {name: held[name] for name in held if name not in ("kind", "transaction")}
        fence["nonce"] = FENCE
        try:
            self._store.put_new(
                version_files.key_of(location, base + 1),
                json.dumps(fence, separators=(",", ":")).encode(),
            )
        except AlreadyThere:
            pass
        except Ambiguous as doubt:
            raise ServiceUnavailableError(f"no clear answer for a fence of {location}") from doubt

    def append(self, location: str, rows: str) -> int:
        """What an unaware writer does: the newest version's files and its own, as the next one."""
        newest = version_files.latest(self._store, location)
        held: tuple[str, ...] = ()
        if newest is not None:
            try:
                held = tuple(decode_version(self._store.get(newest.key).body)["files"])
            except NotThere as gone:
                raise LostRaceError(f"{location} changed while it was opened") from gone
        mine = self._write(location, rows)
        version = newest.version + 1 if newest else 1
        return self._put(Staged(location, version - 1, (*held, *mine)), version, mine[0])
