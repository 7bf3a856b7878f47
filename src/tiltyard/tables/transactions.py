"""The transactions that made the versions of a table, found by their ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import lance

from tiltyard.catalog.pylance import FAILURES, is_missing
from tiltyard.store import Store
from tiltyard.tables.fragments import TRANSACTIONS

SUCCEEDED = "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction that has landed, and where."""

    id: str
    version: int
    read_version: int
    operation: str
    properties: dict[str, str]

    def described(self) -> dict[str, str]:
        """All that is known of it, under the names that Lance's own client uses."""
        return {
            **self.properties,
            "uuid": self.id,
            "version": str(self.version),
            "read_version": str(self.read_version),
            "operation": self.operation,
        }


def read_versions(store: Store, location: str, id: str) -> list[int]:
    """The version that a transaction was begun from, by the name of its file. One request."""
    ending = f"-{id}.txn"
    found = (entry.name for entry in store.list(f"{location}/{TRANSACTIONS}").objects)
    starts = (name.removesuffix(ending) for name in found if name.endswith(ending))
    return [int(start) for start in starts if start.isdecimal()]


def find(dataset: lance.LanceDataset, versions: Iterable[int], id: str) -> Commit | None:
    """The one among the versions that a transaction made. A request for each looked at."""
    for version in versions:
        found = at(dataset, version)
        if found is not None and found.id == id:
            return found
    return None


def at(dataset: lance.LanceDataset, version: int) -> Commit | None:
    """The transaction that made a version; None if the version, or word of it, is gone."""
    try:
        found = dataset.read_transaction(version)
    except FAILURES as error:
        if is_missing(error):
            return None
        raise
    if found is None:
        return None
    properties = {str(k): str(v) for k, v in (found.transaction_properties or {}).items()}
    operation = type(found.operation).__name__
    return Commit(found.uuid, version, found.read_version, operation, properties)


def of(dataset: lance.LanceDataset) -> str | None:
    """The id of the transaction that made the version that is open, if it can be told now.

    The commit has been made, so whatever goes wrong here is not its failure.
    """
    try:
        found = dataset.read_transaction(dataset.version)
    except FAILURES:
        return None
    return None if found is None else str(found.uuid)
