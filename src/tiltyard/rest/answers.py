"""Answers as they cross the wire: JSON, and errors with their code, each with its HTTP status."""

from __future__ import annotations

import json
from typing import Any

from lance_namespace.errors import ErrorCode, LanceNamespaceError
from starlette.responses import Response

JSON = "application/json"
ARROW_FILE = "application/vnd.apache.arrow.file"

_MISSING = (
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
    **dict.fromkeys(_MISSING, 404),
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


class Refused(Exception):
    """A request that HTTP itself has a status for: no such route, a body that is too large."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


def as_json(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(body, status, media_type=JSON)


def error(problem: Exception, instance: str) -> Response:
    """An error as clients of the protocol expect it: the code picks their exception."""
    if isinstance(problem, Refused):
        invalid = ErrorCode.INVALID_INPUT
        return _error(problem.status, str(problem), invalid, instance, headers=problem.headers)
    if not isinstance(problem, LanceNamespaceError):
        told = "something went wrong that should not; the server's log says what"
        return _error(500, told, ErrorCode.INTERNAL, instance)
    headers = {}
    status = STATUS[problem.code]
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tiltyard"'
    if status in (429, 503):
        headers["Retry-After"] = str(getattr(problem, "seconds", 1))
    hint = getattr(problem, "hint", None)
    return _error(status, str(problem), problem.code, instance, hint, headers)


def _error(
    status: int,
    message: str,
    code: ErrorCode,
    instance: str,
    hint: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    told = {"error": message, "code": int(code), "instance": instance}
    if hint is not None:
        told["detail"] = hint
    answer = as_json(told, status)
    answer.headers.update(headers or {})
    return answer
