"""What every operation does with its request and its answer, whatever it is about."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, ParamSpec, TypeVar

import lance_namespace as api
from pydantic import ValidationError

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.errors import InvalidInputError, translate
from tiltyard.store import Outcome

P = ParamSpec("P")
T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)


def operation(doing: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Name what a method does; errors of pylance and the store leave it as ours, with that name.

    lancedb hands requests over as dicts; they become the model that the method takes.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        kind = getattr(api, method.__annotations__.get("request", "").removeprefix("api."), None)

        @functools.wraps(method)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            if kind is not None and len(args) > 1 and isinstance(args[1], dict):
                given: Any = (args[0], _request(kind, args[1], doing), *args[2:])
                return guarded(*given, **kwargs)
            try:
                return method(*args, **kwargs)
            except (OSError, ValueError, RuntimeError, Outcome) as error:
                namespace, request = args[0], args[1] if len(args) > 1 else None
                identifier = names.display(_id_of(request))
                secrets = namespace._settings.secrets  # type: ignore[attr-defined]
                raise translate(error, f"{doing} {identifier}", secrets) from error

        return guarded

    return decorate


def _request(kind: Any, given: dict[str, Any], doing: str) -> Any:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise InvalidInputError(f"could not {doing}: {where}: {wrong['msg']}") from error


def choice(kind: type[Choice], text: str | None, what: str) -> Choice:
    """A mode in PascalCase or snake_case, any case; the first member is the default."""
    members = list(kind)
    if text is None:
        return members[0]
    wanted = text.replace("_", "").lower()
    for member in members:
        if member.value.replace("_", "") == wanted:
            return member
    known = ", ".join(member.value for member in members)
    raise InvalidInputError(f"unknown {what} {text!r}", hint=f"one of {known}")


def properties_of(table: Table) -> dict[str, str] | None:
    return None if table.properties is None else dict(table.properties)


def _id_of(request: Any) -> Sequence[str]:
    """Whatever a method was called with, as far as it names something."""
    identifier = request if isinstance(request, list | tuple) else getattr(request, "id", None)
    return [part for part in identifier or () if isinstance(part, str)]
