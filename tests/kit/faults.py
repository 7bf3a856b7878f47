"""The faults that a proxy can let befall a request, as values, and the rule that picks requests.
`when=BEFORE`, the default, means that the store never sees the request; `when=AFTER`, that it has
carried it out and the client does not learn so."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from enum import Enum


class When(Enum):
    BEFORE = "before"
    AFTER = "after"


BEFORE, AFTER = When.BEFORE, When.AFTER


@dataclass(frozen=True)
class Fault:
    when: When = field(default=BEFORE, kw_only=True)


@dataclass(frozen=True)
class Status(Fault):
    """An error instead of the answer: `Status(503, "SlowDown")`."""

    code: int
    reason: str = "InternalError"


@dataclass(frozen=True)
class Drop(Fault):
    """The connection ends without an answer."""


@dataclass(frozen=True)
class Hang(Fault):
    """No answer ever; the client's time-out decides."""


@dataclass(frozen=True)
class Delay(Fault):
    seconds: float


@dataclass(frozen=True)
class Hold(Fault):
    """The request waits until the test lets it go, so that a race happens in a chosen order."""

    reached: threading.Event = field(default_factory=threading.Event, compare=False)
    released: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True)
class Truncate(Fault):
    """The true headers and half of the body, then the connection ends."""

    when: When = field(default=AFTER, kw_only=True)


@dataclass(frozen=True)
class ForgetConditions(Fault):
    """If-Match and If-None-Match are taken out: a store that silently ignores conditions. Only for
    a server that does not check signatures, since clients sign these headers."""


@dataclass
class Rule:
    """Which requests a fault befalls, and how many are left to pass or to fail."""

    fault: Fault
    method: str | None
    path: re.Pattern[str] | None
    conditional: bool | None
    skip: int
    times: int | None

    def strikes(self, method: str, target: str, conditional: bool) -> bool:
        """Whether this request fails; counts it if it matches."""
        if self.times == 0 or not self._matches(method, target, conditional):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def _matches(self, method: str, target: str, conditional: bool) -> bool:
        return (
            self.method in (None, method)
            and self.conditional in (None, conditional)
            and (self.path is None or self.path.search(target) is not None)
        )
