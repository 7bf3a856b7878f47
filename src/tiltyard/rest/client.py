"""A Python client of the server: pylance's client for the protocol, and tiltyard's operations.

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

from tiltyard import errors
from tiltyard.catalog import names
from tiltyard.errors import InternalError, TiltyardError
from tiltyard.rest import extensions, protocol
from tiltyard.rest.extensions import ExtensionOperation
from tiltyard.rest.protocol import ProtocolOperation
from tiltyard.rest.routing import Body, Operation

_EXTENSIONS = {operation.method_path: operation for operation in extensions.OPERATIONS}
_GROUPS = frozenset(path.partition(".")[0] for path in _EXTENSIONS if "." in path)
_PROTOCOL = {operation.name: operation for operation in protocol.OPERATIONS}
# What pylance 14's client does not have, or sends incompletely.
_NOT_IN_PYLANCE = frozenset(
    {
        "alter_transaction",
        "batch_commit_tables",
        "batch_delete_table_versions",
        "update_field_metadata",
    }
)
_ERRORS: dict[ErrorCode, type[TiltyardError]] = {
    error.code: error
    for error in vars(errors).values()
    if isinstance(error, type)
    and issubclass(error, TiltyardError)
    and TiltyardError in error.__bases__
}


class RestCatalog:
    """A catalog behind a server. Every operation of the server is a method, one request each.

    `ca_certificate` is a file with the authority that signed the server's certificate, if it is not
    a public one.
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
        if name in _NOT_IN_PYLANCE:
            return functools.partial(self._call_protocol, _PROTOCOL[name])
        if name in _GROUPS:
            return _Group(self, name)
        if name in _EXTENSIONS:
            return functools.partial(self.call, _EXTENSIONS[name])
        return _translated(getattr(self._lance, name))

    def drop_table(
        self,
        request: api.DropTableRequest,
        *,
        ttl: extensions.Duration | None = None,
        reason: str | None = None,
    ) -> api.DropTableResponse:
        """Put a table into the trash; `ttl` and `reason` as for a `DirectoryNamespace`.

        Without these it is the protocol's operation, otherwise tiltyard's.
        """
        response: api.DropTableResponse
        if ttl is None and reason is None:
            response = _translated(self._lance.drop_table)(request)
        else:
            id = _model("drop_table", request).id
            response = self.call(_EXTENSIONS["drop_table"], id, ttl=ttl, reason=reason)
        return response

    def call(self, operation: ExtensionOperation, /, *args: Any, **kwargs: Any) -> Any:
        """Send one of tiltyard's operations, with the arguments of its function."""
        bound = inspect.signature(operation.function).bind(self, *args, **kwargs).arguments
        progress = bound.pop("progress", None)
        _, *given = bound.items()
        arguments = {name: _json_value(value) for name, value in given if value is not None}
        identifier = arguments.pop("id", None)
        body = operation.validate(arguments).model_dump_json(exclude_unset=True).encode()
        result = operation.response_adapter.validate_json(self._send(operation, identifier, body))
        for done, row in enumerate(result if progress else (), 1):
            progress(row, done, len(result))
        return result

    def _call_protocol(self, operation: ProtocolOperation, request: Any) -> Any:
        model = _model(operation.name, request)
        body = model.model_dump_json(by_alias=True, exclude_none=True).encode()
        response = self._send(operation, getattr(model, "id", None), body)
        return TypeAdapter(operation.response_type).validate_json(response)

    def _send(self, operation: Operation, identifier: Any, body: bytes) -> bytes:
        path = operation.path
        if "{id}" in path:
            id = names.object_id(names.parse_table_id(identifier))
            path = path.replace("{id}", quote(id, safe=""))
        url = self._uri + path
        if operation.body is Body.NONE:
            url = f"{url}?{urlencode(json.loads(body))}"
        content = body if operation.body is Body.JSON else None
        response = self._http.request(operation.method, url, body=content, headers=self._headers)
        if response.status != operation.status:
            raise _error(response.status, response.data)
        return response.data


class _Group:
    """The operations of one group, like `catalog.maintenance`."""

    def __init__(self, catalog: RestCatalog, name: str) -> None:
        self._catalog = catalog
        self._name = name

    def __getattr__(self, name: str) -> Any:
        operation = _EXTENSIONS.get(f"{self._name}.{name}")
        if operation is None:
            raise AttributeError(f"the server does not offer {self._name}.{name}")
        return functools.partial(self._catalog.call, operation)


def _model(name: str, request: Any) -> Any:
    """The request of an operation, also if it came as a plain mapping. InvalidInputError."""
    return _PROTOCOL[name].validate(request) if isinstance(request, dict) else request


def _json_value(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _translated(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of pylance's client that raises our errors, and accepts plain mappings too."""

    @functools.wraps(method)
    def translated(*args: Any, **kwargs: Any) -> Any:
        arguments = [_model(method.__name__, argument) for argument in args]
        try:
            return method(*arguments, **kwargs)
        except LanceNamespaceError as error:
            raise _parse_message(_ERRORS[error.code], str(error)) from error

    return translated


# The server sends a message with its hint in brackets; pylance's client puts the kind before it.
_MESSAGE = re.compile(r"(?:[A-Z][a-z ]+: )?(?P<message>.*?)(?: \((?P<hint>.*)\))?", re.DOTALL)


def _parse_message(error: type[TiltyardError], text: str) -> TiltyardError:
    match = _MESSAGE.fullmatch(text)
    return error(match["message"], hint=match["hint"]) if match else error(text)


def _error(status: int, body: bytes) -> TiltyardError:
    """The exception that the server raised."""
    try:
        content = json.loads(body)
        return _parse_message(_ERRORS[ErrorCode(content["code"])], content["error"])
    except (KeyError, TypeError, ValueError):
        return InternalError(f"the server answered with status {status} and no error message")
