"""What the operations of a catalog have in common: their services, their requests, their errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, ParamSpec, TypeVar

import lance_namespace as api
from pydantic import ValidationError

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.errors import InvalidInputError, translate
from tiltyard.namespace.services import Services
from tiltyard.store import Outcome

P = ParamSpec("P")
T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)


class CatalogBase(api.LanceNamespace):
    """What the families of operations of a `DirectoryNamespace` work with."""

    context: CatalogContext
    services: Services


class OperationGroup:
    """Operations of one kind, as an attribute of a `DirectoryNamespace`."""

    def __init__(self, services: Services) -> None:
        self.context = services.context
        self.services = services


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
                identifier = names.display(_id_of(args[1] if len(args) > 1 else None))
                secrets = args[0].context.settings.secrets  # type: ignore[attr-defined]
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
    """The properties of a table for a response; None if the catalog does not keep them."""
    return None if table.properties is None else dict(table.properties)


def _id_of(request: Any) -> Sequence[str]:
    """Whatever a method was called with, as far as it names something."""
    identifier = request if isinstance(request, list | tuple) else getattr(request, "id", None)
    return [part for part in identifier or () if isinstance(part, str)]
