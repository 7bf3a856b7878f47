"""A client of the server, for Python: pylance's own for the protocol, with our operations added.

    catalog = RestCatalog("http://127.0.0.1:2333", key="ty_…")
    catalog.undrop_table(["prod", "users"])
    catalog.maintenance.optimize_table(["prod", "users"])

Methods, groups of methods, results and errors are those of a `DirectoryNamespace`.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import lance_namespace as api
import urllib3
from lance_namespace.errors import ErrorCode, LanceNamespaceError
from pydantic import TypeAdapter

from tiltyard import errors, names
from tiltyard.errors import InternalError, TiltyardError
from tiltyard.rest import own, protocol
from tiltyard.rest.operation import Body, Operation
from tiltyard.rest.own import OwnOperation
from tiltyard.rest.protocol import ProtocolOperation

_BY_PATH = {operation.method_path: operation for operation in own.OPERATIONS}
_GROUPS = frozenset(path.partition(".")[0] for path in _BY_PATH if "." in path)
_BY_CODE: dict[ErrorCode, type[TiltyardError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, TiltyardError)
    and TiltyardError in kind.__bases__
}
# What pylance 14's client leaves out, or loses a part of on the way.
_OURS = frozenset(
    {
        "alter_transaction",
        "batch_commit_tables",
        "batch_delete_table_versions",
        "update_field_metadata",
    }
)
_PROTOCOL = {each.name: each for each in protocol.OPERATIONS}


class RestCatalog:
    """A catalog behind a server. Whatever the server offers is a method here.

    `ca_certificate` is a file with the authority that signed the server's certificate, if it is
    none of those that everybody trusts.
    """

    def __init__(
        self, uri: str, *, key: str | None = None, ca_certificate: str | None = None
    ) -> None:
        self._uri = uri.rstrip("/")
        self._headers = {} if key is None else {"x-api-key": key}
        properties = {f"header.{name}": value for name, value in self._headers.items()}
        if ca_certificate is not None:
            properties["tls.ssl_ca_cert"] = ca_certificate
        self._lance = api.connect("rest", {"uri": self._uri, **properties})
        self._http = urllib3.PoolManager(ca_certs=ca_certificate)

    def __repr__(self) -> str:
        return f"RestCatalog({self._uri!r})"

    def __getattr__(self, name: str) -> Any:
        if name in _OURS:
            return functools.partial(self._call_protocol, _PROTOCOL[name])
        if name in _GROUPS:
            return _Group(self, name)
        # A drop is the protocol's, unless it says more than that can.
        if name in _BY_PATH and name != "drop_table":
            return functools.partial(self.call, _BY_PATH[name])
        return _translated(getattr(self._lance, name))

    def drop_table(
        self,
        request: api.DropTableRequest,
        *,
        ttl: own.Duration | None = None,
        reason: str | None = None,
    ) -> api.DropTableResponse:
        """Put a table into the trash; `ttl` and `reason` as for a `DirectoryNamespace`."""
        if ttl is None and reason is None:
            plainly: api.DropTableResponse = _translated(self._lance.drop_table)(request)
            return plainly
        id = _model("drop_table", request).id
        dropped: api.DropTableResponse = self.call(
            _BY_PATH["drop_table"], id, ttl=ttl, reason=reason
        )
        return dropped

    def _call_protocol(self, operation: ProtocolOperation, request: Any) -> Any:
        asked = _model(operation.name, request)
        body = asked.model_dump_json(by_alias=True, exclude_none=True).encode()
        answer = self._send(operation, getattr(asked, "id", None), body)
        return TypeAdapter(operation.tells).validate_json(answer)

    def call(self, operation: OwnOperation, /, *args: Any, **kwargs: Any) -> Any:
        """Carry out one of our own operations, with the arguments of its function."""
        said = inspect.signature(operation.function).bind(self, *args, **kwargs).arguments
        progress = said.pop("progress", None)
        _, *given = said.items()
        arguments = {name: _plain(value) for name, value in given if value is not None}
        identifier = arguments.pop("id", None)
        body = operation.checked(arguments).model_dump_json(exclude_unset=True).encode()
        result = operation.returned.validate_json(self._send(operation, identifier, body))
        for at, each in enumerate(result if progress else (), 1):
            progress(each, at, len(result))
        return result

    def _send(self, operation: Operation, identifier: Any, body: bytes) -> bytes:
        path = operation.path
        if "{id}" in path:
            id = names.object_id(names.parse_table_id(identifier))
            path = path.replace("{id}", quote(id, safe=""))
        url = self._uri + path
        if operation.body is Body.NOTHING:
            url = f"{url}?{urlencode(json.loads(body))}"
        sent = body if operation.body is Body.JSON else None
        answer = self._http.request(operation.method, url, body=sent, headers=self._headers)
        if answer.status != operation.status:
            raise _error(answer.status, answer.data)
        return answer.data


class _Group:
    """The operations of one group, like `catalog.maintenance`."""

    def __init__(self, catalog: RestCatalog, name: str) -> None:
        self._catalog = catalog
        self._name = name

    def __getattr__(self, name: str) -> Any:
        operation = _BY_PATH.get(f"{self._name}.{name}")
        if operation is None:
            raise AttributeError(f"the server does not offer {self._name}.{name}")
        return functools.partial(self._catalog.call, operation)


def _model(name: str, request: Any) -> Any:
    """The request of an operation, also if it came as a plain mapping. InvalidInputError."""
    return _PROTOCOL[name].checked(request) if isinstance(request, dict) else request


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _translated(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of pylance's client whose errors are ours, and that takes plain mappings too."""

    @functools.wraps(method)
    def translated(*args: Any, **kwargs: Any) -> Any:
        given = [_model(method.__name__, each) for each in args]
        try:
            return method(*given, **kwargs)
        except LanceNamespaceError as error:
            raise _split(_BY_CODE[error.code], str(error)) from error

    return translated


# The server sends a message with its hint in brackets; pylance's client puts the kind before it.
_TOLD = re.compile(r"(?:[A-Z][a-z ]+: )?(?P<message>.*?)(?: \((?P<hint>.*)\))?", re.DOTALL)


def _split(kind: type[TiltyardError], text: str) -> TiltyardError:
    told = _TOLD.fullmatch(text)
    return kind(told["message"], hint=told["hint"]) if told else kind(text)


def _error(status: int, body: bytes) -> TiltyardError:
    """An answer that tells of an error, as the exception that the server had."""
    try:
        told = json.loads(body)
        return _split(_BY_CODE[ErrorCode(told["code"])], told["error"])
    except (KeyError, TypeError, ValueError):
        return InternalError(f"the server answered with status {status} and nothing we understand")
