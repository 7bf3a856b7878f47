"""What the lifecycle needs of a table's files: write a version strictly, and tell whose it is.

`catalog.pylance.Lance` does this for real; the explorer has a twin that does it with plain objects.
"""

from __future__ import annotations

from typing import Any, Protocol

# The nonce of a version that only keeps others out.
FENCE = "fence"


class Files(Protocol):
    """Versions of tables. A nonce goes into every commit, so that its writer can be recognised."""

    def stage(self, location: str, rows: Any, base: int) -> Any:
        """Write data files under names that only we can have made, for the version after `base`.

        NotThere if a `base` above 0 is gone.
        """

    def commit(self, staged: Any, nonce: str) -> int:
        """Make staged files the version after their base, or nothing: LostRaceError."""

    def append(self, location: str, rows: Any, base: int, nonce: str, expected: int | None) -> int:
        """Add rows that were written for the version `base` to whatever version is the latest.

        With `expected` only to that very version. LostRaceError if what came since does not allow
        it; NotThere if `base` is gone.
        """

    def rewrite(self, location: str, rewrite: Any, base: int, nonce: str) -> int:
        """Take rows out of the version `base` and put others in: LostRaceError, NotThere."""

    def discard(self, staged: Any) -> None:
        """Remove staged files that no version can come to refer to."""

    def written_by(self, location: str, version: int) -> str | None:
        """The nonce of a version's commit, None if it is not one of ours. NotThere."""

    def fence(self, location: str, base: int) -> None:
        """See to it that the version after `base` exists, without changing what the table holds.

        The commit carries the nonce FENCE. A version that is there already will do.
        """
