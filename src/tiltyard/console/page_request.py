"""A request for a page: who sends it, the fields of its form, and the response.

People are authenticated by a signed cookie. A form has a token that only this server can make for
this browser, so that no other web site can send it.
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

from tiltyard.access import LOCAL, Principal, Role
from tiltyard.catalog import names
from tiltyard.console.rendering import TEMPLATES
from tiltyard.errors import InvalidInputError, PermissionDeniedError
from tiltyard.namespace import DirectoryNamespace

HOME = "/console/"
SESSION, BROWSER, NOTICE, THEME = (
    f"tiltyard_{cookie}" for cookie in ("session", "browser", "notice", "theme")
)
MAX_FORM_BYTES = 64 * 1024
NOTICE_SECONDS = 30

# Nothing inline, nothing from other sites.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

P = ParamSpec("P")
T = TypeVar("T")


class LoginRequired(Exception):
    """Nobody is logged in, and the page needs a role."""


class PageNotFound(Exception):
    """There is no such page or run. The message says so."""


class PageRequest:
    """One request for one page. `target` is what it changes, for the audit log."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.target = ""
        self.form: Mapping[str, str] = {}
        self._notice: str | None = None

    # -- the user

    @property
    def state(self) -> State:
        """What the server shares with its pages: see `tiltyard.rest.app`."""
        state: State = self.request.app.state
        return state

    @cached_property
    def user(self) -> Principal | None:
        """Who is logged in; on a server without keys, everybody is."""
        if self.state.keyring.is_open:
            return LOCAL
        user: Principal | None = self.state.sessions.verify(self.request.cookies.get(SESSION, ""))
        return user

    @property
    def principal(self) -> Principal:
        """Who is logged in, or LoginRequired."""
        if self.user is None:
            raise LoginRequired
        return self.user

    def has_role(self, role: str) -> bool:
        return self.user is not None and self.user.has_role(Role(role))

    @property
    def sees_all(self) -> bool:
        """Whether the user is not limited to a namespace."""
        return self.user is not None and self.user.sees(())

    @property
    def address(self) -> str:
        client = self.request.client
        return "unknown" if client is None else client.host

    # -- the catalog

    @property
    def catalog(self) -> DirectoryNamespace:
        """The catalog, where changes are recorded under the user's name."""
        namespace: DirectoryNamespace = self.state.namespace
        return namespace.acting_as(self.principal.name)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread of the server."""
        result: T = await self.state.workers.run(work, *args, **kwargs)
        return result

    def table_id(self, field: str = "id") -> list[str]:
        """The table that a field names. PermissionDeniedError if the user does not see it."""
        identifier = list(names.parse_table_id(names.parse_dotted(self.field(field))))
        self.principal.require_visible(identifier)
        return identifier

    def record(self, what: str, target: str, error: str | None, status: int) -> None:
        """Add a line to the audit log: what was changed, or why it was not."""
        user = self.user
        self.state.audit.record(
            who="somebody" if user is None else user.name,
            role="none" if user is None else user.role.value,
            what=what,
            target=target,
            outcome="done" if error is None else error,
            status=status,
            request_id=self.request.state.request_id,
            address=self.address,
        )

    # -- the form

    def field(self, name: str) -> str:
        """A field of the form or the query, stripped; "" if there is none."""
        return (self.form.get(name) or self.request.query_params.get(name) or "").strip()

    async def read_form(self) -> None:
        """Read the form. PermissionDeniedError if its token was not made for this browser."""
        body = bytearray()
        async for chunk in self.request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                raise InvalidInputError("the form is too large")
        try:
            self.form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        except UnicodeDecodeError as error:
            raise InvalidInputError("the form is not text") from error
        browser, token = self.request.cookies.get(BROWSER, ""), self.form.get("token", "")
        if not browser or not self.state.sessions.is_signature(f"form.{browser}", token):
            raise PermissionDeniedError(
                "this form is not from a page of this server, or the page is too old",
                hint="go back, load the page again, and send it once more",
            )

    @cached_property
    def browser_id(self) -> str:
        """The id in the browser's cookie; a new one if it has none."""
        return self.request.cookies.get(BROWSER) or secrets.token_hex(16)

    def _token_field(self) -> Markup:
        """The field that every form must have."""
        token = self.state.sessions.sign(f"form.{self.browser_id}")
        return Markup('<input type="hidden" name="token" value="{}">').format(token)

    # -- the response

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        page = TEMPLATES.get_template(template).render(
            request=self, notice=self._previous_notice(), token=self._token_field, **values
        )
        return HTMLResponse(page, status)

    def redirect(self, path: str, notice: str | None = None, **query: str) -> Response:
        """Send the browser to another page, which shows the notice once."""
        self._notice = notice
        to = HOME + path + (f"?{urlencode(query)}" if query else "")
        return RedirectResponse(to, status_code=303)

    def _previous_notice(self) -> str | None:
        """The notice of the request before. It is signed, so that only this server can set it."""
        body, _, signature = self.request.cookies.get(NOTICE, "").rpartition(".")
        if not body or not self.state.sessions.is_signature(f"notice.{body}", signature):
            return None
        return str(json.loads(base64.urlsafe_b64decode(body)))

    @property
    def theme(self) -> str:
        chosen = self.request.cookies.get(THEME)
        return chosen if chosen in ("light", "dark") else "auto"

    def finish(self, response: Response) -> Response:
        """Add the headers and cookies that every page has."""
        response.headers["content-security-policy"] = CONTENT_SECURITY_POLICY
        response.headers["cache-control"] = "no-store"
        # Not "no-referrer": browsers would then send no origin with our own forms.
        response.headers["referrer-policy"] = "same-origin"
        if BROWSER not in self.request.cookies:
            self.set_cookie(response, BROWSER, self.browser_id)
        if self._notice is not None:
            body = base64.urlsafe_b64encode(json.dumps(self._notice).encode()).decode()
            signature = self.state.sessions.sign(f"notice.{body}")
            self.set_cookie(response, NOTICE, f"{body}.{signature}", NOTICE_SECONDS)
        elif NOTICE in self.request.cookies and response.status_code == 200:
            self.delete_cookie(response, NOTICE)
        return response

    def set_cookie(
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

    def delete_cookie(self, response: Response, name: str) -> None:
        response.delete_cookie(
            name,
            path="/console",
            secure=self.state.settings.has_tls,
            httponly=True,
            samesite="strict",
        )
