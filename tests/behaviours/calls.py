"""Requests in the words of a test. Everything goes through `lance_namespace.LanceNamespace`, and
what a table holds is read by pylance, as any other client would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace import errors as lance_errors
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.places import Place

PEOPLE = pa.table({"id": pa.array([1, 2, 3]), "name": pa.array(["ada", "bo", "cy"])})
PLANTS = pa.table({"plant": pa.array(["oak", "ash"])})

Id = Sequence[str] | None


@contextmanager
def refused(*codes: ErrorCode) -> Iterator[pytest.ExceptionInfo[tiltyard.TiltyardError]]:
    """The block ends in an error that is ours and, at once, Lance's class for one of the codes."""
    with pytest.raises(tiltyard.TiltyardError) as caught:
        yield caught
    assert caught.value.code in codes, f"{caught.value.code!r}: {caught.value}"
    expected = type(lance_errors.from_error_code(caught.value.code, ""))
    assert isinstance(caught.value, expected), type(caught.value).__mro__


def ipc(data: pa.Table) -> bytes:
    """An Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return sink.getvalue().to_pybytes()


def ipc_file(data: pa.Table) -> bytes:
    """An Arrow IPC file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, data.schema) as writer:
        writer.write_table(data)
    return sink.getvalue().to_pybytes()


# -- tables


def create(
    catalog: api.LanceNamespace, *table: str, data: pa.Table = PEOPLE, **rest: Any
) -> api.CreateTableResponse:
    return catalog.create_table(api.CreateTableRequest(id=list(table), **rest), ipc(data))


def declare(catalog: api.LanceNamespace, *table: str, **rest: Any) -> api.DeclareTableResponse:
    return catalog.declare_table(api.DeclareTableRequest(id=list(table), **rest))


def describe(catalog: api.LanceNamespace, *table: str, **rest: Any) -> api.DescribeTableResponse:
    return catalog.describe_table(api.DescribeTableRequest(id=list(table), **rest))


def exists(catalog: api.LanceNamespace, *table: str, **rest: Any) -> bool:
    """Whether there is such a table. Any other error is an error."""
    try:
        catalog.table_exists(api.TableExistsRequest(id=list(table), **rest))
    except lance_errors.TableNotFoundError:
        return False
    return True


def drop(catalog: api.LanceNamespace, *table: str, **terms: Any) -> api.DropTableResponse:
    """Only our client takes terms: `ttl` and `reason`."""
    return catalog.drop_table(api.DropTableRequest(id=list(table)), **terms)


def register(
    catalog: api.LanceNamespace, *table: str, at: str, **rest: Any
) -> api.RegisterTableResponse:
    return catalog.register_table(api.RegisterTableRequest(id=list(table), location=at, **rest))


def deregister(catalog: api.LanceNamespace, *table: str) -> api.DeregisterTableResponse:
    return catalog.deregister_table(api.DeregisterTableRequest(id=list(table)))


def rename(
    catalog: api.LanceNamespace, *table: str, to: str, into: list[str] | None = None
) -> api.RenameTableResponse:
    return catalog.rename_table(
        api.RenameTableRequest(id=list(table), new_table_name=to, new_namespace_id=into)
    )


def tables(catalog: api.LanceNamespace, *namespace: str, **rest: Any) -> list[str]:
    answer = catalog.list_tables(api.ListTablesRequest(id=list(namespace), **rest))
    return list(answer.tables)


def all_tables(catalog: api.LanceNamespace, **rest: Any) -> list[str]:
    return list(catalog.list_all_tables(api.ListTablesRequest(**rest)).tables)


# -- namespaces


def make_namespace(
    catalog: api.LanceNamespace, *namespace: str, **rest: Any
) -> api.CreateNamespaceResponse:
    return catalog.create_namespace(api.CreateNamespaceRequest(id=list(namespace), **rest))


def drop_namespace(
    catalog: api.LanceNamespace, *namespace: str, **rest: Any
) -> api.DropNamespaceResponse:
    return catalog.drop_namespace(api.DropNamespaceRequest(id=list(namespace), **rest))


def properties_of(catalog: api.LanceNamespace, *namespace: str) -> dict[str, str] | None:
    answer = catalog.describe_namespace(api.DescribeNamespaceRequest(id=list(namespace)))
    return answer.properties


def namespaces(catalog: api.LanceNamespace, *parent: str, **rest: Any) -> list[str]:
    answer = catalog.list_namespaces(api.ListNamespacesRequest(id=list(parent), **rest))
    return list(answer.namespaces)


def namespace_exists(catalog: api.LanceNamespace, *namespace: str) -> bool:
    """Whether there is such a namespace. Any other error is an error."""
    try:
        catalog.namespace_exists(api.NamespaceExistsRequest(id=list(namespace)))
    except lance_errors.NamespaceNotFoundError:
        return False
    return True


# -- every operation, by its name

Call = Callable[[api.LanceNamespace, Id], object]

TABLE_READS: dict[str, Call] = {
    "describe_table": lambda c, i: c.describe_table(api.DescribeTableRequest(id=i)),
    "table_exists": lambda c, i: c.table_exists(api.TableExistsRequest(id=i)),
}
TABLE_WRITES: dict[str, Call] = {
    "declare_table": lambda c, i: c.declare_table(api.DeclareTableRequest(id=i)),
    "create_table": lambda c, i: c.create_table(api.CreateTableRequest(id=i), ipc(PEOPLE)),
    "register_table": lambda c, i: c.register_table(
        api.RegisterTableRequest(id=i, location="people.lance")
    ),
    "deregister_table": lambda c, i: c.deregister_table(api.DeregisterTableRequest(id=i)),
    "drop_table": lambda c, i: c.drop_table(api.DropTableRequest(id=i)),
    "rename_table": lambda c, i: c.rename_table(
        api.RenameTableRequest(id=i, new_table_name="other")
    ),
}
NAMESPACE_READS: dict[str, Call] = {
    "list_tables": lambda c, i: c.list_tables(api.ListTablesRequest(id=i)),
    "list_namespaces": lambda c, i: c.list_namespaces(api.ListNamespacesRequest(id=i)),
    "describe_namespace": lambda c, i: c.describe_namespace(api.DescribeNamespaceRequest(id=i)),
    "namespace_exists": lambda c, i: c.namespace_exists(api.NamespaceExistsRequest(id=i)),
}
NAMESPACE_WRITES: dict[str, Call] = {
    "create_namespace": lambda c, i: c.create_namespace(api.CreateNamespaceRequest(id=i)),
    "drop_namespace": lambda c, i: c.drop_namespace(api.DropNamespaceRequest(id=i)),
}
TABLE_CALLS = TABLE_READS | TABLE_WRITES
NAMESPACE_CALLS = NAMESPACE_READS | NAMESPACE_WRITES


# -- what a table holds


def dataset(
    catalog: api.LanceNamespace, place: Place, *table: str, version: int | None = None
) -> lance.LanceDataset:
    """The table as pylance opens it at the location that the catalog answers."""
    location = describe(catalog, *table).location
    return lance.dataset(location, version=version, storage_options=place.storage_options or None)


def contents(catalog: api.LanceNamespace, place: Place, *table: str) -> pa.Table:
    return dataset(catalog, place, *table).to_table()


def write_lance(place: Place, key: str, data: pa.Table = PEOPLE) -> str:
    """A table that no catalog knows of, written by pylance; returns its location."""
    uri = place.uri(key)
    lance.write_dataset(data, uri, storage_options=place.storage_options or None)
    return uri
