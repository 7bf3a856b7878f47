"""A small catalog to look at: a shop with a few tables, their versions, and what was dropped."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import lance_namespace as api
import pyarrow as pa

import tiltyard
from tests.behaviours.calls import create, drop, ipc
from tiltyard.clock import SYSTEM_CLOCK, Clock

HOSTILE = "<script>alert(1)</script>"


def open_at(root: Path, ago: timedelta) -> tiltyard.DirectoryNamespace:
    """The catalog as it is used some time ago: what is dropped was dropped then."""
    past = Clock(
        lambda: SYSTEM_CLOCK.now_ms() - round(ago.total_seconds() * 1000), SYSTEM_CLOCK.token
    )
    with patch("tiltyard.clock.SYSTEM_CLOCK", past):
        return tiltyard.connect(root, dir_listing_enabled=False, actor="ada")


def orders(count: int, first: int = 0) -> pa.Table:
    dice = random.Random(first)
    return pa.table(
        {
            "order_id": pa.array(range(first, first + count), pa.int64()),
            "customer": [f"customer {dice.randrange(900):03}" for _ in range(count)],
            "amount": [round(dice.uniform(5, 400), 2) for _ in range(count)],
            "shipped": [dice.random() < 0.7 for _ in range(count)],
        }
    )


def vectors(count: int, size: int = 96) -> pa.Table:
    dice = random.Random(count)
    numbers = pa.array([dice.gauss(0, 1) for _ in range(count * size)], pa.float32())
    return pa.table(
        {
            "doc": [f"manual/page-{page}.md" for page in range(count)],
            "embedding": pa.FixedSizeListArray.from_arrays(numbers, size),
        }
    )


def fill(root: Path) -> tiltyard.DirectoryNamespace:
    """Make the shop in an empty directory."""
    catalog = tiltyard.connect(root, dir_listing_enabled=False, actor="ada")
    for namespace in (["shop"], ["shop", "eu"], ["search"], ["staging"]):
        catalog.create_namespace(api.CreateNamespaceRequest(id=namespace))
    create(catalog, "shop", "orders", data=orders(4000))
    for batch in range(1, 6):
        more = ipc(orders(400 * batch, 4000 * batch))
        catalog.insert_into_table(api.InsertIntoTableRequest(id=["shop", "orders"]), more)
    tag = api.CreateTableTagRequest(id=["shop", "orders"], tag="audited", version=3)
    catalog.create_table_tag(tag)
    branch = api.CreateTableBranchRequest(id=["shop", "orders"], name="trial", from_version=4)
    catalog.create_table_branch(branch)
    create(catalog, "shop", "eu", "orders", data=orders(2500))
    create(catalog, "shop", "customers", data=orders(900))
    create(catalog, "search", "manuals", data=vectors(1500))
    catalog.declare_table(api.DeclareTableRequest(id=["staging", "import"]))
    return catalog


def throw_away(root: Path) -> None:
    """Drop some tables of the shop, at different times."""
    for name, ago, terms in (
        ("orders_2023", timedelta(days=6, hours=20), {"reason": "replaced by shop.orders"}),
        ("clicks", timedelta(days=3), {"reason": "nobody reads it"}),
        ("scratch", timedelta(hours=5), {"ttl": "2d"}),
        ("prices_old", timedelta(days=9), {"reason": "moved to shop.eu"}),
    ):
        catalog = open_at(root, ago)
        create(catalog, "shop", name, data=orders(300 * len(name)))
        drop(catalog, "shop", name, **terms)
