"""Roles, and who has one. A role contains those below it; a prefix limits it to a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tiltyard.errors import PermissionDeniedError


class Role(StrEnum):
    """What somebody may do. Readers look, writers change what can be undone, admins the rest."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def allows(self, needed: Role) -> bool:
        """Whether this role contains the other."""
        return _RANK[self] >= _RANK[needed]


_RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. With a prefix, nothing outside that namespace exists for them."""

    name: str
    role: Role
    prefix: tuple[str, ...] = ()

    def may(self, needed: Role) -> bool:
        return self.role.allows(needed)

    def sees(self, identifier: Sequence[str]) -> bool:
        """Whether a table or namespace lies in theirs. The empty id is the whole catalog."""
        return tuple(identifier[: len(self.prefix)]) == self.prefix

    def require(self, needed: Role) -> None:
        """PermissionDeniedError unless they have the role."""
        if not self.may(needed):
            raise PermissionDeniedError(
                f"this needs the role {needed}, and {self.name!r} has {self.role}"
            )

    def require_sight(self, identifier: Sequence[str]) -> None:
        """PermissionDeniedError for what lies outside their namespace."""
        if not self.sees(identifier):
            raise PermissionDeniedError(
                f"{self.name!r} may only use namespace {'.'.join(self.prefix)!r}"
            )


# Whoever reaches a server that listens on the loopback interface only, and has no keys.
LOCAL = Principal("local", Role.ADMIN)
