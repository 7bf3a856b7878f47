"""API keys, the file that keeps them, and sessions that stand for a key for some hours.

A key is `ty_<id>_<secret>`. The file keeps a SHA-256 hash of it; the secret has 256 random bits, so
a fast hash is enough. A session is a signed text that names its key, not a role: it may do what the
key may do now, and revoking the key ends it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from time import time
from typing import Any

from tiltyard.errors import InvalidInputError, PermissionDeniedError

# -- roles


class Role(StrEnum):
    """A reader reads, a writer also changes what can be undone, an admin does everything."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def allows(self, needed: Role) -> bool:
        """Whether this role includes the other."""
        return _RANK[self] >= _RANK[needed]


_RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client. With a prefix, it sees that namespace and nothing else."""

    name: str
    role: Role
    prefix: tuple[str, ...] = ()

    def has_role(self, needed: Role) -> bool:
        return self.role.allows(needed)

    def sees(self, identifier: Sequence[str]) -> bool:
        """Whether a table or namespace lies inside the prefix. The empty id is the whole catalog:
        only a principal without a prefix sees it."""
        return tuple(identifier[: len(self.prefix)]) == self.prefix

    def require_role(self, needed: Role) -> None:
        """PermissionDeniedError unless the principal has the role."""
        if not self.has_role(needed):
            raise PermissionDeniedError(
                f"this needs the role {needed}, and {self.name!r} has {self.role}"
            )

    def require_visible(self, identifier: Sequence[str]) -> None:
        """PermissionDeniedError unless the principal sees the table or namespace."""
        if not self.sees(identifier):
            raise PermissionDeniedError(
                f"{self.name!r} may only use namespace {'.'.join(self.prefix)!r}"
            )

    def authorize(self, needed: Role, identifiers: Iterable[Sequence[str]]) -> None:
        """PermissionDeniedError unless the principal has the role and sees every id."""
        self.require_role(needed)
        for identifier in identifiers:
            self.require_visible(identifier)


# Every client of a server without keys, which listens on the loopback interface only.
LOCAL = Principal("local", Role.ADMIN)


# -- keys

FORMAT = 1
EIGHT_HOURS = 8 * 3600.0

_KEY = re.compile(r"ty_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[\w.@ -]{1,100}")
_SESSION_PREFIX = "tys_"
_LOCAL_ID = "local"


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the file keeps it: without its secret."""

    id: str
    name: str
    role: Role
    prefix: tuple[str, ...]
    hash: str

    @property
    def principal(self) -> Principal:
        return Principal(self.name, self.role, self.prefix)

    def matches(self, text: str) -> bool:
        """Whether a text is this key. In constant time."""
        return hmac.compare_digest(self.hash, _hash(text))


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made, with its text, which is not kept."""

    key: Key
    text: str


# Compared with when no key has the id, so that an unknown id takes as long as a wrong secret.
_NO_KEY = Key("", "", Role.READER, (), "0" * 64)


class Keyring:
    """The keys of a server. The file is read again when it has changed, so a new key is accepted
    and a revoked one refused at the next request. Without a file, no credentials are required."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file_state: tuple[int, ...] | None = None
        self._keys: dict[str, Key] = {}
        self._current()  # raises if the file can't be read

    @property
    def is_open(self) -> bool:
        """Whether no credentials are required."""
        return self._path is None

    def listed(self) -> list[Key]:
        """All keys."""
        return list(self._current().values())

    def principal(self, text: str) -> Principal | None:
        """The principal whose key a text is; None if it is no key."""
        match = _KEY.fullmatch(text)
        key = self._current().get(match[1], _NO_KEY) if match else _NO_KEY
        return key.principal if key.matches(text) else None

    def by_id(self, id: str) -> Key | None:
        """The key with this id, if it was not revoked."""
        return self._current().get(id)

    def add(self, name: str, role: Role, prefix: Sequence[str] = ()) -> NewKey:
        """Make a key and store its hash. Names are unique, because the audit log names them."""
        path = self._require_file()
        with self._lock:
            keys = _read(path)
            if any(key.name == name for key in keys.values()):
                raise InvalidInputError(
                    f"there is a key called {name!r}", hint="choose another name, or revoke it"
                )
            made = _new_key(name, role, prefix)
            _write(path, [*keys.values(), made.key])
        return made

    def revoke(self, name: str) -> Key:
        """Remove a key; its sessions end with it."""
        path = self._require_file()
        with self._lock:
            keys = _read(path)
            for revoked in keys.values():
                if revoked.name == name:
                    _write(path, [key for key in keys.values() if key is not revoked])
                    return revoked
        raise InvalidInputError(f"there is no key called {name!r}")

    def _require_file(self) -> str:
        if self._path is None:
            raise InvalidInputError("there is no file for keys", hint="name one")
        return self._path

    def _current(self) -> dict[str, Key]:
        if self._path is None:
            return {}
        state = _file_state(self._path)
        if state != self._file_state:
            self._keys, self._file_state = _read(self._path), state
        return self._keys


def _new_key(name: str, role: Role, prefix: Sequence[str]) -> NewKey:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"a key can't be called {name!r}", hint="letters, digits, spaces and . @ _ -"
        )
    id = secrets.token_hex(6)
    text = f"ty_{id}_{_base64(secrets.token_bytes(32))}"
    return NewKey(Key(id, name, role, tuple(prefix), _hash(text)), text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# -- the file


def _file_state(path: str) -> tuple[int, ...]:
    """Differs after every write: the file is replaced, never changed in place."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: str) -> dict[str, Key]:
    """The keys of a file, by id; none if the file does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"the keys in {path!r} can't be read: {error}") from error
    try:
        if content["format"] != FORMAT:
            raise InvalidInputError(f"{path!r} was written by a newer tiltyard")
        keys = [_from_json(entry) for entry in content["keys"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path!r} is not a file of keys") from error
    return {key.id: key for key in keys}


def _from_json(entry: dict[str, Any]) -> Key:
    prefix = tuple(str(part) for part in entry["prefix"])
    return Key(entry["id"], entry["name"], Role(entry["role"]), prefix, entry["hash"])


def _write(path: str, keys: Iterable[Key]) -> None:
    """Replace the file atomically. Only its owner may read it."""
    content = {"format": FORMAT, "keys": [asdict(key) for key in keys]}
    directory = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".keys-")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InvalidInputError(f"the keys can't be written to {path!r}: {error}") from error


# -- sessions


class Sessions:
    """Issues and verifies sessions. The signing key is kept in memory, so sessions end with the
    process."""

    def __init__(
        self,
        keyring: Keyring,
        *,
        seconds: float = EIGHT_HOURS,
        clock: Callable[[], float] = time,
    ) -> None:
        self._keyring = keyring
        self.seconds = seconds
        self._clock = clock
        self._secret = secrets.token_bytes(32)

    def authenticate(self, credential: str) -> Principal | None:
        """The principal of a key or a session; None if it is neither, or no longer valid."""
        return self._keyring.principal(credential) or self.verify(credential)

    def issue(self, principal: Principal) -> str:
        """A session for a principal who was authenticated by key."""
        ids = [key.id for key in self._keyring.listed() if key.principal == principal]
        id = ids[0] if ids else _LOCAL_ID
        body = f"{id}.{round(self._clock() + self.seconds)}.{secrets.token_hex(8)}"
        return f"{_SESSION_PREFIX}{body}.{self.sign(body)}"

    def verify(self, text: str) -> Principal | None:
        """The principal of a session; None if it is not ours, has expired, or its key was
        revoked."""
        body, _, signature = text.removeprefix(_SESSION_PREFIX).rpartition(".")
        if not text.startswith(_SESSION_PREFIX) or not self.is_signature(body, signature):
            return None
        id, expires, _ = body.split(".")
        if int(expires) <= self._clock():
            return None
        if id == _LOCAL_ID:
            return LOCAL if self._keyring.is_open else None
        key = self._keyring.by_id(id)
        return None if key is None else key.principal

    def sign(self, body: str) -> str:
        """A signature that only this process can make; also used for the tokens of forms."""
        return _base64(hmac.new(self._secret, body.encode(), hashlib.sha256).digest())

    def is_signature(self, body: str, signature: str) -> bool:
        """Whether a signature is ours. In constant time."""
        return hmac.compare_digest(self.sign(body).encode(), signature.encode())
