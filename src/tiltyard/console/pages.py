"""Which pages there are, who may see or send each, and what all of them have in common."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lance_namespace.errors import ErrorCode, LanceNamespaceError
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from tiltyard.access import Role
from tiltyard.console import events, login, table, trash
from tiltyard.console.doctor import Doctor
from tiltyard.console.listing import Listing
from tiltyard.console.looks import STATIC
from tiltyard.console.maintenance import Maintenance
from tiltyard.console.overview import Overview, counting
from tiltyard.console.visit import HOME, LoginNeeded, NotHere, Visit

log = logging.getLogger(__name__)

Answer = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """One row of the table. No role is for everybody, also for who is not logged in.

    `deed` is what it changes, in the words of the audit; `whole` is about the whole catalog, and
    not for those who are limited to a namespace.
    """

    method: str
    path: str
    role: Role | None
    answer: Callable[[Rooms], Answer]
    deed: str | None = None
    whole: bool = False


class Rooms:
    """What the pages of one server remember."""

    def __init__(self) -> None:
        figures = counting()
        self.overview = Overview(figures)
        self.listing = Listing(figures)
        self.maintenance = Maintenance()
        self.doctor = Doctor()


_READER, _WRITER, _ADMIN = Role.READER, Role.WRITER, Role.ADMIN

PAGES = (
    Page("GET", "/login", None, lambda _: login.ask),
    Page("POST", "/login", None, lambda _: login.login),
    Page("POST", "/logout", None, lambda _: login.logout),
    Page("GET", "/", _READER, lambda rooms: rooms.overview.show),
    Page("POST", "/count", _READER, lambda rooms: rooms.overview.count_again),
    Page("GET", "/tables", _READER, lambda rooms: rooms.listing.show),
    Page("GET", "/table", _READER, lambda _: table.show),
    Page("POST", "/table/drop", _WRITER, lambda _: trash.drop, "drop table"),
    Page("GET", "/trash", _READER, lambda _: trash.trash),
    Page("POST", "/trash/restore", _WRITER, lambda _: trash.restore, "undrop table"),
    Page("POST", "/trash/hold", _WRITER, lambda _: trash.hold, "hold table"),
    Page("POST", "/trash/release", _ADMIN, lambda _: trash.release, "release table"),
    Page("POST", "/trash/purge", _ADMIN, lambda _: trash.purge, "purge table"),
    Page("GET", "/maintenance", _READER, lambda rooms: rooms.maintenance.show),
    Page("POST", "/maintenance/plan", _ADMIN, lambda rooms: rooms.maintenance.plan),
    Page("POST", "/maintenance/apply", _ADMIN, lambda rooms: rooms.maintenance.apply),
    Page("GET", "/run", _READER, lambda rooms: rooms.maintenance.run),
    Page("GET", "/events", _READER, lambda _: events.events),
    Page("GET", "/doctor", _READER, lambda rooms: rooms.doctor.show, whole=True),
    Page("POST", "/doctor", _READER, lambda rooms: rooms.doctor.examine, whole=True),
)


def roles() -> dict[tuple[str, str], Role | None]:
    """The role that each page needs, by method and path; None if it is open to everybody."""
    return {(each.method, f"/console{each.path}"): each.role for each in PAGES}


def pages() -> list[BaseRoute]:
    """The routes of the console, for one server."""
    rooms = Rooms()
    return [
        Route("/static/{name}", _static),
        *(Route(each.path, _guarded(each, rooms), methods=[each.method]) for each in PAGES),
        Route("/{path:path}", _guarded(Page("GET", "", None, lambda _: _nowhere), rooms)),
    ]


async def _nowhere(visit: Visit) -> Response:
    raise NotHere("There is no such page.")


async def _static(request: Request) -> Response:
    """Our script and stylesheet. Their address changes with them, so browsers keep them."""
    path = STATIC / request.path_params["name"]
    if path.name not in {each.name for each in STATIC.iterdir()}:
        return Response("there is no such file", 404)
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return FileResponse(STATIC / path.name, headers=headers)


def _guarded(page: Page, rooms: Rooms) -> Callable[[Request], Awaitable[Response]]:
    """A page behind its door: who comes in, what is noted, and how a refusal looks."""
    answer = page.answer(rooms)

    async def endpoint(request: Request) -> Response:
        visit = Visit(request)
        try:
            if page.role is not None:
                visit.principal.require(page.role)
            if page.whole:
                visit.principal.require_sight(())
            if page.method == "POST":
                await visit.read_form()
            response = await answer(visit)
            problem = None
        except LoginNeeded:
            here = request.url.path if request.method == "GET" else HOME
            asked = f"{here}?{request.url.query}" if request.url.query else here
            return visit.finish(visit.go("login", next=asked))
        except Exception as error:
            problem = error
            response = _refusal(visit, error)
        if page.deed is not None:
            told = None if problem is None else str(problem) or type(problem).__name__
            visit.note(page.deed, visit.target, told, response.status_code)
        return visit.finish(response)

    return endpoint


# What HTTP calls the reasons for which something is refused; all others are conflicts.
_STATUS = {
    ErrorCode.INVALID_INPUT: 400,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.THROTTLING: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
}


def _refusal(visit: Visit, problem: Exception) -> Response:
    """A page that says what is wrong, and what to do."""
    if isinstance(problem, NotHere):
        return visit.show("problem.html", 404, message=str(problem), hint=None)
    if not isinstance(problem, LanceNamespaceError):
        log.error("a page has failed: %s", visit.request.url.path, exc_info=problem)
        told = "Something went wrong that should not. The server's log says what."
        return visit.show("problem.html", 500, message=told, hint=None)
    message, hint = getattr(problem, "message", str(problem)), getattr(problem, "hint", None)
    is_missing = problem.code.name.endswith("NOT_FOUND")
    status = 404 if is_missing else _STATUS.get(problem.code, 409)
    page = visit.show("problem.html", status, message=message, hint=hint)
    if status in (429, 503):
        page.headers["retry-after"] = str(getattr(problem, "seconds", 1))
    return page
