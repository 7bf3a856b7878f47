"""The exception tree, its journey between processes, and what foreign errors become."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path

import lance
import pytest
from lance_namespace import errors as lance_errors
from obstore import exceptions as obstore_errors

from tiltyard import errors
from tiltyard.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    PermissionDeniedError,
    ServiceUnavailableError,
    StoreCannotCompareAndSwapError,
    TableNotFoundError,
    TableSchemaValidationError,
    ThrottlingError,
    TiltyardError,
    UnauthenticatedError,
    UnsupportedOperationError,
    VersionBehindBoundaryError,
    redact,
    translate,
)

CLASSES = sorted(
    (
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, TiltyardError)
    ),
    key=lambda each: each.__name__,
)
LEAVES = [each for each in CLASSES if each is not TiltyardError]


# -- the tree


@pytest.mark.parametrize("kind", LEAVES)
def test_every_error_is_also_lance_namespaces_own(kind: type[TiltyardError]) -> None:
    theirs = [
        each
        for each in kind.__mro__
        if issubclass(each, lance_errors.LanceNamespaceError)
        and each.__module__ == lance_errors.__name__
        and each is not lance_errors.LanceNamespaceError
    ]
    assert len(theirs) == 1
    assert kind.code == theirs[0].code
    assert issubclass(kind, TiltyardError)
    if kind not in (StoreCannotCompareAndSwapError, VersionBehindBoundaryError):
        assert kind.__name__ == theirs[0].__name__


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = [word for word in (errors.__doc__ or "").split() if word.endswith("Error")]
    assert sorted(drawn) == sorted(["lance_namespace.LanceNamespaceError", *_names(CLASSES)])


def _names(kinds: list[type[TiltyardError]]) -> list[str]:
    return [kind.__name__ for kind in kinds]


def test_what_may_pass_is_retryable() -> None:
    retryable = [kind for kind in CLASSES if kind.retryable]
    assert retryable == [
        ConcurrentModificationError,
        ServiceUnavailableError,
        ThrottlingError,
        VersionBehindBoundaryError,
    ]


def test_an_error_shows_its_hint() -> None:
    assert str(TableNotFoundError("no table 'a'")) == "no table 'a'"
    assert str(TableNotFoundError("no table 'a'", hint="list them")) == "no table 'a' (list them)"


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_pickles_with_all_it_knows(kind: type[TiltyardError]) -> None:
    error = kind("message", hint="hint")
    error.version = 7  # type: ignore[attr-defined]
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is kind
        assert vars(copied) == {"message": "message", "hint": "hint", "version": 7}
        assert str(copied) == str(error)
        assert copied.args == ("message",)
        assert copied.code == kind.code


class _WithFields(TableNotFoundError):
    """One whose constructor asks for more than a message."""

    def __init__(self, table: str, version: int) -> None:
        super().__init__(f"{table} has no version {version}", hint="look")
        self.version = version


def test_an_error_with_a_constructor_of_its_own_pickles() -> None:
    copied = pickle.loads(pickle.dumps(_WithFields("users", 7)))
    assert (copied.message, copied.hint, copied.version) == ("users has no version 7", "look", 7)


# -- redaction


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://user:hunter2@host/path", "hunter2"),
        ("s3://key:p@ss-word@bucket/x", "ss-word"),
        ("https://b.host/k?X-Amz-Signature=deadbeef&X-Amz-Date=1", "deadbeef"),
        ("https://b.host/k?X-Amz-Credential=AKIAEXAMPLE%2F2026&x=1", "AKIAEXAMPLE"),
        ("https://b.host/k?X-Amz-Security-Token=abcdef", "abcdef"),
        ("https://acc.host/c?sv=2024&sig=Zm9v%3D&se=1", "Zm9v"),
        ("aws_secret_access_key=wJalrXUtn", "wJalrXUtn"),
        ("{'aws_secret_access_key': 'wJalrXUtn', 'region': 'x'}", "wJalrXUtn"),
        ('"account_key": "Eby8vdM02x"', "Eby8vdM02x"),
        ("session_token: FwoGZXIvYXdz", "FwoGZXIvYXdz"),
        ("password = hunter2", "hunter2"),
        ("access_key_id=AKIAEXAMPLE", "AKIAEXAMPLE"),
    ],
)
def test_what_looks_like_a_credential_is_taken_out(text: str, secret: str) -> None:
    redacted = redact(f"before {text} after")
    assert secret not in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")


def test_given_secrets_are_taken_out_wherever_they_stand() -> None:
    assert redact("id-AbC123-end and AbC123", ["AbC123"]) == "id-***-end and ***"


def test_a_secret_that_begins_another_does_not_uncover_it() -> None:
    assert "Rest" not in redact("failed with SecretRest", ["Secret", "SecretRest"])


def test_short_values_do_not_shred_the_message() -> None:
    assert redact("a table", ["a", ""]) == "a table"


def test_plain_messages_stay_as_they_are() -> None:
    text = "table 'tokens' at s3://bucket/path/users.lance: mailto:a@b, 5 keys"
    assert redact(text) == text


def test_translation_takes_secrets_out_of_the_foreign_text() -> None:
    multi_line = "-----BEGIN KEY-----\nAbCd  EfGh\n-----END KEY-----"
    error = translate(ValueError(f"bad {multi_line} here"), "open the store", [multi_line])
    assert "EfGh" not in str(error)


# -- translation


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        (PermissionError(13, "Permission denied", "/x"), PermissionDeniedError),
        (OSError(30, "Read-only file system", "/x"), PermissionDeniedError),
        (TimeoutError("timed out"), ServiceUnavailableError),
        (ConnectionResetError("reset by peer"), ServiceUnavailableError),
        (NotImplementedError("conditional put is disabled"), UnsupportedOperationError),
        (obstore_errors.PermissionDeniedError("for path x"), PermissionDeniedError),
        (obstore_errors.UnauthenticatedError("for path x"), UnauthenticatedError),
        (obstore_errors.GenericError("429 Too Many Requests"), ThrottlingError),
        (obstore_errors.GenericError("503 Service Unavailable: SlowDown"), ThrottlingError),
        (obstore_errors.GenericError("502 Bad Gateway"), ServiceUnavailableError),
        (obstore_errors.GenericError("HTTP error: error sending request"), ServiceUnavailableError),
        (obstore_errors.GenericError("501 Not Implemented"), UnsupportedOperationError),
        (obstore_errors.GenericError("<Code>NoSuchBucket</Code>"), InvalidInputError),
        (OSError("Commit conflict for version 3"), ConcurrentModificationError),
        (ValueError("Dataset version 1401 was not found"), InternalError),
        (ValueError("expected 2503 rows"), InternalError),
        (obstore_errors.GenericError("at http://h/connection/schema: 400"), InternalError),
        (obstore_errors.GenericError("Object at location a column/x not found"), InternalError),
        (RuntimeError("something else"), InternalError),
    ],
)
def test_a_foreign_error_becomes_ours(foreign: Exception, expected: type[TiltyardError]) -> None:
    error = translate(foreign, "create table 'users'")
    assert type(error) is expected
    assert error.message.startswith("could not create table 'users': ")


def test_our_own_errors_pass_unchanged() -> None:
    error = TableNotFoundError("no table", hint="list them")
    assert translate(error, "anything") is error


def test_what_rust_says_to_its_developers_is_left_out() -> None:
    text = "Not found: x, /home/me/.cargo/registry/src/lance-1/src/dataset.rs:12:34"
    assert str(translate(ValueError(text), "open it")) == "could not open it: Not found: x"
    text = "Bad thing\n\nDebug source:\nGeneric {\n  store: S3\n}"
    assert str(translate(ValueError(text), "open it")) == "could not open it: Bad thing"


def test_a_schema_that_lance_refuses_is_a_schema_error(tmp_path: Path) -> None:
    import pyarrow as pa

    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1]}), uri)
    with pytest.raises(Exception, match="a") as refused:
        lance.write_dataset(pa.table({"b": ["x"]}), uri, mode="append")
    assert type(translate(refused.value, "insert")) is TableSchemaValidationError
