"""What keeps a version from being deleted: tags, branches that begin at it, and pins.

Lance keeps tags and branches as small JSON files beside the table; they are read as such. A pin is
a note of ours that a version is being restored: the next version will refer to its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from tiltyard.catalog import names
from tiltyard.clock import Clock
from tiltyard.errors import InvalidTableStateError, TableVersionNotFoundError
from tiltyard.store import Ambiguous, Entry, NotThere, Store

_SUFFIX = ".json"
_PIN_FORMAT = 1
_PINS = "pins"


def referenced_versions(store: Store, location: str, branch: str | None) -> dict[int, str]:
    """The versions of a branch (None: the main one) that something refers to, and what does.

    Three requests, and one for each tag, branch and pin.
    """
    references: dict[int, str] = {}

    def tagged(name: str, body: dict[str, Any]) -> None:
        if body.get("branch") == branch:
            references[int(body["version"])] = f"tag '{name}'"

    def branched(name: str, body: dict[str, Any]) -> None:
        if body.get("parentBranch") == branch:
            references[int(body["parentVersion"])] = f"branch '{name}'"

    def pinned(name: str, body: dict[str, Any]) -> None:
        if body["format"] != _PIN_FORMAT:
            raise ValueError(f"format {body['format']}")
        references[int(body["version"])] = f"pin '{name}'"

    own = location if branch is None else f"{location}/{names.BRANCHES_DIRECTORY}/{branch}"
    _read_each(store, _pins_of(own), pinned)
    _read_each(store, f"{location}/{names.REFERENCES_DIRECTORY}/tags", tagged)
    _read_each(store, f"{location}/{names.REFERENCES_DIRECTORY}/branches", branched)
    return references


def branch_names(store: Store, location: str) -> list[str]:
    """The branches of a table beside the main one, in the order of their names. One request."""
    entries = store.list(f"{location}/{names.REFERENCES_DIRECTORY}/branches").objects
    return sorted(_name_of(entry) for entry in entries if entry.name.endswith(_SUFFIX))


def _read_each(store: Store, folder: str, note: Callable[[str, dict[str, Any]], None]) -> None:
    for entry in store.list(folder).objects:
        if not entry.name.endswith(_SUFFIX):
            continue
        try:
            note(_name_of(entry), json.loads(store.get(entry.key).body))
        except NotThere:  # removed since it was listed
            continue
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidTableStateError(f"{entry.key} can't be understood: {error}") from error


def _name_of(entry: Entry) -> str:
    return unquote(entry.name.removesuffix(_SUFFIX))


# -- pins


@contextmanager
def pinned(
    store: Store, clock: Clock, location: str, version: int, is_shown: Callable[[int], bool]
) -> Iterator[None]:
    """Keep a version for as long as the block lasts. TableVersionNotFoundError if it was given up.

    A collector moves the boundary and then reads the pins; whoever pins reads the boundary after
    that, with `is_shown`. So either the pin is seen, or it is seen that the version was given up.
    Two requests, and what `is_shown` needs. A pin stays after a crash, and after a write in doubt,
    which may still arrive; it keeps its version until it is removed with the orphans.
    """
    key = f"{_pins_of(location)}/{clock.token(16)}{_SUFFIX}"
    body = {"format": _PIN_FORMAT, "version": version, "at_ms": clock.now_ms()}
    store.put(key, json.dumps(body).encode())
    try:
        if not is_shown(version):
            raise TableVersionNotFoundError(
                f"version {version} can't be restored: it was deleted, or is about to be"
            )
        yield
    except Ambiguous:
        raise
    except BaseException:
        store.delete(key)
        raise
    store.delete(key)


def is_pin(key: str) -> bool:
    """Whether an object beside the boundaries is a pin."""
    parent, _, name = key.rpartition("/")
    return parent.endswith(f"/{_PINS}") and name.endswith(_SUFFIX)


def _pins_of(location: str) -> str:
    """Where the pins of a table, or of one of its branches, lie: outside of it."""
    return f"{names.BOUNDARIES}/{location}/{_PINS}"
