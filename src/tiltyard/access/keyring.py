"""The keys of one server, as its file has them now: a key that was revoked is refused at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from tiltyard.access import keys
from tiltyard.access.keys import Key, NewKey
from tiltyard.access.roles import Principal, Role
from tiltyard.errors import InvalidInputError

# Compared with when no key has the id, so that an unknown one takes as long as a wrong one.
_NOBODY = Key("", "", Role.READER, (), "0" * 64)


class Keyring:
    """Keys in a file, or none at all: then everybody is let in, and the server is for loopback."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._keys: dict[str, Key] = {}
        self._current()  # a bad file is told now

    @property
    def is_open(self) -> bool:
        """Whether no credentials are asked for."""
        return self._path is None

    def listed(self) -> list[Key]:
        """Every key there is. Reads the file again if it changed."""
        return list(self._current().values())

    def principal(self, text: str) -> Principal | None:
        """Whose key a text is."""
        found = self._current().get(keys.id_of(text) or "", _NOBODY)
        return found.principal if found.opens_with(text) else None

    def by_id(self, id: str) -> Key | None:
        """The key with this id, if it was not revoked."""
        return self._current().get(id)

    def add(self, name: str, role: Role, prefix: Sequence[str] = ()) -> NewKey:
        """Make a key and keep its hash. Names are unique: they are what the audit tells."""
        path = self._require_file()
        with self._lock:
            kept = keys.read(path)
            if any(each.name == name for each in kept.values()):
                raise InvalidInputError(
                    f"there is a key called {name!r}", hint="choose another name, or revoke it"
                )
            made = keys.make(name, role, prefix)
            keys.write(path, {**kept, made.key.id: made.key})
        return made

    def revoke(self, name: str) -> Key:
        """Take a key away, with every session that it began."""
        path = self._require_file()
        with self._lock:
            kept = keys.read(path)
            for each in kept.values():
                if each.name == name:
                    keys.write(path, {id: key for id, key in kept.items() if id != each.id})
                    return each
        raise InvalidInputError(f"there is no key called {name!r}")

    def _require_file(self) -> str:
        if self._path is None:
            raise InvalidInputError("there is no file for keys", hint="name one")
        return self._path

    def _current(self) -> dict[str, Key]:
        if self._path is None:
            return {}
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._keys, self._stamp = keys.read(self._path), stamp
        return self._keys


def _stamp(path: str) -> tuple[int, ...]:
    """What changes with every write of the file: it is replaced, never changed in place."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size
