"""Operations and the router that serves them.

An `Operation` is one row of the table of routes. The `Router` finds the operation of a path, reads
the body, checks, runs and encodes in a thread, and sends the response.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from lance_namespace.errors import LanceNamespaceError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tiltyard.access import Principal, Role, Sessions
from tiltyard.catalog import names
from tiltyard.errors import InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest.audit import AuditLog, client_address
from tiltyard.rest.limits import ClientDisconnected, Data, RequestBody, WorkerPool
from tiltyard.rest.responses import (
    JSON,
    SpooledBody,
    SpooledResponse,
    error_message,
    error_response,
)
from tiltyard.rest.server import ServerSettings

log = logging.getLogger("tiltyard.rest")

DELIMITER = "$"
MAX_ID_PARTS = 64


class Body(StrEnum):
    """What the body of a request is."""

    NONE = "none"
    JSON = "json"
    ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """The path parameters, query and body of a request. Their values are not checked yet."""

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Any
    delimiter: str
    # The id in the path, split at the delimiter; None if the path has none.
    id: list[str] | None

    @classmethod
    def parse(
        cls, path: Mapping[str, str], query: Mapping[str, Sequence[str]], body: Any
    ) -> ParsedRequest:
        delimiter = query.get("delimiter", (DELIMITER,))[-1]
        if not delimiter:
            raise InvalidInputError("a delimiter has at least one character")
        text = path.get("id")
        if text is None:
            return cls(path, query, body, delimiter, None)
        id = [] if text == delimiter else text.split(delimiter)  # a lone delimiter is the root
        if len(id) > MAX_ID_PARTS:
            raise InvalidInputError(f"an id has at most {MAX_ID_PARTS} parts")
        return cls(path, query, body, delimiter, id)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What an operation works with. Changes to the catalog are recorded under the principal."""

    namespace: DirectoryNamespace
    principal: Principal
    settings: ServerSettings
    sessions: Sessions
    audit: AuditLog


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A request whose values were checked: what to run, and what the client must be allowed."""

    run: Callable[[RequestContext], Any]
    # Every table and namespace that the request names; `[()]` is the whole catalog.
    targets: Sequence[Sequence[str]]
    role: Role


@dataclass(frozen=True, kw_only=True)
class Operation(ABC):
    """One operation: its route, the role that it needs, and whether it changes anything."""

    name: str
    method: str
    path: str
    role: Role
    changes: bool
    body: Body
    status: int = 200
    # The media type of a response; None if its body is empty.
    media_type: str | None = JSON

    @property
    def operation_id(self) -> str:
        """Its unique name in the OpenAPI document."""
        return self.name

    @property
    @abstractmethod
    def summary(self) -> str:
        """What it does, in one sentence."""

    @property
    @abstractmethod
    def request(self) -> type[BaseModel]:
        """The model of a request: its path parameters, query and body."""

    @property
    @abstractmethod
    def body_type(self) -> Any:
        """The type of a JSON body; None if there is none."""

    @property
    @abstractmethod
    def response_type(self) -> Any:
        """The type of a JSON response; None if it is none."""

    @abstractmethod
    def query_parameters(self) -> list[dict[str, Any]]:
        """The query as OpenAPI describes it."""

    @abstractmethod
    def prepare(self, request: ParsedRequest) -> PreparedCall:
        """Check a request. InvalidInputError."""

    @abstractmethod
    def encode(self, result: Any) -> Any:
        """The body of a response."""


# -- paths

_Pattern = tuple[str | None, ...]


class _PathTable:
    """Operations by the fixed segments of their paths. A lookup takes the same time however many
    operations there are.

    The raw path is split before it is decoded: an encoded slash in an id is no separator, and
    Lance's clients write a space as "+".
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._by_pattern: dict[_Pattern, dict[str, Operation]] = defaultdict(dict)
        self._variables: dict[int, set[tuple[int, ...]]] = defaultdict(set)
        for operation in operations:
            segments = operation.path.split("/")
            variable = tuple(at for at, text in enumerate(segments) if text.startswith("{"))
            self._by_pattern[_pattern(segments, variable)][operation.method] = operation
            self._variables[len(segments)].add(variable)

    def find(self, method: str, raw_path: bytes) -> tuple[Operation, dict[str, str]]:
        """The operation and the path parameters. HTTPException if there is none."""
        try:
            segments = raw_path.decode("ascii").split("/")
        except UnicodeDecodeError:
            raise HTTPException(400, "a path has ASCII characters only") from None
        for variable in sorted(self._variables.get(len(segments), ()), key=len):
            operations = self._by_pattern.get(_pattern(segments, variable))
            if operations is None:
                continue
            if method not in operations:
                allowed = ", ".join(sorted(operations))
                raise HTTPException(405, f"only {allowed} here", {"Allow": allowed})
            operation = operations[method]
            parameters = operation.path.split("/")
            return operation, {parameters[at][1:-1]: _decoded(segments[at]) for at in variable}
        raise HTTPException(404, "there is no such operation")


def _pattern(segments: list[str], variable: tuple[int, ...]) -> _Pattern:
    return tuple(None if at in variable else text for at, text in enumerate(segments))


def _decoded(segment: str) -> str:
    try:
        return unquote_plus(segment, errors="strict")
    except UnicodeDecodeError:
        raise HTTPException(400, "the path is not UTF-8") from None


# -- the application


class Router:
    """All operations, as one ASGI application."""

    def __init__(
        self,
        operations: Iterable[Operation],
        namespace: DirectoryNamespace,
        settings: ServerSettings,
        sessions: Sessions,
        workers: WorkerPool,
        audit: AuditLog,
    ) -> None:
        self.operations = tuple(operations)
        self._paths = _PathTable(self.operations)
        self._settings = settings
        self._workers = workers
        self._audit = audit

        # A server has few principals; each keeps its view of the one catalog.
        @lru_cache(maxsize=1000)
        def context(principal: Principal) -> RequestContext:
            view = namespace.acting_as(principal.name)
            return RequestContext(view, principal, settings, sessions, audit)

        self.context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = RequestBody(receive, self._settings, self._workers)
        operation: Operation | None = None
        path: dict[str, str] = {}
        targets: list[Sequence[str]] = []
        error: Exception | None = None
        try:
            operation, path = self._paths.find(scope["method"], scope["raw_path"])
            response = await self._respond(operation, path, scope, body, targets)
        except ClientDisconnected:
            return
        except Exception as raised:
            error = raised
            if not isinstance(error, LanceNamespaceError | HTTPException):
                log.exception("request %s failed", scope["state"]["request_id"])
            response = error_response(error, scope["path"])
        if operation is not None and operation.changes:
            target = ", ".join(names.dotted(id) for id in targets if id) or path.get("id", "")
            self._record(scope, operation, target, response.status_code, error)
        if error is not None:
            await body.discard()
        await response(scope, receive, send)

    async def _respond(
        self,
        operation: Operation,
        path: dict[str, str],
        scope: Scope,
        body: RequestBody,
        targets: list[Sequence[str]],
    ) -> Response:
        principal: Principal = scope["state"]["principal"]
        principal.require_role(operation.role)  # before a body is read that may be large
        data = await self._read(operation, scope, body)
        query = parse_query(scope["query_string"])
        content = await self._workers.run(
            _carry_out, operation, path, query, data, self.context(principal), targets
        )
        if isinstance(content, SpooledBody):
            return SpooledResponse(content, operation.status, self._workers.run)
        return Response(content, operation.status, media_type=operation.media_type)

    async def _read(self, operation: Operation, scope: Scope, body: RequestBody) -> Data:
        is_arrow = operation.body is Body.ARROW
        limit = self._settings.max_body_bytes if is_arrow else self._settings.max_json_bytes
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise HTTPException(415, "compressed bodies are not supported")
        return await body.read(limit, headers.get(b"content-length"))

    def _record(
        self,
        scope: Scope,
        operation: Operation,
        target: str,
        status: int,
        error: Exception | None,
    ) -> None:
        principal: Principal = scope["state"]["principal"]
        self._audit.record(
            who=principal.name,
            role=principal.role.value,
            what=operation.name,
            target=target,
            outcome="done" if error is None else error_message(error),
            status=status,
            request_id=scope["state"]["request_id"],
            address=client_address(scope),
        )


def _carry_out(
    operation: Operation,
    path: dict[str, str],
    query: dict[str, list[str]],
    data: Data,
    context: RequestContext,
    targets: list[Sequence[str]],
) -> Any:
    """Check a request, run it, and encode its result. `targets` get what it names, also if it is
    refused."""
    body = _parse_json(data) if operation.body is Body.JSON else data
    call = operation.prepare(ParsedRequest.parse(path, query, body))
    targets += call.targets
    principal = context.principal
    if principal.prefix or call.role is not operation.role:  # the operation's role was checked
        principal.authorize(call.role, call.targets)
    result = call.run(context)
    # Credentials of the store open all of it, for writing too.
    if getattr(result, "storage_options", None) and (
        principal.prefix or not principal.has_role(Role.WRITER)
    ):
        result.storage_options = None
    return operation.encode(result)


def _parse_json(data: Data) -> Any:
    if not data:
        return {}
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body is not JSON: {error}") from error


def parse_query(text: bytes) -> dict[str, list[str]]:
    """The query by name. HTTPException if it is not UTF-8, or has more than 100 fields."""
    if not text:
        return {}
    try:
        return parse_qs(text.decode("ascii"), True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise HTTPException(400, "the query can't be read") from error
