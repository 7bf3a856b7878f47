"""Roles and principals. A role includes the roles below it; a prefix limits a principal to one
namespace and everything below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tiltyard.errors import PermissionDeniedError


class Role(StrEnum):
    """A reader reads, a writer also changes what can be undone, an admin does everything."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def allows(self, needed: Role) -> bool:
        """Whether this role includes the other."""
        return _RANK[self] >= _RANK[needed]


_RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client. With a prefix, it sees that namespace and nothing else."""

    name: str
    role: Role
    prefix: tuple[str, ...] = ()

    def has_role(self, needed: Role) -> bool:
        return self.role.allows(needed)

    def sees(self, identifier: Sequence[str]) -> bool:
        """Whether a table or namespace lies inside the prefix. The empty id is the whole catalog:
        only a principal without a prefix sees it."""
        return tuple(identifier[: len(self.prefix)]) == self.prefix

    def require_role(self, needed: Role) -> None:
        """PermissionDeniedError unless the principal has the role."""
        if not self.has_role(needed):
            raise PermissionDeniedError(
                f"this needs the role {needed}, and {self.name!r} has {self.role}"
            )

    def require_visible(self, identifier: Sequence[str]) -> None:
        """PermissionDeniedError unless the principal sees the table or namespace."""
        if not self.sees(identifier):
            raise PermissionDeniedError(
                f"{self.name!r} may only use namespace {'.'.join(self.prefix)!r}"
            )

    def authorize(self, needed: Role, identifiers: Iterable[Sequence[str]]) -> None:
        """PermissionDeniedError unless the principal has the role and sees every id."""
        self.require_role(needed)
        for identifier in identifiers:
            self.require_visible(identifier)


# Every client of a server without keys, which listens on the loopback interface only.
LOCAL = Principal("local", Role.ADMIN)
