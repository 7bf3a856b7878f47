"""The operations behind the door: a request becomes a call in a thread, and its result an answer.

Checking, calling and encoding happen in the thread; the event loop only moves bytes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from lance_namespace.errors import LanceNamespaceError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tiltyard import names
from tiltyard.access import Principal, Role, Sessions
from tiltyard.errors import InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest import answers, audit
from tiltyard.rest.operation import Asked, Body, Desk, Operation
from tiltyard.rest.routes import Routes
from tiltyard.rest.runner import Runner
from tiltyard.rest.settings import ServerSettings
from tiltyard.rest.spool import ClientGone, Data, Incoming, Outgoing

log = logging.getLogger("tiltyard.rest")


class Service:
    """Every operation, as one ASGI application."""

    def __init__(
        self,
        operations: Iterable[Operation],
        namespace: DirectoryNamespace,
        settings: ServerSettings,
        sessions: Sessions,
        runner: Runner,
        notes: audit.Audit,
    ) -> None:
        self._routes = Routes(operations)
        self._settings = settings
        self._runner = runner
        self._audit = notes

        # Few people use a server; each keeps their view of the one catalog.
        @lru_cache(maxsize=1000)
        def desk(principal: Principal) -> Desk:
            view = namespace.acting_as(principal.name)
            return Desk(view, principal, settings, sessions, notes)

        self._desk = desk

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Everything that can be asked for here."""
        return self._routes.operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming = Incoming(receive, self._settings, self._runner)
        operation: Operation | None = None
        problem: Exception | None = None
        path: Any = {}
        scope["state"]["targets"] = []
        try:
            operation, path = self._routes.find(scope["method"], scope["raw_path"])
            scope["state"]["principal"].require(operation.needs)
            body = await self._answer(operation, path, scope, incoming)
            status = operation.status
        except ClientGone:
            return
        except Exception as error:
            problem = error
            if not isinstance(error, LanceNamespaceError | answers.Refused):
                log.exception("request %s failed", scope["state"]["request_id"])
            refusal = answers.error(error, scope["path"])
            status = refusal.status_code
        if operation is not None and operation.changes:
            told = ", ".join(scope["state"]["targets"]) or path.get("id", "")
            self._note(scope, operation, told, status, problem)
        if problem is not None:
            await incoming.discard()
            await refusal(scope, receive, send)
        elif isinstance(body, Outgoing):
            await self._send_pieces(body, status, send)
        elif operation is not None:
            await Response(body, status, media_type=operation.media)(scope, receive, send)

    async def _answer(
        self, operation: Operation, path: Any, scope: Scope, incoming: Incoming
    ) -> Any:
        data = await self._body(operation, scope, incoming)
        query = parse_query(scope["query_string"])
        desk, targets = self._desk(scope["state"]["principal"]), scope["state"]["targets"]
        return await self._runner.call(_carry_out, operation, path, query, data, desk, targets)

    async def _body(self, operation: Operation, scope: Scope, incoming: Incoming) -> Data:
        is_arrow = operation.body is Body.ARROW
        limit = self._settings.max_body_bytes if is_arrow else self._settings.max_json_bytes
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise answers.Refused(415, "compressed bodies are not understood")
        return await incoming.read(limit, headers.get(b"content-length"))

    async def _send_pieces(self, outgoing: Outgoing, status: int, send: Send) -> None:
        headers = [
            (b"content-type", answers.ARROW_FILE.encode()),
            (b"content-length", str(outgoing.size).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        pieces = outgoing.pieces()
        while piece := await self._runner.call(next, pieces, b""):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _note(
        self,
        scope: Scope,
        operation: Operation,
        target: str,
        status: int,
        problem: Exception | None,
    ) -> None:
        state = scope["state"]
        self._audit.note(
            audit.Event(
                at=audit.now(),
                who=state["principal"].name,
                role=state["principal"].role.value,
                what=operation.name,
                target=target,
                outcome="done" if problem is None else str(problem) or type(problem).__name__,
                status=status,
                request_id=state["request_id"],
                address=(scope.get("client") or ("unknown",))[0],
            )
        )


def _carry_out(
    operation: Operation, path: Any, query: Any, data: Data, desk: Desk, targets: list[str]
) -> Any:
    body: Any = data
    if operation.body is Body.JSON:
        body = _parsed(data)
    call = operation.understand(Asked(path, query, body))
    targets += [names.dotted(each) for each in call.targets if each]
    desk.principal.require(call.needs)
    for target in call.targets:
        desk.principal.require_sight(target)
    result = call.run(desk)
    if not _may_have_credentials(desk.principal) and getattr(result, "storage_options", None):
        result.storage_options = None
    return operation.encode(result)


def _may_have_credentials(principal: Principal) -> bool:
    """Credentials of the store open all of it, to write too."""
    return principal.may(Role.WRITER) and not principal.prefix


def _parsed(data: Data) -> Any:
    if not data:
        return {}
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body is not JSON: {error}") from error


def parse_query(text: bytes) -> dict[str, list[str]]:
    """The query by name. Refused if it is not UTF-8, or has very many parts."""
    if not text:
        return {}
    try:
        return parse_qs(text.decode("ascii"), True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise answers.Refused(400, "the query can't be read") from error
