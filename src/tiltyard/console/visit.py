"""One visit to a page: who comes, what they sent, and the answer that they get.

People are known by a signed cookie. A form carries a token that only this server can make for this
browser, so that no other web site can send one in somebody's name.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tiltyard import names
from tiltyard.access import LOCAL, Principal, Role
from tiltyard.console.looks import TEMPLATES
from tiltyard.errors import InvalidInputError, PermissionDeniedError
from tiltyard.namespace import DirectoryNamespace

HOME = "/console/"
SESSION, BROWSER, NOTICE, THEME = (
    f"tiltyard_{each}" for each in ("session", "browser", "notice", "theme")
)
MOST_FORM_BYTES = 64 * 1024

# Nothing inline, nothing from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

P = ParamSpec("P")
T = TypeVar("T")


class LoginNeeded(Exception):
    """Nobody is logged in, and the page is not for everybody."""


class NotHere(Exception):
    """There is no such page or run. The message says so."""


class Visit:
    """One request to one page. `target` is what it changes, for the audit."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.target = ""
        self.form: Mapping[str, str] = {}
        self._notice: str | None = None

    # -- who

    @property
    def state(self) -> State:
        """What the server shares with its pages."""
        state: State = self.request.app.state
        return state

    @cached_property
    def visitor(self) -> Principal | None:
        """Whoever is logged in; on a server without keys, everybody is."""
        if self.state.keyring.is_open:
            return LOCAL
        found: Principal | None = self.state.sessions.verify(self.request.cookies.get(SESSION, ""))
        return found

    @property
    def principal(self) -> Principal:
        if self.visitor is None:
            raise LoginNeeded
        return self.visitor

    def may(self, role: str) -> bool:
        """Whether to show what needs a role."""
        return self.visitor is not None and self.visitor.may(Role(role))

    @property
    def sees_all(self) -> bool:
        return self.visitor is not None and self.visitor.sees(())

    @property
    def address(self) -> str:
        client = self.request.client
        return "unknown" if client is None else client.host

    # -- the catalog

    @property
    def catalog(self) -> DirectoryNamespace:
        """The catalog, where what the visitor does is noted under their name."""
        namespace: DirectoryNamespace = self.state.namespace
        return namespace.acting_as(self.principal.name)

    async def ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what blocks in a thread of the server."""
        answer: T = await self.state.runner.call(work, *args, **kwargs)
        return answer

    def table(self, field: str = "id") -> list[str]:
        """The table that the address or the form names, if the visitor may see it."""
        identifier = list(names.parse_table_id(names.parse_dotted(self.said(field))))
        self.principal.require_sight(identifier)
        return identifier

    def note(self, what: str, target: str, problem: str | None, status: int) -> None:
        """One line of the audit: what was changed here, or why it was not."""
        who = self.visitor
        self.state.audit.record(
            who="somebody" if who is None else who.name,
            role="none" if who is None else who.role.value,
            what=what,
            target=target,
            outcome="done" if problem is None else problem,
            status=status,
            request_id=self.request.state.request_id,
            address=self.address,
        )

    # -- what was sent

    def said(self, field: str) -> str:
        """A field of the form or of the address, without blanks around it."""
        return (self.form.get(field) or self.request.query_params.get(field) or "").strip()

    async def read_form(self) -> None:
        """Read what was posted. PermissionDeniedError if the token is not the browser's own."""
        body = bytearray()
        async for piece in self.request.stream():
            body += piece
            if len(body) > MOST_FORM_BYTES:
                raise InvalidInputError("the form is too large")
        try:
            self.form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        except UnicodeDecodeError as error:
            raise InvalidInputError("the form is not text") from error
        browser, token = self.request.cookies.get(BROWSER, ""), self.form.get("token", "")
        if not browser or not self.state.sessions.signed(f"form.{browser}", token):
            raise PermissionDeniedError(
                "this form is not from a page of this server, or the page is too old",
                hint="go back, load the page again, and send it once more",
            )

    @cached_property
    def browser(self) -> str:
        """What this browser is called by its cookie; a new one gets a name."""
        return self.request.cookies.get(BROWSER) or secrets.token_hex(16)

    @property
    def token(self) -> str:
        """What a form has to carry."""
        signed: str = self.state.sessions.sign(f"form.{self.browser}")
        return signed

    # -- the answer

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        page = TEMPLATES.get_template(template).render(
            visit=self, notice=self.notice(), token=self._token_field, **values
        )
        return HTMLResponse(page, status)

    def _token_field(self) -> Markup:
        return Markup('<input type="hidden" name="token" value="{}">').format(self.token)

    def go(self, path: str, said: str | None = None, **query: str) -> Response:
        """Send the browser to a page, which says how it went."""
        self._notice = said
        to = HOME + path + (f"?{urlencode(query)}" if query else "")
        return RedirectResponse(to, status_code=303)

    def notice(self) -> str | None:
        """What the page before had to say. Signed, so that nobody else puts words here."""
        body, _, signature = self.request.cookies.get(NOTICE, "").rpartition(".")
        if not body or not self.state.sessions.signed(f"notice.{body}", signature):
            return None
        return str(json.loads(base64.urlsafe_b64decode(body)))

    @property
    def theme(self) -> str:
        chosen = self.request.cookies.get(THEME)
        return chosen if chosen in ("light", "dark") else "auto"

    def finish(self, response: Response) -> Response:
        """The headers and cookies that every page has."""
        response.headers["content-security-policy"] = POLICY
        response.headers["cache-control"] = "no-store"
        # With none at all, browsers would not say that a form comes from our own page.
        response.headers["referrer-policy"] = "same-origin"
        if BROWSER not in self.request.cookies:
            self.remember(response, BROWSER, self.browser)
        if self._notice is not None:
            body = base64.urlsafe_b64encode(json.dumps(self._notice).encode()).decode()
            signature = self.state.sessions.sign(f"notice.{body}")
            self.remember(response, NOTICE, f"{body}.{signature}", seconds=30)
        elif NOTICE in self.request.cookies and response.status_code == 200:
            self.forget(response, NOTICE)
        return response

    def remember(
        self, response: Response, name: str, value: str, seconds: int | None = None
    ) -> None:
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            path="/console",
            secure=self.state.settings.has_tls,
            httponly=True,
            samesite="strict",
        )

    def forget(self, response: Response, name: str) -> None:
        response.delete_cookie(
            name,
            path="/console",
            secure=self.state.settings.has_tls,
            httponly=True,
            samesite="strict",
        )
