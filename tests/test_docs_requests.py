"""The tables of requests in the documentation are right: each line is counted on an S3 server, for
our client and for pylance's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lance.namespace
import lance_namespace as api
import pytest

import tiltyard
from tests.behaviours import calls
from tests.kit.buckets import S3Server
from tests.kit.faultproxy import FaultProxy

DOCS = Path(__file__).resolve().parent.parent / "docs"

_LINE = re.compile(r"\| (`.*) \| (\d+|not)[^|]* \| (N|\d+|not)[^|]* \|")

_LIFE = re.compile(r"\| (`.*) \| (\d+) \| (\d+) \| (\d+) \|")


@dataclass(frozen=True)
class Page:
    """A page with a table of requests: the mode that it is about, and where its tables lie."""

    name: str
    properties: Mapping[str, str]
    home: tuple[str, ...] = ()

    def told(self, side: int) -> dict[str, int | None]:
        """What the page says that each operation costs; None where it is not supported."""
        found: dict[str, int | None] = {}
        for match in map(_LINE.fullmatch, (DOCS / self.name).read_text().splitlines()):
            if match is not None:
                for operation in match[1].replace("`, `", "`\n`").splitlines():
                    found[operation] = _number(match[1 + side])
        return found


def _number(text: str) -> int | None:
    if text == "N":  # one for each directory, and one more
        return len(TABLES) + 2
    return None if text == "not" else int(text)


OURS, PEER = 1, 2
TABLES = ("warm", "hidden", "renamed")
PAGES = [
    Page("directory-mode.md", {"manifest_enabled": "false"}),
    Page("manifest-mode.md", {"dir_listing_enabled": "false"}, ("home",)),
    Page("compatibility-mode.md", {}),
]


@dataclass(frozen=True)
class Subject:
    """A client that has been used before, the namespace to use, and where a hidden table lies."""

    client: Any
    home: tuple[str, ...]
    away: str


# In an order in which each has what it needs.
OPERATIONS: dict[str, Callable[[Subject], object]] = {
    "`list_tables`": lambda it: calls.tables(it.client, *it.home),
    "`list_namespaces`": lambda it: calls.namespaces(it.client),
    "`describe_table`": lambda it: calls.describe(it.client, *it.home, "warm"),
    "`describe_table` with details": lambda it: calls.describe(
        it.client, *it.home, "warm", load_detailed_metadata=True
    ),
    "`table_exists`": lambda it: calls.exists(it.client, *it.home, "warm"),
    "`describe_namespace`": lambda it: calls.properties_of(it.client, "home"),
    "`declare_table`": lambda it: calls.declare(it.client, *it.home, "declared"),
    "`declare_tables`, 100 of them": lambda it: it.client.declare_tables(
        [api.DeclareTableRequest(id=[*it.home, f"day_{number}"]) for number in range(100)]
    ),
    "`create_table`, one small file": lambda it: calls.create(it.client, *it.home, "created"),
    "`register_table`": lambda it: calls.register(it.client, *it.home, "away", at=it.away),
    "`deregister_table`": lambda it: calls.deregister(it.client, *it.home, "hidden"),
    "`rename_table`": lambda it: calls.rename(it.client, *it.home, "renamed", to="again"),
    "`drop_table`, one small file": lambda it: calls.drop(it.client, *it.home, "created"),
    "`create_namespace`": lambda it: calls.make_namespace(it.client, "made"),
    "`drop_namespace`": lambda it: calls.drop_namespace(it.client, "empty"),
}


@dataclass(frozen=True)
class TableState:
    """An operation on the trash, and what has to be so before; that is not counted."""

    operation: str
    act: Callable[[Subject], object]
    before: Callable[[Subject], object] = lambda _: None


# In an order in which each has what it needs, on the table `warm`.
LIVES = [
    TableState("`drop_table`", lambda it: calls.drop(it.client, *it.home, "warm")),
    TableState("`table_status`", lambda it: it.client.table_status([*it.home, "warm"])),
    TableState("`hold_table`", lambda it: it.client.hold_table([*it.home, "warm"])),
    TableState("`release_table`", lambda it: it.client.release_table([*it.home, "warm"])),
    TableState("`undrop_table`", lambda it: it.client.undrop_table([*it.home, "warm"])),
    TableState(
        "`create_table` over a dropped table",
        lambda it: calls.create(it.client, *it.home, "warm"),
        before=lambda it: calls.drop(it.client, *it.home, "warm"),
    ),
    TableState(
        "`purge_table`, one small file",
        lambda it: it.client.purge_table([*it.home, "warm"]),
        before=lambda it: calls.drop(it.client, *it.home, "warm"),
    ),
    TableState(
        "`create_table` over a purged table",
        lambda it: calls.create(it.client, *it.home, "warm"),
    ),
]


@pytest.fixture
def proxy(ministack: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as running:
        yield running


@pytest.mark.parametrize("side", [OURS, PEER], ids=["ours", "peer"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_tells_how_many_requests_an_operation_takes(
    ministack: S3Server, proxy: FaultProxy, page: Page, side: int
) -> None:
    kind: Any = tiltyard.DirectoryNamespace if side == OURS else lance.namespace.DirectoryNamespace
    subject = _used_before(_opened(kind, ministack, proxy, page), page)
    told = page.told(side)

    counted = {
        operation: _count(act, subject, proxy)
        for operation, act in OPERATIONS.items()
        if operation in told
    }

    assert len(told) > 5, "the table was found"
    assert counted == told


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_about_lives_tells_what_each_step_takes(
    ministack: S3Server, proxy: FaultProxy, page: Page
) -> None:
    subject = _used_before(_opened(tiltyard.DirectoryNamespace, ministack, proxy, page), page)
    counted = {}
    for each in LIVES:
        each.before(subject)
        counted[each.operation] = _count(each.act, subject, proxy)

    column = 2 + PAGES.index(page)
    lines = (DOCS / "table-lifecycle.md").read_text().splitlines()
    found = filter(None, map(_LIFE.fullmatch, lines))
    assert counted == {match[1]: int(match[column]) for match in found}


def _opened(kind: Any, server: S3Server, proxy: FaultProxy, page: Page) -> Any:
    storage = server.through(proxy.url).storage_options()
    properties = {f"storage.{name}": value for name, value in storage.items()}
    return kind(root=server.new_root(), **page.properties, **properties)


def _used_before(client: Any, page: Page) -> Subject:
    """What only a first call pays is not what is asked here."""
    for name in (*page.home, "empty") if page.home else ():
        calls.make_namespace(client, name)
    calls.create(client, *page.home, "away")
    away = calls.deregister(client, *page.home, "away").location or ""
    for name in TABLES:
        calls.create(client, *page.home, name)
    calls.tables(client, *page.home)
    return Subject(client, page.home, unquote(away.rstrip("/").rpartition("/")[2]))


def _count(act: Callable[[Subject], object], subject: Subject, proxy: FaultProxy) -> int | None:
    try:
        with proxy.recording() as made:
            act(subject)
    except (api.UnsupportedOperationError, NotImplementedError, AttributeError):
        return None
    return len(made)
