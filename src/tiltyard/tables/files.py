"""The versions of a table's files, as the lifecycle writes and reads them: through pylance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import lance
import pyarrow as pa

from tiltyard.catalog.pylance import FAILURES, Lance, LostRaceError, Staged, discard
from tiltyard.store import NotThere, Store
from tiltyard.tables.fragments import Written, must_still_fit

FENCE = "fence"
NONCE = "tiltyard.nonce"


@dataclass(frozen=True)
class Pending:
    """Staged files, and the version that they are to follow; None for the first."""

    staged: Staged
    onto: lance.LanceDataset | None
    properties: Mapping[str, str] = field(default_factory=dict)


class LanceFiles:
    """`lifecycle.files.Files`, for real."""

    def __init__(self, access: Lance, store: Store) -> None:
        self._lance = access
        self._store = store

    def stage(self, location: str, rows: pa.Table | Written, base: int) -> Pending:
        onto = self._open(location, base) if base else None
        if isinstance(rows, Written):
            return Pending(rows.stage(location), onto, rows.properties)
        return Pending(self._lance.stage(location, rows, onto), onto)

    def commit(self, staged: Pending, nonce: str) -> int:
        properties = {**staged.properties, NONCE: nonce}
        return self._lance.commit(staged.staged, staged.onto, properties=properties).version

    def append(
        self, location: str, rows: Written, base: int, nonce: str, expected: int | None
    ) -> int:
        before = self._open(location, base)
        onto = before if expected in (None, base) else self._open(location, expected or 0)
        latest = self._lance.open(location) if expected is None else onto
        must_still_fit(before, latest)
        staged = rows.stage(location)
        try:
            landed = self._lance.append(
                staged,
                onto,
                strictly=expected is not None,
                properties={**rows.properties, NONCE: nonce},
            )
        except LostRaceError:
            if expected is None:
                discard(self._store, staged)
            raise
        must_still_fit(before, landed)
        return landed.version

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

    def _open(self, location: str, version: int) -> lance.LanceDataset:
        try:
            return self._lance.open(location, version)
        except FAILURES as error:
            if "not found" in str(error).lower():
                raise NotThere(f"{location} version {version}") from error
            raise
