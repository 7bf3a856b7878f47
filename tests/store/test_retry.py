"""One way to try again: bounded, with doubling pauses, and the last error is told."""

from __future__ import annotations

import pytest

from tiltyard.errors import InvalidInputError, ThrottlingError
from tiltyard.store import Retry


class Request:
    """Fails with these errors, one after the other, and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def _retry(pauses: list[float], **options: float) -> Retry:
    return Retry(attempts=3, sleep=pauses.append, dice=lambda: 1.0, **options)  # type: ignore[arg-type]


def test_attempts_are_bounded_with_a_pause_between_two_of_them() -> None:
    pauses: list[float] = []

    assert list(_retry(pauses, first_pause=1.0, longest_pause=1.5)) == [0, 1, 2]
    assert pauses == [1.0, 1.5]


def test_without_a_first_pause_there_is_none() -> None:
    pauses: list[float] = []

    assert list(_retry(pauses, first_pause=0.0)) == [0, 1, 2]
    assert pauses == []


def test_a_request_is_repeated_on_the_given_errors_alone() -> None:
    retry = _retry([])

    assert retry.on(KeyError, Request(KeyError(), KeyError())) == "done"
    with pytest.raises(KeyError, match="3"):
        retry.on(KeyError, Request(KeyError(1), KeyError(2), KeyError(3)))
    with pytest.raises(ValueError, match="other"):
        retry.on((KeyError, IndexError), Request(IndexError(), ValueError("other")))


def test_a_read_is_repeated_while_the_store_can_not_answer() -> None:
    retry = _retry([])

    assert retry.reading(Request(ThrottlingError("busy"))) == "done"
    with pytest.raises(InvalidInputError):
        retry.reading(Request(InvalidInputError("wrong")))
