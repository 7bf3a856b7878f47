"""What a catalog answers, whichever way it keeps its names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tiltyard.catalog import names
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import expiry
from tiltyard.errors import (
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table that exists: its id, its directory below the root, and what the catalog keeps of it.

    `only_declared` is None where finding the table did not show whether it has a version yet;
    `properties` is None where the mode has no place for them. The versions of a `managed` table are
    rows of the manifest; while it is `becoming_managed` they are about to be, and readers go by its
    files.
    """

    id: TableId
    location: str
    only_declared: bool | None = None
    properties: Mapping[str, str] | None = None
    managed: bool = False
    becoming_managed: bool = False

    @property
    def has_marker(self) -> bool:
        """Whether it lies at `<name>.lance`, where its marker decides about it, and not its row."""
        return names.is_marked(self.id, self.location)


@dataclass(frozen=True, slots=True)
class CreateTarget:
    """Where a create goes: a table that exists, or a place for one that does not."""

    table: Table
    exists: bool


class CreateMode(StrEnum):
    """What to do if the table or namespace to create exists."""

    CREATE = "create"
    EXIST_OK = "exist_ok"
    OVERWRITE = "overwrite"


class RegisterMode(StrEnum):
    """What to do if the name to register is taken."""

    CREATE = "create"
    OVERWRITE = "overwrite"


class DropBehaviour(StrEnum):
    """What to do if the namespace to drop is not empty."""

    RESTRICT = "restrict"
    CASCADE = "cascade"


@dataclass(frozen=True, slots=True)
class DropTerms:
    """Who drops a table, why, and for how long it can be brought back; None is for ever."""

    ttl_ms: int | None
    by: str
    reason: str | None = None


class Catalog(Protocol):
    """Which names exist and where they live."""

    def create_namespace(
        self, namespace: NamespaceId, mode: CreateMode, properties: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Make a namespace and return its properties. NamespaceAlreadyExistsError."""

    def describe_namespace(self, namespace: NamespaceId) -> Mapping[str, str]:
        """The properties of a namespace. NamespaceNotFoundError."""

    def known_properties(self, namespace: NamespaceId) -> Mapping[str, str]:
        """The properties of a namespace as they were read last. No request."""

    def drop_namespace(self, namespace: NamespaceId, behaviour: DropBehaviour) -> Mapping[str, str]:
        """Remove a namespace and return its properties. NamespaceNotEmptyError."""

    def list_tables(self, namespace: NamespaceId) -> Sequence[str]:
        """Names of the tables of one namespace, sorted."""

    def list_all_tables(self) -> Sequence[str]:
        """Object ids of all tables, sorted."""

    def list_namespaces(self, parent: NamespaceId) -> Sequence[str]:
        """Names of the namespaces of one namespace, sorted."""

    def find(self, table: TableId) -> Table:
        """Where a table lies. TableNotFoundError."""

    def holder(self, table: TableId) -> Table | None:
        """Who has a name: None if it is free, or its table is in the trash.

        TableAlreadyExistsError if the name is taken by something that is hidden.
        """

    def is_only_declared(self, table: Table) -> bool:
        """Whether a table has no version yet."""

    def latest(self, table: Table) -> VersionFile | None:
        """The latest version of a table that was found, hidden ones not counted."""

    def declare_all(self, tables: Mapping[TableId, Mapping[str, str]]) -> list[Table]:
        """Reserve names with their properties, and locations for them. TableAlreadyExistsError."""

    def create_target(self, table: TableId, properties: Mapping[str, str]) -> CreateTarget:
        """The table that has a name, or where the next one will be written and what it will keep.

        TableAlreadyExistsError if the name is taken by something that is hidden.
        """

    def publish(self, table: Table) -> None:
        """Make a table known whose first version was committed at the place it was given."""


def no_such_namespace(namespace: NamespaceId) -> NamespaceNotFoundError:
    return NamespaceNotFoundError(f"there is no namespace {names.display(namespace)}")


def no_such_table(table: TableId, hint: str | None = None) -> TableNotFoundError:
    return TableNotFoundError(f"table {names.display(table)} was not found", hint=hint)


def in_the_trash(deleted_at_ms: int, ttl_ms: int | None) -> str:
    """The hint for a table that can be brought back."""
    until = expiry(deleted_at_ms, ttl_ms)
    when = f"until {until:%Y-%m-%d %H:%M} UTC" if until else "and stays there"
    return f"it is in the trash {when}; undrop_table brings it back"


def already_exists(table: TableId, hint: str | None = None) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(f"table {names.display(table)} already exists", hint=hint)
