"""The versions of a table's files, as the lifecycle writes and reads them: through pylance."""

from __future__ import annotations

from dataclasses import dataclass

import lance
import pyarrow as pa

from tiltyard.catalog.pylance import FAILURES, Lance, Staged, discard
from tiltyard.store import NotThere, Store

FENCE = "fence"
NONCE = "tiltyard.nonce"


@dataclass(frozen=True)
class Pending:
    """Staged files, and the version that they are to follow; None for the first."""

    staged: Staged
    onto: lance.LanceDataset | None


class LanceFiles:
    """`lifecycle.files.Files`, for real."""

    def __init__(self, access: Lance, store: Store) -> None:
        self._lance = access
        self._store = store

    def stage(self, location: str, rows: pa.Table, base: int) -> Pending:
        onto = self._open(location, base) if base else None
        return Pending(self._lance.stage(location, rows, onto), onto)

    def commit(self, staged: Pending, nonce: str) -> int:
        return self._lance.commit(staged.staged, staged.onto, properties={NONCE: nonce}).version

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
