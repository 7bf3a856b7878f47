"""Putting a table that has no name into the trash, from where it goes the way of every other."""

from __future__ import annotations

from dataclasses import replace

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import AdoptTable
from tiltyard.catalog.manifest.rows import Row
from tiltyard.clock import Clock
from tiltyard.errors import InvalidInputError, InvalidTableStateError, UnsupportedOperationError
from tiltyard.lifecycle.markers import Markers
from tiltyard.lifecycle.trash import DropTerms
from tiltyard.names import TableId
from tiltyard.store import Store


class Adoption:
    """Adopts directories of one catalog into its trash."""

    def __init__(
        self, store: Store, clock: Clock, markers: Markers, manifest: ManifestCatalog | None
    ) -> None:
        self._store = store
        self._clock = clock
        self._markers = markers
        self._manifest = manifest

    def adopt(self, directory: str, terms: DropTerms) -> TableId:
        """One commit, or one swap of a marker; the answer is the name under which it can be
        brought back. InvalidTableStateError if a row has it."""
        self._store.require_conditions()
        newest = version_files.latest(self._store, directory)
        if newest is None:
            raise InvalidInputError(f"{directory!r} holds no table")
        name = names.table_name(directory)
        if name is not None:
            self._must_be_free(directory)
            self._markers.drop(name, terms)
            return (name,)
        if self._manifest is None:
            raise UnsupportedOperationError(
                "without a manifest only <name>.lance can be in the trash",
                hint="open the catalog with manifest_enabled=true",
            )
        owners = names.natural_owners(directory)
        table = names.split_object_id(owners[-1] if owners else directory)
        row: Row = self._manifest.submit(
            AdoptTable(
                table,
                directory,
                self._clock.generation(),
                replace(terms, reason=terms.reason or "it had no name"),
                newest.version,
                self._clock.now_ms(),
            )
        ).answer
        return row.id[2:]

    def _must_be_free(self, directory: str) -> None:
        if self._manifest is not None:
            _require_unowned(Draft(self._manifest.read()), directory)


def _require_unowned(draft: Draft, location: str) -> None:
    owner = draft.owner(location)
    if owner is not None:
        raise InvalidTableStateError(
            f"'{location}' belongs to {names.display(names.split_object_id(owner))}"
        )
