"""API keys: how they look, what is kept of them, and the file that they are kept in.

A key is `ty_<id>_<secret>`. Only a hash of it is kept; the secret has 256 random bits, so there is
nothing to guess and a fast hash will do.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.access.roles import Principal, Role
from tiltyard.errors import InvalidInputError

FORMAT = 1
_KEY = re.compile(r"ty_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[\w.@ -]{1,100}")


@dataclass(frozen=True, slots=True)
class Key:
    """What is kept of a key."""

    id: str
    name: str
    role: Role
    prefix: tuple[str, ...]
    hash: str

    @property
    def principal(self) -> Principal:
        return Principal(self.name, self.role, self.prefix)

    def opens_with(self, text: str) -> bool:
        """Whether this is the key. Takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(self.hash, _hash(text))


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made: the only time that its text is known."""

    key: Key
    text: str


def make(name: str, role: Role, prefix: Sequence[str] = ()) -> NewKey:
    """A new random key."""
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"a key can't be called {name!r}", hint="letters, digits, spaces and . @ _ -"
        )
    id = secrets.token_hex(6)
    secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
    text = f"ty_{id}_{secret}"
    return NewKey(Key(id, name, role, tuple(prefix), _hash(text)), text)


def id_of(text: str) -> str | None:
    """Which key a text claims to be."""
    match = _KEY.fullmatch(text)
    return match[1] if match else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# -- the file


def read(path: str) -> dict[str, Key]:
    """The keys of a file, by id. A file that is not there has none."""
    try:
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"the keys in {path!r} can't be read: {error}") from error
    try:
        if kept["format"] != FORMAT:
            raise InvalidInputError(f"{path!r} was written by a newer tiltyard")
        found = [_from_json(each) for each in kept["keys"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path!r} is not a file of keys") from error
    return {each.id: each for each in found}


def write(path: str, keys: Mapping[str, Key]) -> None:
    """Replace the file at once; nobody but its owner may read it."""
    body = {"format": FORMAT, "keys": [_as_json(each) for each in keys.values()]}
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".keys-")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(body, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InvalidInputError(f"the keys can't be written to {path!r}: {error}") from error


def _as_json(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role.value,
        "prefix": list(key.prefix),
        "hash": key.hash,
    }


def _from_json(kept: dict[str, Any]) -> Key:
    prefix = tuple(str(part) for part in kept["prefix"])
    return Key(kept["id"], kept["name"], Role(kept["role"]), prefix, kept["hash"])
