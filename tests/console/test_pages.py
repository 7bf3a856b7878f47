"""What each page shows of a catalog, and the headers that it is sent with."""

from __future__ import annotations

import re
from datetime import timedelta
from html import escape
from pathlib import Path

import lance_namespace as api
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import tiltyard
from tests.behaviours.calls import create, drop
from tests.console import sample
from tests.console.conftest import ADDRESS, User
from tiltyard.console import PAGES, pages
from tiltyard.rest.app import create_app
from tiltyard.rest.server import ServerSettings

READ = sorted(page.path.removeprefix("/") for page in PAGES if page.method == "GET")
PLAIN = [path for path in READ if path not in ("login", "run", "table")]


def test_the_overview_counts_tables_bytes_and_what_expires(user: User) -> None:
    page = user.page()
    assert re.search(r"<dt>Tables</dt><dd>5</dd><dd class=\"note\">14,900 rows", page)
    assert re.search(r"<dt>Trash</dt><dd>[\d.]+ kB</dd><dd class=\"note\">4 dropped tables", page)
    soonest = re.findall(r"</span>(prices_old|orders_2023|scratch|clicks)</span>", page)
    assert soonest == ["prices_old", "orders_2023", "scratch", "clicks"]


def test_the_overview_is_counted_again_when_somebody_asks(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    user.page()
    create(catalog, "shop", "returns")
    assert "<dt>Tables</dt><dd>5</dd>" in user.page()
    assert "<dt>Tables</dt><dd>6</dd>" in user.send("count", page="").text


def test_tables_are_listed_below_a_namespace_and_found_by_a_part_of_their_id(
    user: User,
) -> None:
    assert _linked(user.page("tables?in=shop")) == [
        "shop.customers",
        "shop.eu.orders",
        "shop.orders",
    ]
    assert _linked(user.page("tables?q=EU.ord")) == ["shop.eu.orders"]
    assert "No table is called so" in user.page("tables?q=nothing")


def test_a_table_shows_its_schema_versions_tags_branches_and_rows(user: User) -> None:
    page = user.page("table?id=shop.orders")
    assert re.search(r"<td>amount</td><td><code>float64</code>", page)
    assert page.count("<circle") == 6
    assert re.search(r"<td>3</td>.*?audited", page)
    assert "trial" in page
    assert "customer 864" in page
    assert "Its small fragments can be joined" in page


def test_a_vector_is_shortened(user: User) -> None:
    assert re.search(
        r"\[-?[\d.]+, -?[\d.]+, -?[\d.]+, …\] \(96\)", user.page("table?id=search.manuals")
    )


def test_a_declared_table_says_that_it_is_empty(user: User) -> None:
    assert "Declared, and empty" in user.page("table?id=staging.import")


def test_a_table_that_can_not_be_read_still_has_a_page(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    described = catalog.describe_table(api.DescribeTableRequest(id=["shop", "customers"]))
    for file in (Path(str(described.location)) / "_versions").iterdir():
        file.write_bytes(b"broken")
    assert 'role="alert"' in user.page("table?id=shop.customers")
    assert "1 table can't be read" in user.send("count", page="").text


def test_the_trash_shows_who_dropped_what_and_until_when(user: User) -> None:
    page = user.page("trash")
    assert "nobody reads it" in page
    assert "by ada" in page
    assert ">in 4 days</time>" in page
    assert page.count(">expired</span>") == 1


def test_events_tell_of_drops_and_of_what_was_done_here(user: User) -> None:
    user.send("trash/hold", page="trash", id="shop.clicks")
    page = user.page("events")
    assert re.search(
        r"local</td><td[^>]*>hold table</td><th[^>]*>shop.clicks</th><td[^>]*>done", page
    )
    assert "replaced by shop.orders" in page


def test_the_doctor_names_the_command_that_mends(user: User) -> None:
    page = user.page("doctor")
    assert "trash due" in page
    assert "tiltyard trash purge --apply" in page


def test_an_empty_catalog_has_pages_too(tmp_path: Path) -> None:
    empty = create_app(tiltyard.connect(tmp_path / "empty"), ServerSettings(), pages=pages())
    with TestClient(empty, base_url=ADDRESS) as client:
        for path in PLAIN:
            assert User(client).get(path).status_code == 200


@pytest.mark.parametrize(
    "path", ["nowhere", "table?id=no.such", "run?id=0", "tables?in=nothing.here"]
)
def test_what_is_not_there_has_a_page_that_says_so(user: User, path: str) -> None:
    answer = user.get(path)
    assert answer.status_code == 404
    assert "That did not work" in answer.text


@pytest.mark.parametrize(
    "path", ["table", "table?id=", 'table?id="', "tables?in=.", "table?id=a$b"]
)
def test_an_id_that_is_none_is_refused(user: User, path: str) -> None:
    assert user.get(path).status_code == 400


def test_names_texts_and_rows_of_others_are_only_ever_text(
    user: User, catalog: tiltyard.DirectoryNamespace, tmp_path: Path
) -> None:
    # A name can have no slash, so it is one that needs none.
    name = "<img src=x onerror=alert(1)>"
    rows = pa.table({"<b>": [sample.HOSTILE]})
    create(catalog, "shop", name, data=rows)
    create(catalog, "shop", f"{name} gone", data=rows)
    drop(
        sample.open_at(tmp_path / "lake", timedelta(hours=1)),
        "shop",
        f"{name} gone",
        reason=sample.HOSTILE,
    )
    seen = [user.page(f"table?id=shop.{name}"), *(user.page(path) for path in PLAIN)]
    seen.append(user.page(f"tables?q={name}"))
    seen.append(user.get(f"table?id=shop.{name} missing").text)
    for page in seen:
        assert "<img src=x" not in page
        assert "<script>alert" not in page
    assert sum(escape(name) in page for page in seen) >= 6


@pytest.mark.parametrize("path", PLAIN)
def test_a_page_has_a_strict_policy_and_nothing_inline(user: User, path: str) -> None:
    answer = user.get(path)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", answer.text)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer.text)


def test_scripts_and_styles_are_ours_and_there_is_nothing_else(user: User) -> None:
    page = user.page()
    for address in re.findall(r'"(/console/static/[^"]+)"', page):
        answer = user.client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert user.get("static/..%2fpages.py").status_code == 404
    assert user.get("static/nothing").status_code == 404


def test_the_chosen_theme_is_there_from_the_first_paint(user: User) -> None:
    assert 'data-theme="auto"' in user.page()
    user.client.cookies.set("tiltyard_theme", "dark", path="/console")
    assert 'data-theme="dark"' in user.page()


def _linked(page: str) -> list[str]:
    return re.findall(r'href="/console/table\?id=([^"]+)"', page)
