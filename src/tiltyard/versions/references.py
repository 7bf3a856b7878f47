"""What refers to a version: tags, branches that begin at it, and who restores it just now.

Lance keeps tags and branches as small JSON files beside the table; they are read as such.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tiltyard import names
from tiltyard.errors import InvalidTableStateError
from tiltyard.store import Entry, NotThere, Store
from tiltyard.versions import pins

_SUFFIX = ".json"


def referred(store: Store, location: str, branch: str | None) -> dict[int, str]:
    """Versions of a branch (None: the main one) that something refers to, and what does.

    Three requests, and one a tag, branch or pin.
    """
    found: dict[int, str] = {}

    def tagged(name: str, body: dict[str, Any]) -> None:
        if body.get("branch") == branch:
            found[int(body["version"])] = f"tag '{name}'"

    def branched(name: str, body: dict[str, Any]) -> None:
        if body.get("parentBranch") == branch:
            found[int(body["parentVersion"])] = f"branch '{name}'"

    def pinned(name: str, body: dict[str, Any]) -> None:
        found[pins.version_of(body)] = f"pin '{name}'"

    own = location if branch is None else f"{location}/{names.BRANCHES_DIRECTORY}/{branch}"
    _each(store, pins.folder(own), pinned)
    _each(store, f"{location}/{names.REFERENCES_DIRECTORY}/tags", tagged)
    _each(store, f"{location}/{names.REFERENCES_DIRECTORY}/branches", branched)
    return found


def branches(store: Store, location: str) -> list[str]:
    """The branches of a table beside the main one, in the order of their names. One request."""
    listed = store.list(f"{location}/{names.REFERENCES_DIRECTORY}/branches").objects
    found = (unquote(each.name.removesuffix(_SUFFIX)) for each in listed if _is_reference(each))
    return sorted(found)


def _is_reference(entry: Entry) -> bool:
    return entry.name.endswith(_SUFFIX)


def _each(store: Store, folder: str, note: Callable[[str, dict[str, Any]], None]) -> None:
    entries = store.list(folder).objects
    for entry in entries:
        if not _is_reference(entry):
            continue
        try:
            note(unquote(entry.name.removesuffix(_SUFFIX)), json.loads(store.get(entry.key).body))
        except NotThere:  # removed since it was listed
            continue
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidTableStateError(f"{entry.key} can't be understood: {error}") from error
