"""Every error that leaves tiltyard, and the one place where foreign errors become ours.

    lance_namespace.LanceNamespaceError        what callers of any Lance namespace catch
    └── TiltyardError                          .message, .hint, .retryable, .code
        ├── UnsupportedOperationError          also lance_namespace's of that name, as all below
        │   └── StoreCannotCompareAndSwapError
        ├── InvalidInputError
        ├── NamespaceNotFoundError
        ├── NamespaceAlreadyExistsError
        ├── NamespaceNotEmptyError
        ├── TableNotFoundError
        ├── TableAlreadyExistsError
        ├── TableVersionNotFoundError
        ├── TableTagNotFoundError
        ├── TableTagAlreadyExistsError
        ├── TableBranchNotFoundError
        ├── TableBranchAlreadyExistsError
        ├── TableIndexNotFoundError
        ├── TableIndexAlreadyExistsError
        ├── TransactionNotFoundError
        ├── TableColumnNotFoundError
        ├── TableSchemaValidationError
        ├── InvalidTableStateError
        ├── ConcurrentModificationError        retryable
        │   └── VersionBehindBoundaryError     .version, .boundary
        ├── PermissionDeniedError
        ├── UnauthenticatedError
        ├── ThrottlingError                    retryable
        ├── ServiceUnavailableError            retryable
        └── InternalError

Each pickles with all of its fields, because errors travel from Spark executors to the driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lance_namespace import errors as lance_errors

if TYPE_CHECKING:
    from pydantic import ValidationError


class TiltyardError(lance_errors.LanceNamespaceError):
    """The root of our tree: a message, an optional hint what to do, and whether to try again."""

    retryable = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Callable[..., TiltyardError], tuple[Any, ...]]:
        return _rebuild, (type(self), self.message, self.__dict__)


def _rebuild(cls: type[TiltyardError], message: str, fields: dict[str, Any]) -> TiltyardError:
    error = cls.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(fields)
    return error


class UnsupportedOperationError(TiltyardError, lance_errors.UnsupportedOperationError):
    """The operation has no meaning in this mode or on this store."""


class StoreCannotCompareAndSwapError(UnsupportedOperationError):
    """The store accepts conditional writes and ignores the condition, or does not know them."""


class InvalidInputError(TiltyardError, lance_errors.InvalidInputError):
    """The request itself is wrong; nothing was changed."""


class NamespaceNotFoundError(TiltyardError, lance_errors.NamespaceNotFoundError):
    """No namespace has this id."""


class NamespaceAlreadyExistsError(TiltyardError, lance_errors.NamespaceAlreadyExistsError):
    """A namespace with this id exists."""


class NamespaceNotEmptyError(TiltyardError, lance_errors.NamespaceNotEmptyError):
    """The namespace still holds tables or namespaces."""


class TableNotFoundError(TiltyardError, lance_errors.TableNotFoundError):
    """No table has this id."""


class TableAlreadyExistsError(TiltyardError, lance_errors.TableAlreadyExistsError):
    """A table with this id exists."""


class TableVersionNotFoundError(TiltyardError, lance_errors.TableVersionNotFoundError):
    """The table has no such version."""


class TableTagNotFoundError(TiltyardError, lance_errors.TableTagNotFoundError):
    """The table has no such tag."""


class TableTagAlreadyExistsError(TiltyardError, lance_errors.TableTagAlreadyExistsError):
    """The table has a tag of this name."""


class TableBranchNotFoundError(TiltyardError, lance_errors.TableBranchNotFoundError):
    """The table has no such branch."""


class TableBranchAlreadyExistsError(TiltyardError, lance_errors.TableBranchAlreadyExistsError):
    """The table has a branch of this name."""


class TableIndexNotFoundError(TiltyardError, lance_errors.TableIndexNotFoundError):
    """The table has no such index."""


class TableIndexAlreadyExistsError(TiltyardError, lance_errors.TableIndexAlreadyExistsError):
    """The table has an index of this name."""


class TransactionNotFoundError(TiltyardError, lance_errors.TransactionNotFoundError):
    """No version of the table was made by this transaction."""


class TableColumnNotFoundError(TiltyardError, lance_errors.TableColumnNotFoundError):
    """The table has no such column."""


class TableSchemaValidationError(TiltyardError, lance_errors.TableSchemaValidationError):
    """The data does not fit the table's schema."""


class InvalidTableStateError(TiltyardError, lance_errors.InvalidTableStateError):
    """What lies in the catalog contradicts itself; the message names the object."""


class ConcurrentModificationError(TiltyardError, lance_errors.ConcurrentModificationError):
    """Somebody else changed the same thing first; nothing of ours took effect."""

    retryable = True


class VersionBehindBoundaryError(ConcurrentModificationError):
    """Versions that this write built on, or the one that it wrote, may have been deleted since."""

    version = 0
    boundary = 0

    @classmethod
    def of(cls, version: int, boundary: int) -> VersionBehindBoundaryError:
        error = cls(
            f"version {version} is behind the boundary {boundary}: what came after it may be gone",
            hint="open the table anew and do it again",
        )
        error.version, error.boundary = version, boundary
        return error


class PermissionDeniedError(TiltyardError, lance_errors.PermissionDeniedError):
    """The store or the file system refused."""


class UnauthenticatedError(TiltyardError, lance_errors.UnauthenticatedError):
    """The store does not know these credentials."""


class ThrottlingError(TiltyardError, lance_errors.ThrottlingError):
    """Too much at once, here or at the store."""

    retryable = True


class ServiceUnavailableError(TiltyardError, lance_errors.ServiceUnavailableError):
    """The store did not answer, after all the tries the message tells of."""

    retryable = True


class InternalError(TiltyardError, lance_errors.InternalError):
    """A bug, ours or below us."""


# Lance and obstore say what went wrong in the text only, so the text decides. First match wins.
# No bare numbers: "403 " is also the end of "version 1403 ". What Lance says about a request comes
# before what a store says, because it quotes the request: a filter may well name a "connection".
_BY_TEXT: tuple[tuple[str, type[TiltyardError]], ...] = (
    (r"no field named|field \S+ not found in struct|'\S+ not found in schema'",
     TableColumnNotFoundError),
    (r"column \S+ does not exist|column \S+ is not in the dataset", TableColumnNotFoundError),
    (r"field '.*' not found\. available", TableColumnNotFoundError),
    (r"append with different schema|duplicate field name|contained null values even though",
     TableSchemaValidationError),
    (r"index not found|index \S+ not found", TableIndexNotFoundError),
    (r"index name \S+ already exists", TableIndexAlreadyExistsError),
    (r"tag \S+ does not exist", TableTagNotFoundError),
    (r"tag \S+ already exists", TableTagAlreadyExistsError),
    (r"branch \S+ does not exist", TableBranchNotFoundError),
    (r"version \S+ does not exist", TableVersionNotFoundError),
    (r"not supported: ", UnsupportedOperationError),
    (r"invalid user input|ref is invalid|invalid argument error|cannot drop all columns",
     InvalidInputError),
    (r"divide by zero|cast error|arithmetic overflow", InvalidInputError),
    (r"no ?such ?bucket|container ?not ?found", InvalidInputError),
    (r"unauthenticated|unauthorized|invalid ?access ?key|signature ?does ?not ?match",
     UnauthenticatedError),
    (r"permission ?denied|access ?denied|forbidden|read-only file system", PermissionDeniedError),
    (r"slow ?down|too many requests", ThrottlingError),
    (r"not ?implemented", UnsupportedOperationError),
    (r"timed? ?out|connection|error sending request|response body error", ServiceUnavailableError),
    (r"internal server error|bad gateway|service unavailable", ServiceUnavailableError),
    (r"conflict|concurrent|precondition", ConcurrentModificationError),
)  # fmt: skip

# What is left of Lance's words about data, if nobody knows better.
_ABOUT_DATA = r"schema|field .* not found|column"

# Names that users chose say nothing about what went wrong: a table may be called "connection".
_CHOSEN = re.compile(r"\w+://\S+|\b(?:location|path) .*?(?=: | not found| already exists|$)")

_CREDENTIALS = re.compile(
    r"(?i)((?:x-amz-(?:signature|credential|security-token)|sig|signature|token|secret\w*|"
    r"access_?key\w*|account_?key|password)[\"']?\s*[=:]\s*[\"']?)([^\s\"'&,)}]+)"
)
_USER_INFO = re.compile(r"(\w+://)[^/\s]+@")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Take credentials out of a text: the given values, and whatever looks like one."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return _USER_INFO.sub(r"\1***@", _CREDENTIALS.sub(r"\1***", text))


# What Rust appends for its own developers: the debug form of the error, and where it was raised.
_FOR_DEVELOPERS = re.compile(
    r"\s*(?:Debug source:.*|,?(?: location:)? ?/\S+\.rs:\d+:\d+)", re.DOTALL
)


def _tidy(text: str) -> str:
    return " ".join(_FOR_DEVELOPERS.sub("", text).split()).rstrip(",:")


def translate(
    error: BaseException,
    doing: str,
    secrets: Iterable[str] = (),
    otherwise: type[TiltyardError] = InternalError,
) -> TiltyardError:
    """Turn an error of pylance, obstore or the operating system into ours.

    `doing` says what was being tried, in the words of the user: "create table 'users'". An error
    whose text tells nothing becomes `otherwise`.
    """
    if isinstance(error, TiltyardError):
        return error
    text = _tidy(redact(str(error), secrets))
    message = f"could not {doing}: {text}"
    if isinstance(error, PermissionError):
        return PermissionDeniedError(message)
    if isinstance(error, TimeoutError | ConnectionError):
        return ServiceUnavailableError(message)
    lowered = f"{type(error).__name__} {_CHOSEN.sub('', text)}".lower()
    for pattern, kind in _BY_TEXT:
        if re.search(pattern, lowered):
            return kind(message)
    if otherwise is InternalError and re.search(_ABOUT_DATA, lowered):
        return TableSchemaValidationError(message)
    return otherwise(message)


def first_problem(error: ValidationError) -> str:
    """The first value that pydantic refused, in one line: "port: Input should be at least 0"."""
    problem = error.errors(include_url=False)[0]
    field = ".".join(map(str, problem["loc"]))
    return f"{field}: {problem['msg']}" if field else str(problem["msg"])
