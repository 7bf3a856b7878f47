"""The versions of a table's files, as the lifecycle writes and reads them: through pylance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import lance
import pyarrow as pa

from tiltyard.catalog.pylance import (
    FAILURES,
    CommitClient,
    Lance,
    LostRaceError,
    Staged,
    discard,
    is_missing,
)
from tiltyard.errors import ConcurrentModificationError
from tiltyard.store import NotThere, Store
from tiltyard.tables import rewrites
from tiltyard.tables.fragments import Written, must_still_fit, renumbered, widened
from tiltyard.tables.ledger import noted
from tiltyard.tables.rewrites import Rewrite

FENCE = "fence"
NONCE = "tiltyard.nonce"

# How often a write that adds columns looks again after others committed first.
TRIES = 8


@dataclass(frozen=True)
class Pending:
    """Staged files, and the version that they are to follow; None for the first."""

    staged: Staged
    onto: lance.LanceDataset | None
    properties: Mapping[str, str] = field(default_factory=dict)
    client: CommitClient | None = None


class LanceFiles:
    """`lifecycle.recreation.Files`, for real.

    `client_of` tells through which namespace the commits at a location go, if not straight there.
    """

    def __init__(
        self,
        access: Lance,
        store: Store,
        client_of: Callable[[str], CommitClient | None] = lambda location: None,
    ) -> None:
        self._lance = access
        self._store = store
        self._client_of = client_of

    def stage(self, location: str, rows: pa.Table | Written, base: int) -> Pending:
        client = self._client_of(location)
        onto = self._open(location, base, client) if base else None
        if isinstance(rows, Written):
            return Pending(rows.stage(location), onto, rows.properties, client)
        return Pending(self._lance.stage(location, rows, onto), onto, client=client)

    def commit(self, staged: Pending, nonce: str) -> int:
        properties = {**staged.properties, NONCE: nonce}
        with _raising_refusals(staged.client):
            return self._lance.commit(
                staged.staged, staged.onto, properties=properties, through=staged.client
            ).version

    def append(
        self, location: str, rows: Written, base: int, nonce: str, expected: int | None
    ) -> int:
        client = self._client_of(location)
        before = self._open(location, base, client)
        staged = rows.stage(location)
        properties = {**rows.properties, NONCE: nonce}
        try:
            with _raising_refusals(client):
                if rows.evolves:
                    landed = self._widen(before, staged, properties, expected, client)
                else:
                    landed = self._add(before, staged, properties, expected, client, rows.notes)
        except ConcurrentModificationError:
            if expected is None:
                discard(self._store, staged)
            raise
        must_still_fit(before, landed)
        return landed.version

    def rewrite(self, location: str, rewrite: Rewrite, base: int, nonce: str) -> int:
        client = self._client_of(location)
        onto = self._open(location, base, client)
        with _raising_refusals(client):
            return rewrites.commit(self._lance, location, onto, rewrite, {NONCE: nonce})

    def _add(
        self,
        before: lance.LanceDataset,
        staged: Staged,
        properties: dict[str, str],
        expected: int | None,
        client: CommitClient | None,
        notes: Mapping[str, str],
    ) -> lance.LanceDataset:
        if expected is None:
            must_still_fit(before, self._open(staged.location, None, client))
            return self._lance.append(staged, before, properties=properties)
        onto = self._open(staged.location, expected, client)
        must_still_fit(before, onto)
        schema = noted(onto.lance_schema, notes) if notes else onto.lance_schema
        return self._lance.append_strictly(staged, onto, schema, properties)

    def _widen(
        self,
        before: lance.LanceDataset,
        staged: Staged,
        properties: dict[str, str],
        expected: int | None,
        client: CommitClient | None,
    ) -> lance.LanceDataset:
        """Add rows and the columns that only they have, in one commit."""
        tries = range(1 if expected is not None else TRIES)
        for attempt in tries:
            onto = self._open(staged.location, expected, client)
            must_still_fit(before, onto)
            schema = widened(onto, staged.schema)
            numbered = [
                renumbered(fragment, staged.schema, schema) for fragment in staged.fragments
            ]
            following = replace(staged, fragments=numbered)
            try:
                return self._lance.append_strictly(following, onto, schema, properties)
            except LostRaceError:
                if attempt == tries[-1]:
                    raise
        raise AssertionError("unreachable")

    def discard(self, staged: Pending) -> None:
        discard(self._store, staged.staged)

    def written_by(self, location: str, version: int) -> str | None:
        transaction = self._open(location, version).read_transaction(version)
        properties = transaction.transaction_properties if transaction is not None else None
        return (properties or {}).get(NONCE)

    def fence(self, location: str, base: int) -> None:
        """A change of a setting: it conflicts with nothing, and takes the next number."""
        operation = lance.LanceOperation.UpdateConfig(
            config_updates=lance.LanceOperation.UpdateMap({NONCE: FENCE})
        )
        transaction = lance.Transaction(base, operation, transaction_properties={NONCE: FENCE})
        self._lance.commit_anywhere(self._open(location, base), transaction)

    def _open(
        self, location: str, version: int | None, client: CommitClient | None = None
    ) -> lance.LanceDataset:
        try:
            return self._lance.open(location, version) if client is None else client.open(version)
        except FAILURES as error:
            if is_missing(error):
                raise NotThere(f"{location} version {version}") from error
            raise


def _raising_refusals(client: CommitClient | None) -> AbstractContextManager[None]:
    return nullcontext() if client is None else client.raising_refusals()
