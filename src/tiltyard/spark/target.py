"""Which table a data source is about: a name in a catalog, or the path of a Lance directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tiltyard.catalog import names
from tiltyard.errors import InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import STORAGE_PREFIX, Settings
from tiltyard.spark.options import TableOptions


@dataclass(frozen=True)
class Target:
    """One table. Picklable, without a connection; each process opens its own catalog, once.

    Exactly one of `id` and `path` is set. A table that is only a path belongs to no catalog: it is
    read, and written by Lance's own commit.
    """

    id: names.TableId | None = None
    path: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: TableOptions) -> Target:
        """The table that the options name. Names are checked, nothing is opened."""
        table, path, properties = options.table, options.path, options.properties
        if "root" not in properties:
            storage = {
                name: value for name, value in properties.items() if name.startswith(STORAGE_PREFIX)
            }
            return cls(path=_directory_path(table, path), properties=storage)
        if table is not None and path is not None:
            raise InvalidInputError("the table is named twice", hint="by load() or by 'table'")
        identifier = table or path
        if identifier is None:
            raise InvalidInputError(
                "no table is named", hint='load("prod.users"), or option("table", "prod.users")'
            )
        return cls.in_catalog(properties, identifier)

    @classmethod
    def in_catalog(cls, properties: Mapping[str, str], table: str) -> Target:
        """A table by its dotted name. The root becomes absolute: an executor has another working
        directory."""
        settings = Settings.from_properties(properties)
        parts = names.parse_dotted(table)
        return cls(id=names.parse_table_id(parts), properties={**properties, "root": settings.root})

    @property
    def name(self) -> str:
        """The table in a message."""
        return f"'{self.path}'" if self.id is None else names.display(self.id)

    @property
    def root(self) -> str | None:
        return self.properties.get("root")

    @property
    def storage(self) -> dict[str, str]:
        """The storage options as Lance takes them."""
        return {
            name.removeprefix(STORAGE_PREFIX): value
            for name, value in self.properties.items()
            if name.startswith(STORAGE_PREFIX)
        }

    def namespace(self) -> DirectoryNamespace:
        """The catalog, opened once in each process."""
        if self.id is None:
            raise InvalidInputError(
                f"{self.name} is a path and belongs to no catalog", hint="pass the option 'root'"
            )
        return opened(self.properties)


def opened(properties: Mapping[str, str]) -> DirectoryNamespace:
    """A catalog by its properties, opened once in each process."""
    return _opened(tuple(sorted(properties.items())))


@lru_cache(maxsize=32)
def _opened(properties: tuple[tuple[str, str], ...]) -> DirectoryNamespace:
    return DirectoryNamespace(**dict(properties))


def _directory_path(table: str | None, path: str | None) -> str:
    if table is not None:
        raise InvalidInputError(
            f"nothing says where table {table!r} is", hint="pass the option 'root'"
        )
    if path is None:
        raise InvalidInputError(
            "nothing says which table is meant",
            hint="pass 'root' and a table's name, or the path of a Lance directory",
        )
    if "/" not in path and not path.endswith(names.TABLE_SUFFIX):
        raise InvalidInputError(
            f"nothing says where table {path!r} is",
            hint="pass the option 'root', or './' before the name of a directory",
        )
    return path if "://" in path else os.path.abspath(path)
