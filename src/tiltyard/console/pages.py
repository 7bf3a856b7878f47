"""The table of pages with the role that each needs, login, and what all pages have in common."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lance_namespace.errors import ErrorCode, LanceNamespaceError
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from tiltyard.access import Role
from tiltyard.console import overview, tables, trash
from tiltyard.console.background import INTERNAL_ERROR
from tiltyard.console.maintenance import MaintenancePages
from tiltyard.console.overview import DoctorPage, OverviewPage
from tiltyard.console.page_request import (
    HOME,
    SESSION,
    LoginRequired,
    PageNotFound,
    PageRequest,
)
from tiltyard.console.rendering import STATIC
from tiltyard.console.tables import TableListPage

log = logging.getLogger(__name__)

PageAction = Callable[[PageRequest], Awaitable[Response]]


class PageContext:
    """The pages that keep something between requests: cached results and runs."""

    def __init__(self) -> None:
        self.overview = OverviewPage()
        self.tables = TableListPage(self.overview.figures)
        self.maintenance = MaintenancePages()
        self.doctor = DoctorPage()


@dataclass(frozen=True, slots=True)
class Page:
    """One row of the table. A page without a role is for everybody, also without login.

    `audited_as` is what the audit log calls the change that it makes. `whole_catalog` is not for
    those who are limited to a namespace.
    """

    method: str
    path: str
    role: Role | None
    action: Callable[[PageContext], PageAction]
    audited_as: str | None = None
    whole_catalog: bool = False


# -- login


async def show_login(request: PageRequest) -> Response:
    if request.user is not None:
        return request.redirect("")
    return request.render("login.html", next=request.field("next"), failed=False)


async def login(request: PageRequest) -> Response:
    """Exchange a key for a session. ThrottlingError after too many wrong keys."""
    principal = request.state.keyring.principal(request.field("key"))
    if principal is None:
        request.state.failed_logins.record(request.address)
        return request.render("login.html", 403, next=request.field("next"), failed=True)
    sessions = request.state.sessions
    response = request.redirect(_console_path(request.field("next")))
    request.set_cookie(response, SESSION, sessions.issue(principal), round(sessions.seconds))
    request.target = principal.name
    return response


async def logout(request: PageRequest) -> Response:
    response = request.redirect("login")
    request.delete_cookie(response, SESSION)
    return response


def _console_path(path: str) -> str:
    """The page after the login; the overview if the path is not one of the console."""
    return path.removeprefix(HOME) if path.startswith(HOME) and "\\" not in path else ""


# -- the table

_READER, _WRITER, _ADMIN = Role.READER, Role.WRITER, Role.ADMIN

PAGES = (
    Page("GET", "/login", None, lambda _: show_login),
    Page("POST", "/login", None, lambda _: login),
    Page("POST", "/logout", None, lambda _: logout),
    Page("GET", "/", _READER, lambda context: context.overview.show),
    Page("POST", "/count", _READER, lambda context: context.overview.count_again),
    Page("GET", "/tables", _READER, lambda context: context.tables.show),
    Page("GET", "/table", _READER, lambda _: tables.show_table),
    Page("POST", "/table/drop", _WRITER, lambda _: trash.drop, "drop table"),
    Page("GET", "/trash", _READER, lambda _: trash.show_trash),
    Page("POST", "/trash/restore", _WRITER, lambda _: trash.restore, "undrop table"),
    Page("POST", "/trash/hold", _WRITER, lambda _: trash.hold, "hold table"),
    Page("POST", "/trash/release", _ADMIN, lambda _: trash.release, "release table"),
    Page("POST", "/trash/purge", _ADMIN, lambda _: trash.purge, "purge table"),
    Page("GET", "/maintenance", _READER, lambda context: context.maintenance.show),
    Page("POST", "/maintenance/plan", _ADMIN, lambda context: context.maintenance.plan),
    Page("POST", "/maintenance/apply", _ADMIN, lambda context: context.maintenance.apply),
    Page("GET", "/run", _READER, lambda context: context.maintenance.show_run),
    Page("GET", "/events", _READER, lambda _: overview.events),
    Page("GET", "/doctor", _READER, lambda context: context.doctor.show, whole_catalog=True),
    Page("POST", "/doctor", _READER, lambda context: context.doctor.examine, whole_catalog=True),
)


def roles() -> dict[tuple[str, str], Role | None]:
    """The role that each page needs, by method and path; None if it is open to everybody."""
    return {(page.method, f"/console{page.path}"): page.role for page in PAGES}


def pages() -> list[BaseRoute]:
    """The routes of the console, for one server."""
    context = PageContext()
    not_found = Page("GET", "", None, lambda _: _not_found)
    return [
        Route("/static/{name}", _static_file),
        *(Route(page.path, _endpoint(page, context), methods=[page.method]) for page in PAGES),
        Route("/{path:path}", _endpoint(not_found, context)),
    ]


async def _not_found(request: PageRequest) -> Response:
    raise PageNotFound("There is no such page.")


async def _static_file(request: Request) -> Response:
    """A script or stylesheet. Its address changes with its content, so browsers can cache it."""
    path = STATIC / request.path_params["name"]
    if path.name not in {file.name for file in STATIC.iterdir()}:
        return Response("there is no such file", 404)
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return FileResponse(STATIC / path.name, headers=headers)


def _endpoint(page: Page, context: PageContext) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a page: checks the role and the form, records changes, renders errors."""
    action = page.action(context)

    async def endpoint(starlette_request: Request) -> Response:
        request = PageRequest(starlette_request)
        error: Exception | None = None
        try:
            if page.role is not None:
                request.principal.require_role(page.role)
            if page.whole_catalog:
                request.principal.require_visible(())
            if page.method == "POST":
                await request.read_form()
            response = await action(request)
        except LoginRequired:
            return request.finish(_redirect_to_login(request))
        except Exception as raised:
            error = raised
            response = _error_page(request, error)
        if page.audited_as is not None:
            message = None if error is None else str(error) or type(error).__name__
            request.record(page.audited_as, request.target, message, response.status_code)
        return request.finish(response)

    return endpoint


def _redirect_to_login(request: PageRequest) -> Response:
    url = request.request.url
    path = url.path if request.request.method == "GET" else HOME
    return request.redirect("login", next=f"{path}?{url.query}" if url.query else path)


# The HTTP status of an error; all others are conflicts.
_STATUS = {
    ErrorCode.INVALID_INPUT: 400,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.THROTTLING: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
}


def _error_page(request: PageRequest, error: Exception) -> Response:
    """A page with the message and the hint of an error."""
    if isinstance(error, PageNotFound):
        return request.render("problem.html", 404, message=str(error), hint=None)
    if not isinstance(error, LanceNamespaceError):
        log.error("a page has failed: %s", request.request.url.path, exc_info=error)
        return request.render("problem.html", 500, message=INTERNAL_ERROR, hint=None)
    message, hint = getattr(error, "message", str(error)), getattr(error, "hint", None)
    is_missing = error.code.name.endswith("NOT_FOUND")
    status = 404 if is_missing else _STATUS.get(error.code, 409)
    page = request.render("problem.html", status, message=message, hint=hint)
    if status in (429, 503):
        page.headers["retry-after"] = str(getattr(error, "seconds", 1))
    return page
