"""Which tables a job is about, as people name them."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard import names
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace

Name = str | Sequence[str]


def parts_of(name: Name) -> list[str]:
    """The parts of a name that is dotted, like `prod.users`, or has them already."""
    return names.parse_dotted(name) if isinstance(name, str) else list(name)


def choose(
    catalog: DirectoryNamespace, namespace: Name | None, tables: Sequence[Name] | None
) -> list[TableId]:
    """Every table, or those of a namespace and below it, or the given ones, each of them once."""
    found = catalog.maintenance.choose_tables(
        None if namespace is None else parts_of(namespace),
        None if tables is None else [parts_of(each) for each in tables],
    )
    return list(dict.fromkeys(found))
