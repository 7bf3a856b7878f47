"""What lies in the trash of a catalog: markers of V1 locations and rows of the manifest, as one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.marker import Marker, State
from tiltyard.clock import expiry, moment
from tiltyard.errors import InvalidTableStateError, TableNotFoundError
from tiltyard.lifecycle import rows
from tiltyard.lifecycle.trash import Trashed
from tiltyard.names import TableId
from tiltyard.store import Store

READING_THREADS = 32


class TrashReader:
    """Reads the trash; changes nothing. `manifest` is None in directory mode."""

    def __init__(self, store: Store, manifest: ManifestCatalog | None) -> None:
        self._store = store
        self._manifest = manifest

    def everything(self, *, with_bytes: bool = False) -> list[Trashed]:
        """Every dropped table, oldest drop first.

        One listing, one request for each hidden marker, one for the manifest; with bytes, a
        listing of each table besides.
        """
        with ThreadPoolExecutor(READING_THREADS) as pool:
            found = [each for each in pool.map(self._if_understood, self._hidden()) if each]
            if self._manifest is not None:
                found.extend(rows.trashed(self._manifest.read()))
            if with_bytes:
                found = list(pool.map(self._weighed, found))
        return sorted(found, key=lambda each: (each.dropped_at, each.id))

    def find(self, table: TableId, generation: str | None) -> Trashed:
        """One dropped table: the generation that is asked for, or the one dropped last."""
        found = []
        if len(table) == 1 and (marked := self._of_marker(table[0])):
            found.append(marked)
        if self._manifest is not None:
            found.extend(each for each in rows.trashed(self._manifest.read()) if each.id == table)
        if generation is not None:
            chosen = [each for each in found if each.generation == generation]
        else:
            chosen = [each for each in found if each.restorable] or found
        if not chosen:
            there = ", ".join(each.generation for each in found)
            raise TableNotFoundError(
                f"{'' if generation is None else f'generation {generation} of '}"
                f"table {names.display(table)} is not in the trash",
                hint=f"its generation {there} is" if there else "list_trash tells what is",
            )
        return max(chosen, key=lambda each: (each.dropped_at, each.generation))

    def is_marked(self, dropped: Trashed) -> bool:
        """Whether its marker decides, and not its row."""
        return self._of_generation(dropped) is not None

    def _of_generation(self, dropped: Trashed) -> Marker | None:
        if len(dropped.id) != 1 or dropped.location != names.table_directory(dropped.id[0]):
            return None
        present = marker.read(self._store, dropped.id[0])
        return present if present.generation == dropped.generation else None

    def _hidden(self) -> list[str]:
        """Names whose marker hides them: its size tells."""
        found = (
            names.marked_name(each.key)
            for each in self._store.list().objects
            if marker.hides(each.size)
        )
        return [name for name in found if name is not None]

    def _if_understood(self, name: str) -> Trashed | None:
        try:
            return self._of_marker(name)
        except InvalidTableStateError:  # of a newer version: not ours to list
            return None

    def _of_marker(self, name: str) -> Trashed | None:
        present = marker.read(self._store, name)
        if present.state is State.REVIVING and present.previous is not None:
            present = present.previous  # until the create is done, the table is in the trash
        if present.state not in (State.DELETED, State.PURGING):
            return None
        deleted_at_ms = present.deleted_at_ms or 0
        return Trashed(
            id=(name,),
            generation=present.generation or "",
            location=names.table_directory(name),
            state=present.state.value,
            dropped_at=moment(deleted_at_ms),
            expires_at=expiry(deleted_at_ms, present.ttl_ms),
            dropped_by=present.dropped_by,
            reason=present.reason,
            version=present.version_at_drop,
            held=present.hold,
            restorable=present.state is State.DELETED,
            properties=present.properties,
        )

    def _weighed(self, dropped: Trashed) -> Trashed:
        return replace(dropped, bytes=sum(each.size for each in self._store.walk(dropped.location)))
