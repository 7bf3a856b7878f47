"""Responses: JSON, errors with the protocol's code, and large results in a temporary file."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import IO, Any

from lance_namespace.errors import ErrorCode, LanceNamespaceError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tiltyard.errors import InvalidInputError
from tiltyard.rest.server import MEBIBYTE, ServerSettings

JSON = "application/json"
ARROW_FILE = "application/vnd.apache.arrow.file"
CHUNK_BYTES = MEBIBYTE
INTERNAL_ERROR = "internal server error; the server's log has the details"

_NOT_FOUND = (
    ErrorCode.NAMESPACE_NOT_FOUND,
    ErrorCode.TABLE_NOT_FOUND,
    ErrorCode.TABLE_INDEX_NOT_FOUND,
    ErrorCode.TABLE_TAG_NOT_FOUND,
    ErrorCode.TRANSACTION_NOT_FOUND,
    ErrorCode.TABLE_VERSION_NOT_FOUND,
    ErrorCode.TABLE_COLUMN_NOT_FOUND,
    ErrorCode.TABLE_BRANCH_NOT_FOUND,
)
_CONFLICT = (
    ErrorCode.NAMESPACE_ALREADY_EXISTS,
    ErrorCode.NAMESPACE_NOT_EMPTY,
    ErrorCode.TABLE_ALREADY_EXISTS,
    ErrorCode.TABLE_INDEX_ALREADY_EXISTS,
    ErrorCode.TABLE_TAG_ALREADY_EXISTS,
    ErrorCode.TABLE_BRANCH_ALREADY_EXISTS,
    ErrorCode.CONCURRENT_MODIFICATION,
    ErrorCode.INVALID_TABLE_STATE,
)
STATUS: dict[ErrorCode, int] = {
    **dict.fromkeys(_NOT_FOUND, 404),
    **dict.fromkeys(_CONFLICT, 409),
    ErrorCode.INVALID_INPUT: 400,
    ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR: 400,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.THROTTLING: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
}


def json_response(content: Any, status: int = 200) -> Response:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(body, status, media_type=JSON)


def error_response(error: Exception, instance: str) -> Response:
    """An error in the protocol's form. Clients choose their exception by its code."""
    if isinstance(error, HTTPException):
        code, headers = ErrorCode.INVALID_INPUT, error.headers
        return _error_response(error.status_code, error.detail, code, instance, headers=headers)
    if not isinstance(error, LanceNamespaceError):
        return _error_response(500, INTERNAL_ERROR, ErrorCode.INTERNAL, instance)
    status = STATUS[error.code]
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tiltyard"'
    if status in (429, 503):
        headers["Retry-After"] = str(getattr(error, "seconds", 1))
    hint = getattr(error, "hint", None)
    return _error_response(status, str(error), error.code, instance, hint, headers)


def _error_response(
    status: int,
    message: str,
    code: ErrorCode,
    instance: str,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    content = {"error": message, "code": int(code), "instance": instance}
    if hint is not None:
        content["detail"] = hint
    response = json_response(content, status)
    response.headers.update(headers or {})
    return response


def error_message(error: Exception) -> str:
    """An error as the audit log tells it."""
    if isinstance(error, HTTPException):
        return error.detail
    return str(error) or type(error).__name__


# -- large results


def temporary_file(settings: ServerSettings) -> IO[bytes]:
    """A file that stays in memory until it is larger than `spool_bytes`."""
    return tempfile.SpooledTemporaryFile(settings.spool_bytes, dir=settings.spool_directory)


class SpooledBody:
    """The complete body of a response, in memory or in a temporary file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.size = size

    @classmethod
    def write(cls, settings: ServerSettings, produce: Callable[[Any], None]) -> SpooledBody:
        """Let `produce` write the body. InvalidInputError if it exceeds `max_answer_bytes`."""
        file = temporary_file(settings)
        sink = _LimitedSink(file, settings.max_answer_bytes)
        try:
            produce(sink)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return cls(file, sink.size)

    def chunks(self) -> Iterator[bytes]:
        """The body in chunks. The file is deleted after the last one."""
        with self._file:
            while chunk := self._file.read(CHUNK_BYTES):
                yield chunk


class SpooledResponse(Response):
    """Sends a spooled body chunk by chunk. `run` reads each chunk in a thread."""

    media_type = ARROW_FILE

    def __init__(self, body: SpooledBody, status: int, run: Callable[..., Awaitable[Any]]) -> None:
        super().__init__(None, status, {"content-length": str(body.size)})
        self._chunks = body.chunks()
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        while chunk := await self._run(next, self._chunks, b""):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class _LimitedSink(io.RawIOBase):
    """A writable file with a maximum size."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self._limit = limit
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.size += view.nbytes
        if self.size > self._limit:
            raise InvalidInputError(
                f"the answer would be larger than {self._limit} bytes",
                hint="ask for fewer rows or columns",
            )
        return self._file.write(view)
