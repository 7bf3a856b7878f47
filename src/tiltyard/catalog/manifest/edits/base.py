"""What an edit of the manifest is, and its JSON form.

An edit is a value: everything it needs (names, times, nonces) is a field, so it gives the same
change of the same draft wherever and however often it is applied. It pickles, and its JSON form
can be sent to another process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.errors import UnsupportedOperationError

# The classes of edits, by the names that they have in JSON.
KINDS: dict[str, type[Edit]] = {}


class Edit(ABC):
    """A change of the manifest, to be applied to whatever is there at its commit.

    The committer applies it again to a newer snapshot after a lost race, so whatever an edit
    requires is true of the commit that carries it. Subclasses are frozen dataclasses.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, *, kind: str | None = None) -> None:
        if kind is not None:
            assert kind not in KINDS, f"two kinds of edits are called {kind}"
            cls.kind = kind
            KINDS[kind] = cls

    @abstractmethod
    def apply(self, draft: Draft) -> Change:
        """What to change, and the answer for the caller. A TiltyardError refuses the edit."""

    def to_json(self) -> dict[str, Any]:
        """The kind and the fields, in what JSON has."""
        encoded: dict[str, Any] = _encode_fields(self)
        return {"kind": self.kind, **encoded}


def edit_from_json(encoded: Mapping[str, Any]) -> Edit:
    """The edit that `to_json` has encoded. UnsupportedOperationError if its kind is unknown."""
    edit_type = KINDS.get(encoded["kind"])
    if edit_type is None:
        raise UnsupportedOperationError(
            f"an edit of the unknown kind {encoded['kind']!r} can't be applied",
            hint="a newer version of tiltyard has written it",
        )
    edit: Edit = _decode_fields(edit_type, encoded)
    return edit


def _encode(value: Any) -> Any:
    if isinstance(value, Edit):
        return value.to_json()
    if is_dataclass(value):
        return _encode_fields(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _encode(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_encode(entry) for entry in value]
    return value


def _encode_fields(value: Any) -> dict[str, Any]:
    return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}


def _decode(kind: Any, value: Any) -> Any:
    """A value of the type that a field is declared with."""
    arguments = get_args(kind)
    if value is None or kind is Any:
        return value
    if isinstance(kind, UnionType):  # of one type and None
        return _decode(next(choice for choice in arguments if choice is not type(None)), value)
    if get_origin(kind) is tuple:
        return tuple(_decode(arguments[0], entry) for entry in value)
    if get_origin(kind) is Mapping:
        return {arguments[0](key): _decode(arguments[1], entry) for key, entry in value.items()}
    if kind is Edit:
        return edit_from_json(value)
    if is_dataclass(kind):
        return _decode_fields(kind, value)
    return kind(value)


def _decode_fields(kind: Any, encoded: Mapping[str, Any]) -> Any:
    return kind(**{name: _decode(hint, encoded[name]) for name, hint in _field_types(kind).items()})


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
