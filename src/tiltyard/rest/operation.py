"""What a row of the table of routes says, and how a request becomes a call and an answer.

Both families of operations, the protocol's and ours, are rows of this kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from tiltyard.access import Principal, Role, Sessions
from tiltyard.errors import InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest import answers
from tiltyard.rest.audit import Audit
from tiltyard.rest.settings import ServerSettings

DELIMITER = "$"
# The id of the root namespace is a lone delimiter; one of a table has this many parts at most.
MOST_PARTS = 64


class Body(StrEnum):
    """What a request carries."""

    NOTHING = "nothing"
    JSON = "json"
    ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, taken apart: path, query and body. Nothing is checked yet."""

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Any = None

    @property
    def delimiter(self) -> str:
        chosen = self.query.get("delimiter", (DELIMITER,))[-1]
        if not chosen:
            raise InvalidInputError("a delimiter has at least one character")
        return chosen

    @property
    def id(self) -> list[str] | None:
        """The id in the route, split at the delimiter that the client chose."""
        text = self.path.get("id")
        if text is None:
            return None
        if text == self.delimiter:
            return []
        parts = text.split(self.delimiter)
        if len(parts) > MOST_PARTS:
            raise InvalidInputError(f"an id has at most {MOST_PARTS} parts")
        return parts


@dataclass(frozen=True, slots=True)
class Desk:
    """What an operation works with: the catalog, in the name of whoever asks."""

    namespace: DirectoryNamespace
    principal: Principal
    settings: ServerSettings
    sessions: Sessions
    audit: Audit


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was understood: what to do, what it is about, and who may ask for it."""

    run: Callable[[Desk], Any]
    # Everything that it names; `[()]` is the whole catalog.
    targets: Sequence[Sequence[str]]
    needs: Role


@dataclass(frozen=True)
class Operation(ABC):
    """One row: a route, the role that it needs, and whether it changes anything."""

    name: str
    method: str
    path: str
    needs: Role
    changes: bool
    body: Body

    status: ClassVar[int] = 200

    @property
    def key(self) -> str:
        """A name that no other row has."""
        return self.name

    @property
    @abstractmethod
    def summary(self) -> str:
        """What it does, in one sentence."""

    @property
    @abstractmethod
    def asks(self) -> Any:
        """The type of what a request says, if it says something."""

    @property
    @abstractmethod
    def tells(self) -> Any:
        """The type of a JSON answer, if it is one."""

    @property
    def media(self) -> str | None:
        """The media type of an answer; None if it is empty."""
        return answers.JSON

    @abstractmethod
    def query_parameters(self) -> list[dict[str, Any]]:
        """What stands in the query, as OpenAPI has it."""

    @abstractmethod
    def understand(self, asked: Asked) -> Call:
        """Check a request. InvalidInputError."""

    @abstractmethod
    def encode(self, result: Any) -> Any:
        """The body of an answer."""
