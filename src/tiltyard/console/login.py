"""Coming in with a key, and leaving again."""

from __future__ import annotations

from starlette.responses import Response

from tiltyard.console.visit import HOME, SESSION, Visit


async def ask(visit: Visit) -> Response:
    if visit.visitor is not None:
        return visit.go("")
    return visit.show("login.html", next=visit.said("next"), failed=False)


async def login(visit: Visit) -> Response:
    """The key is looked at once and not kept; the cookie stands for it for a while.

    ThrottlingError for a wrong one, if there were too many.
    """
    principal = visit.state.keyring.principal(visit.said("key"))
    if principal is None:
        visit.state.wrong_keys.note(visit.address)
        return visit.show("login.html", 403, next=visit.said("next"), failed=True)
    sessions = visit.state.sessions
    response = visit.go(_own(visit.said("next")))
    visit.remember(response, SESSION, sessions.issue(principal), round(sessions.seconds))
    visit.target = principal.name
    return response


async def logout(visit: Visit) -> Response:
    response = visit.go("login")
    visit.forget(response, SESSION)
    return response


def _own(path: str) -> str:
    """Where to go on: only to a page of the console, whatever the address says."""
    return path.removeprefix(HOME) if path.startswith(HOME) and "\\" not in path else ""
