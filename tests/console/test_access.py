"""Who may come in, and what they may do there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route
from starlette.testclient import TestClient

import tiltyard
from tests.console.conftest import ADDRESS, LogIn, User
from tiltyard.access import Keyring, Role
from tiltyard.console import PAGES, pages
from tiltyard.console.pages import Page
from tiltyard.console.pages import roles as console_roles
from tiltyard.lifecycle.trash import TableState
from tiltyard.rest.app import create_app
from tiltyard.rest.app import roles as rest_roles
from tiltyard.rest.routing import Router
from tiltyard.rest.server import ServerSettings

FORMS = [page for page in PAGES if page.method == "POST"]


def _name(page: Page) -> str:
    return f"{page.method} {page.path}"


def _ask(user: User, page: Page) -> int:
    path = page.path.removeprefix("/")
    if page.method == "GET":
        return user.client.get(f"/console/{path}", follow_redirects=False).status_code
    data = {"token": user.token(), "id": "no.such", "typed": "no.such", "job": "none"}
    return user.client.post(f"/console/{path}", data=data, follow_redirects=False).status_code


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_no_page_works_without_its_role(log_in: LogIn, page: Page) -> None:
    for role in (None, *Role):
        status = _ask(log_in(role), page)
        if page.role is None:
            assert status in (200, 303) or (page.path, status) == ("/login", 403)
        elif role is None:
            assert status == 303  # to the login
        elif role.allows(page.role):
            assert status not in (401, 403)
        else:
            assert status == 403


# The way to the console, its looks, and a page for addresses that are none: for everybody.
OPEN = {"/", "/console", "/console/static/{name}", "/console/{path:path}"}


def test_every_route_of_the_server_has_its_role(guarded: Starlette) -> None:
    """No route is missing from both tables that the tests of roles go through."""

    def walk(routes: Iterable[BaseRoute], below: str = "") -> Iterator[tuple[str, str]]:
        for route in routes:
            if isinstance(route, Mount):
                yield from walk(route.routes, below + route.path)
            else:
                assert isinstance(route, Route)
                for method in (route.methods or set()) - {"HEAD"}:
                    yield method, below + route.path

    router = guarded.router.default
    assert isinstance(router, Router)
    routes = {*walk(guarded.routes), *((row.method, row.path) for row in router.operations)}

    roles = rest_roles() | console_roles()
    assert routes == {*roles, *(("GET", path) for path in OPEN)}
    without_role = {path for (_, path), role in roles.items() if role is None}
    assert without_role == {"/healthz", "/readyz", "/console/login", "/console/logout"}


@pytest.mark.parametrize("token", ["", "made-up", "other"])
def test_no_form_works_without_the_token_of_its_browser(log_in: LogIn, token: str) -> None:
    admin = log_in(Role.ADMIN)
    admin.page()
    sent = {"id": "shop.clicks", "typed": "shop.clicks", "job": "optimize"}
    sent["token"] = log_in(Role.ADMIN).token() if token == "other" else token
    for page in FORMS:
        answer = admin.client.post(f"/console{page.path}", data=sent)
        assert answer.status_code == 403, page.path
        assert "not from a page of this server" in answer.text


def test_a_form_from_another_site_is_refused(
    user: User, catalog: tiltyard.DirectoryNamespace
) -> None:
    sent = {"token": user.token("trash"), "id": "shop.clicks"}
    for header in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = user.client.post("/console/trash/restore", data=sent, headers=header)
        assert answer.status_code == 403
    assert catalog.table_status(["shop", "clicks"]).state is TableState.SOFT_DELETED


def test_a_link_from_another_site_leads_here_but_its_scripts_read_nothing(
    user: User,
) -> None:
    def asked(path: str, mode: str) -> int:
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode}
        return user.client.get(path, headers=headers).status_code

    assert asked("/console/trash", "navigate") == 200
    assert asked("/console/trash", "cors") == 403
    assert asked("/v1/table", "navigate") == 403


def test_a_form_that_is_too_large_or_no_text_is_refused(user: User) -> None:
    user.page()
    assert user.client.post("/console/count", content=b"x" * 100_000).status_code == 400
    assert user.client.post("/console/count", content=b"\xff\xfe").status_code == 400


def test_who_is_not_logged_in_comes_to_the_page_they_wanted(log_in: LogIn, keys: Path) -> None:
    user = log_in(None)
    asked = user.client.get("/console/tables?q=orders", follow_redirects=False)
    assert asked.headers["location"] == "/console/login?next=%2Fconsole%2Ftables%3Fq%3Dorders"
    key = Keyring(str(keys)).add("ada", Role.READER).text
    came = user.send("login", key=key, next="/console/tables?q=orders")
    assert str(came.url).endswith("/console/tables?q=orders")


@pytest.mark.parametrize(
    "next", ["https://evil.example/", "//evil.example", "/console/\\evil", "/other"]
)
def test_a_login_leads_nowhere_else(log_in: LogIn, keys: Path, next: str) -> None:
    key = Keyring(str(keys)).add("ada", Role.READER).text
    user = log_in(None)
    sent = {"token": user.token(), "key": key, "next": next}
    answer = user.client.post("/console/login", data=sent, follow_redirects=False)
    assert answer.headers["location"] == "/console/"


@pytest.mark.parametrize("key", ["", "ty_000000000000_wrong", "\u00e4", "' OR 1=1"])
def test_a_wrong_key_opens_nothing(log_in: LogIn, key: str) -> None:
    user = log_in(None)
    answer = user.send("login", key=key)
    assert answer.status_code == 403
    assert "not a key of this server" in answer.text
    assert "tiltyard_session" not in user.client.cookies


def test_who_tries_keys_is_told_to_wait_and_the_right_one_still_opens(
    catalog: tiltyard.DirectoryNamespace, keys: Path
) -> None:
    key = Keyring(str(keys)).add("ada", Role.READER).text
    settings = ServerSettings(keys=str(keys), failed_logins_per_minute=2)
    app = create_app(catalog, settings, pages=pages())
    with TestClient(app, base_url=ADDRESS) as client:
        user = User(client)
        tries = [user.send("login", key=f"ty_{number}") for number in range(3)]

        assert [response.status_code for response in tries] == [403, 403, 429]
        assert 0 < int(tries[2].headers["retry-after"]) <= 30
        assert client.get("/v1/table").status_code == 429, "the same budget as for operations"
        assert "Overview" in user.send("login", key=key).text


def test_the_session_is_for_the_console_only_and_for_no_script(log_in: LogIn, keys: Path) -> None:
    key = Keyring(str(keys)).add("ada", Role.READER).text
    user = log_in(None)
    sent = {"token": user.token(), "key": key}
    answer = user.client.post("/console/login", data=sent, follow_redirects=False)
    (cookie,) = [line for line in answer.headers.get_list("set-cookie") if "session" in line]
    assert {"httponly", "path=/console", "samesite=strict"} <= set(cookie.lower().split("; "))
    assert key not in cookie


def test_cookies_are_secure_under_tls(catalog: tiltyard.DirectoryNamespace, keys: Path) -> None:
    settings = ServerSettings(keys=str(keys), tls_certificate="c.pem", tls_key="k.pem")
    app = create_app(catalog, settings, pages=pages())
    with TestClient(app, base_url="https://127.0.0.1:2333") as client:
        assert "secure" in client.get("/console/login").headers["set-cookie"].lower().split("; ")


def test_a_session_that_was_changed_or_whose_key_was_revoked_is_none(
    log_in: LogIn, keys: Path
) -> None:
    admin = log_in(Role.ADMIN)
    assert admin.get("trash").status_code == 200
    Keyring(str(keys)).revoke("admin 0")
    assert "Log in" in admin.page("trash")
    forged = log_in(None)
    forged.client.cookies.set("tiltyard_session", "tys_local.99999999999.00.x", path="/console")
    assert "Log in" in forged.page("trash")


def test_whoever_logs_out_is_out(log_in: LogIn) -> None:
    admin = log_in(Role.ADMIN)
    assert "Log in" in admin.send("logout", page="trash").text
    assert "Log in" in admin.page("trash")


@pytest.mark.parametrize("path", ["/", "/console"])
def test_the_address_of_the_server_leads_to_the_console(log_in: LogIn, path: str) -> None:
    assert log_in(None).client.get(path).url.path == "/console/login"
    assert log_in(Role.READER).client.get(path).url.path == "/console/"


def test_there_is_no_login_where_there_are_no_keys(user: User) -> None:
    assert "Log out" not in user.page()
    assert "Overview" in user.page("login")


def test_buttons_that_one_may_not_use_are_not_there(log_in: LogIn) -> None:
    def sees(role: Role) -> set[str]:
        user = log_in(role)
        text = user.page("trash") + user.page("maintenance") + user.page("table?id=shop.orders")
        buttons = ("Restore as…", ">Hold<", "Purge…", "Make a plan", "Drop…")
        return {button for button in buttons if button in text}

    assert sees(Role.READER) == set()
    assert sees(Role.WRITER) == {"Restore as…", ">Hold<", "Drop…"}
    assert sees(Role.ADMIN) == {"Restore as…", ">Hold<", "Drop…", "Purge…", "Make a plan"}


def test_who_is_limited_to_a_namespace_sees_nothing_else(
    log_in: LogIn, guarded: Starlette, catalog: tiltyard.DirectoryNamespace
) -> None:
    boss, eu = log_in(Role.ADMIN), log_in(Role.ADMIN, ("shop", "eu"))
    boss.send("trash/hold", page="trash", id="shop.clicks")
    boss.send("maintenance/plan", page="maintenance", job="optimize")
    for path in ("", "tables", "tables?q=o", "trash", "maintenance", "events"):
        page = eu.page(path)
        assert not any(word in page for word in ("customers", "clicks", "manuals", "/console/run"))
    assert "shop.eu" in eu.page("tables")
    assert eu.get("table?id=shop.eu.orders").status_code == 200
    for path in ("table?id=shop.orders", "tables?in=shop", "doctor"):
        assert eu.get(path).status_code == 403
    for form, fields in (
        ("trash/purge", {"id": "shop.clicks", "typed": "shop.clicks"}),
        ("maintenance/plan", {"job": "optimize"}),
        ("maintenance/plan", {"job": "orphans", "in": "shop.eu"}),
    ):
        assert eu.send(form, page="table?id=shop.eu.orders", **fields).status_code == 403
    assert catalog.table_status(["shop", "clicks"]).state is TableState.SOFT_DELETED


def test_a_refused_change_is_recorded_too(log_in: LogIn) -> None:
    reader, admin = log_in(Role.READER), log_in(Role.ADMIN)
    reader.client.post("/console/trash/purge", data={"token": reader.token(), "id": "shop.clicks"})
    assert "this needs the role admin" in admin.page("events")
    assert "this needs the role admin" in reader.page("events")
    assert "this needs the role admin" not in log_in(Role.READER).page("events")
