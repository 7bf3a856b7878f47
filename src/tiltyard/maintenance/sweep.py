"""Removing data files that only deleted versions referred to.

The files are written down before their versions go, so that whoever comes after a crash knows them.
They are removed once every reference that is left has been read again, after the boundary moved.
Nothing else is ever removed: what no version refers to may be of a writer that has not committed.

Why a file that was not referred to at that look never will be: a new version refers to what the
latest one does, to files with fresh names, or, if it restores another version, to what that one
does. The latest at that look was among those that were read. A version that is restored is pinned,
or its row is there, when the new one is committed; so it was not among those that went, or the new
version came before the boundary moved, and was read as well. By induction this holds for all that
follow, however long the process that removes files was stopped in between.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tiltyard import names
from tiltyard.clock import Clock
from tiltyard.errors import InvalidTableStateError
from tiltyard.store import NotThere, Store

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Swept:
    """What was removed, or would be."""

    files: int = 0
    bytes: int = 0


def folder(location: str) -> str:
    """Where the files that are to go are written down."""
    return f"{names.BOUNDARIES}/{location}/going"


def write_down(store: Store, clock: Clock, location: str, files: Collection[str]) -> None:
    """Note files that may go once their versions are gone. One request, none for no file."""
    if not files:
        return
    body = {"format": _FORMAT, "files": sorted(each.removeprefix(f"{location}/") for each in files)}
    store.put(f"{folder(location)}/{clock.token(16)}.json", json.dumps(body).encode())


def written_down(store: Store, location: str) -> dict[str, set[str]]:
    """Lists of files that were not removed yet. One request, and one for each list."""
    found: dict[str, set[str]] = {}
    for entry in store.list(folder(location)).objects:
        try:
            body = json.loads(store.get(entry.key).body)
            if body["format"] != _FORMAT:
                raise ValueError(f"format {body['format']}")
            found[entry.key] = {f"{location}/{each}" for each in body["files"]}
        except NotThere:  # another has finished it since
            continue
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTableStateError(
                f"{entry.key} is not one that this version of tiltyard understands: {error}",
                hint="upgrade tiltyard; the file was left as it is",
            ) from error
    return found


def weigh(store: Store, location: str, files: Collection[str]) -> dict[str, int]:
    """Those of the files that are there, with what lies beside them, and their sizes.

    Large values lie in a folder that is called like their file. One request per 1,000 files of the
    table.
    """
    if not files:
        return {}
    folders = {each.removesuffix(".lance") for each in files if "/data/" in each}
    return {
        entry.key: entry.size
        for entry in store.walk(location)
        if entry.key in files or entry.key.rpartition("/")[0] in folders
    }


def remove(store: Store, location: str, lists: Sequence[str], going: Collection[str]) -> Swept:
    """Remove files, and then the lists that named them."""
    sizes = weigh(store, location, going)
    if sizes:
        store.delete_many(sorted(sizes))
    store.delete_many(lists)
    return Swept(len(sizes), sum(sizes.values()))
