"""Lance's own clients over HTTP, and ours: a day's work through a server that asks for keys."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import lance_namespace as api
import lancedb
import pyarrow as pa
import pytest
from lance.namespace import RestNamespace

import tiltyard
from tests.behaviours.calls import PEOPLE, ipc
from tests.kit.rest import serving
from tests.rest.conftest import People
from tiltyard.errors import InvalidInputError, PermissionDeniedError, TableNotFoundError
from tiltyard.rest.client import RestCatalog
from tiltyard.rest.server import ServerSettings


@pytest.fixture
def address(namespace: tiltyard.DirectoryNamespace, people: People) -> Iterator[str]:
    with serving(namespace, ServerSettings(keys=people.path)) as made:
        yield made


def test_pylance_reads_and_writes_tables_by_name(address: str, people: People) -> None:
    client = RestNamespace(uri=address, **{"header.x-api-key": people.keys["writer"]})
    rows = pa.table({"id": [7], "name": ["eve"]})

    lance.write_dataset(rows, namespace_client=client, table_id=["prod", "people"], mode="append")
    lance.write_dataset(rows, namespace_client=client, table_id=["prod", "plants"])

    people_now = lance.dataset(namespace_client=client, table_id=["prod", "people"])
    assert people_now.count_rows() == len(PEOPLE) + 1
    plants = lance.dataset(namespace_client=client, table_id=["prod", "plants"])
    assert plants.to_table() == rows


def test_lancedb_lives_on_the_server(address: str, people: People) -> None:
    key = {"header.x-api-key": people.keys["writer"]}
    db = lancedb.connect_namespace("rest", {"uri": address, **key})

    table = db.create_table("plants", pa.table({"id": [1, 2], "plant": ["oak", "ash"]}))
    table.add(pa.table({"id": [3], "plant": ["elm"]}))

    assert "plants" in db.list_tables().tables
    assert db.open_table("plants").count_rows() == 3
    assert db.open_table("plants").search().where("id > 1").to_arrow()["plant"].to_pylist() == [
        "ash",
        "elm",
    ]
    db.drop_table("plants")
    assert "plants" not in db.list_tables().tables
    assert RestCatalog(address, key=people.keys["writer"]).undrop_table(["plants"]).location


def test_our_client_drops_restores_and_purges(address: str, people: People) -> None:
    catalog = RestCatalog(address, key=people.keys["admin"])
    direct = api.DropTableRequest(id=["people"])

    catalog.drop_table(direct, ttl="3d", reason="a test")
    [dropped] = catalog.list_trash(with_bytes=True)
    assert (dropped.id, dropped.reason, dropped.dropped_by) == (("people",), "a test", "admin")
    assert (dropped.expires_at - dropped.dropped_at).days == 3

    catalog.undrop_table(["people"], as_id=["prod", "again"])
    assert catalog.table_status(["prod", "again"]).state == "exists"

    catalog.drop_table(api.DropTableRequest(id=["prod", "again"]))
    [receipt] = catalog.apply_purge(catalog.plan_purge([["prod", "again"]]))
    assert (receipt.outcome, receipt.by) == ("purged", "admin")


def test_our_client_counts_as_a_catalog_of_this_machine_does(
    address: str, people: People, namespace: tiltyard.DirectoryNamespace
) -> None:
    remote = RestCatalog(address, key=people.keys["reader"]).maintenance
    local = namespace.maintenance
    reported: list[str] = []

    counted = remote.inventory_all_tables(progress=lambda table, *_: reported.append(table.table))

    assert counted == local.inventory_all_tables()
    assert reported == ["people", "prod.people", "test.people"]
    assert remote.inventory_all_tables(["prod"]) == counted[1:2]
    assert remote.inventory_table(["people"]) == counted[0]
    assert remote.inventory_versions(["people"]) == local.inventory_versions(["people"])


def test_our_client_raises_what_the_server_had(address: str, people: People) -> None:
    reader = RestCatalog(address, key=people.keys["reader"])

    with pytest.raises(TableNotFoundError) as missing:
        reader.describe_table(api.DescribeTableRequest(id=["nobody"]))
    with pytest.raises(PermissionDeniedError, match="needs the role admin"):
        reader.purge_table(["people"])
    with pytest.raises(InvalidInputError):
        reader.list_trash(with_bytes="perhaps")
    assert missing.value.message == "table 'nobody' was not found"


def test_a_table_created_by_one_client_is_there_for_the_next(address: str, people: People) -> None:
    writer = RestCatalog(address, key=people.keys["writer"])
    reader = RestCatalog(address, key=people.keys["reader"])

    writer.create_table(api.CreateTableRequest(id=["plants"]), ipc(PEOPLE))

    assert reader.count_table_rows(api.CountTableRowsRequest(id=["plants"])).count == 3
