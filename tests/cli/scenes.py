"""A small catalog that has some of everything, and each verb at work on a copy of it.

What a verb prints is kept in `golden/`: to people, and as JSON. What differs from run to run
(times, sizes, generations, places) stands there as a word in capitals.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
from lance_namespace import CreateTableBranchRequest, CreateTableIndexRequest

from tiltyard import connect
from tiltyard.cli import main

GOODS = pa.table({"sku": ["L-1", "C-2"], "name": ["Lamp", "Chair"], "price": [19.5, 89.0]})
ALWAYS = ("-p", "actor=ada")

LAKE = """
ns create shop --set owner=ada
table create shop.goods goods.csv
table create shop.goods goods.csv --mode overwrite
table tag shop.goods spring 1
table create stock goods.csv
table declare later
table create old goods.csv
table drop old --reason 'last year'
table create kept goods.csv
table drop kept --ttl never
table hold kept
table create guarded goods.csv
table protect guarded
--mode directory table create lying goods.csv
keys add grace --role admin --keys keys.toml
"""


@dataclass(frozen=True)
class Scene:
    """What a verb is tried with, and what has to be done before."""

    arguments: str = ""
    before: str = ""


SCENES = {
    "table list": Scene("--all"),
    "table describe": Scene("shop.goods"),
    "table exists": Scene("stock"),
    "table versions": Scene("shop.goods"),
    "table count": Scene("shop.goods"),
    "table head": Scene("shop.goods"),
    "table create": Scene("new goods.csv"),
    "table declare": Scene("one two"),
    "table rename": Scene("stock shop.stock"),
    "table register": Scene("again again.lance", "table deregister again"),
    "table deregister": Scene("stock"),
    "table query": Scene("shop.goods --where 'price < 50' --columns sku,price"),
    "table indexes": Scene("stock"),
    "table tags": Scene("shop.goods"),
    "table tag": Scene("stock autumn"),
    "table untag": Scene("shop.goods spring"),
    "table branches": Scene("stock"),
    "table restore": Scene("shop.goods 1"),
    "table drop": Scene("stock --reason 'counted anew'"),
    "table undrop": Scene("old --as older"),
    "table status": Scene("old"),
    "table hold": Scene("old"),
    "table release": Scene("kept"),
    "table protect": Scene("stock"),
    "table unprotect": Scene("guarded"),
    "table hide-version": Scene("shop.goods 1", "manage"),
    "table show-version": Scene("shop.goods 1", "manage\ntable hide-version shop.goods 1"),
    "trash list": Scene("--bytes"),
    "trash purge": Scene("old --apply --yes"),
    "trash restore": Scene("old"),
    "ns create": Scene("shop.outlet --set owner=grace"),
    "ns list": Scene(),
    "ns describe": Scene("shop"),
    "ns drop": Scene("shop --behavior cascade --yes"),
    "optimize": Scene("stock"),
    "cleanup": Scene("stock --keep-versions 3 --min-age 0s --allow-young"),
    "doctor": Scene(),
    "recover": Scene(),
    "repair": Scene("shop.goods", "manage"),
    "orphans": Scene(),
    "manage": Scene(),
    "snapshot": Scene("--managed-only", "manage"),
    "migrate": Scene(),
    "config show": Scene("-p storage.secret_access_key=hunter2"),
    "keys add": Scene("ada --role writer --namespace shop --keys keys.toml"),
    "keys list": Scene("--keys keys.toml"),
    "keys revoke": Scene("grace --keys keys.toml"),
}
BY_SPARK = {
    "sql": Scene("'SELECT sku, price FROM shop.goods ORDER BY price'"),
    "jobs ingest": Scene("new=goods.csv"),
    "jobs export": Scene("files stock"),
    "jobs inventory": Scene("stock"),
    "jobs orphans": Scene(),
    "jobs migrate": Scene(),
    "jobs optimize": Scene("stock"),
    "jobs cleanup": Scene("stock --keep-versions 3"),
    "jobs purge": Scene("old --apply --yes"),
    "jobs index": Scene("stock price --name by_price"),
    "jobs maintain": Scene("--apply --yes"),
}
NOT_SHOWN = {
    "serve": "it prints its log, and ends when it is stopped: tests/cli/test_serve.py",
    "completion": "it prints what typer has for the shell: tests/cli/test_terminal.py",
}


def build(here: Path) -> None:
    """The catalog `lake` in a directory, and a file to create tables from."""
    (here / "goods.csv").write_text("sku,name,price\nL-1,Lamp,19.5\nC-2,Chair,89.0\n")
    os.chdir(here)
    for line in LAKE.strip().splitlines():
        assert run(line) == 0, line
    catalog = connect("lake")
    for _ in range(4):
        lance.write_dataset(GOODS, namespace_client=catalog, table_id=["stock"], mode="append")
    catalog.create_table_scalar_index(
        CreateTableIndexRequest(id=["stock"], column="sku", index_type="BTREE")
    )
    catalog.create_table_branch(CreateTableBranchRequest(id=["stock"], name="trial"))
    lance.write_dataset(GOODS, "lake/again.lance")
    stray = here / "lake" / "stock.lance" / "data" / "stray.lance"
    stray.write_bytes(b"left over")
    long_ago = (datetime.now(UTC) - timedelta(days=30)).timestamp()
    os.utime(stray, (long_ago, long_ago))


def run(line: str, *options: str) -> int:
    return main(["--root", "lake", *ALWAYS, "--no-input", *shlex.split(line), *options])


def copied(template: Path, here: Path) -> None:
    """A copy of a catalog with the times of its files, which tell what is old."""
    shutil.copytree(template, here, copy_function=shutil.copy2)
    os.chdir(here)


_VARIABLE = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00| UTC)"), "TIME"),
    (re.compile(r"(?<![\w.])[0-9a-f]{16}\b"), "GENERATION"),
    (re.compile(r"\bjust now|\b\d+ minutes? ago"), "NOW"),
    (re.compile(r"\b[0-9a-f]{8}_"), "HASH_"),
    (re.compile(r"\b[\d.]+ (bytes?|kB|MB)"), "SIZE"),
    (re.compile(r"(\w*bytes\w*\"): \d+"), r"\1: SIZE"),
    (re.compile(r"\b[\d.]+ s\b"), "SECONDS"),
    (re.compile(r"(\"\w*seconds\"): [\d.e-]+"), r"\1: SECONDS"),
    (re.compile(r"\bty_[0-9a-f]+_[\w-]+"), "KEY"),
    (re.compile(r"\bin \d+ (days|hours)"), "SOON"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
    (re.compile(r"─+"), "───"),
]


def steady(text: str, here: Path) -> str:
    """What was printed, without what changes from run to run; columns are less wide."""
    text = text.replace(str(here.resolve()), "HERE")
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())
