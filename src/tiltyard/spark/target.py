"""Which table a data source is about: a name in a catalog, or the path of a Lance directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache

from tiltyard import names
from tiltyard.errors import InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import STORAGE_PREFIX, Settings
from tiltyard.spark.options import Options

PROPERTIES = frozenset(each.name for each in fields(Settings)) - {"storage"}

# What says which table is meant and how to reach it, whatever is done with it then.
TARGET_OPTIONS = PROPERTIES | {"path", "table"}

_OF_CREATE_TABLE = "option."  # how Spark hands over the options of CREATE TABLE, that one time


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
    def parse(cls, options: Options) -> Target:
        """Take the table out of the options. Names are checked, nothing is opened."""
        if not options or any(name.startswith(_OF_CREATE_TABLE) for name in options):
            raise InvalidInputError(
                "a table of Spark's own catalog keeps no options for a Python source, so nothing "
                "would say which table is meant",
                hint="use CREATE TEMPORARY VIEW, tiltyard.spark.attach(), or SELECT ... FROM t "
                "WITH (...)",
            )
        table, path = options.text("table"), options.text("path")
        storage = {
            name: value for name, value in options.items() if name.startswith(STORAGE_PREFIX)
        }
        if options.text("root") is None:
            return cls(path=_plain_path(table, path), properties=storage)
        if table is not None and path is not None:
            raise InvalidInputError("the table is named twice", hint="by load() or by 'table'")
        identifier = table or path
        if identifier is None:
            raise InvalidInputError(
                "no table is named", hint='load("prod.users"), or option("table", "prod.users")'
            )
        given = {name: value for name, value in options.items() if name in PROPERTIES}
        return cls.in_catalog({**given, **storage}, identifier)

    @classmethod
    def in_catalog(cls, properties: Mapping[str, str], table: str) -> Target:
        """A table by its dotted name. The root becomes absolute, as executors live elsewhere."""
        settings = Settings.from_properties(properties)
        parts = names.parse_dotted(table)
        return cls(id=names.parse_table_id(parts), properties={**properties, "root": settings.root})

    @property
    def name(self) -> str:
        """The table as a person reads it in a message."""
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


def _plain_path(table: str | None, path: str | None) -> str:
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
