"""What a doctor tells: how bad it is, what it is, where, and which command mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Errors lose something or stop somebody; warnings will; infos are good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `what` is the same word for the same thing always."""

    severity: Severity
    what: str
    where: str
    message: str
    mend: str | None = None


def error(what: str, where: str, message: str, mend: str | None = None) -> Finding:
    return Finding(Severity.ERROR, what, where, message, mend)


def warning(what: str, where: str, message: str, mend: str | None = None) -> Finding:
    return Finding(Severity.WARNING, what, where, message, mend)


def info(what: str, where: str, message: str, mend: str | None = None) -> Finding:
    return Finding(Severity.INFO, what, where, message, mend)
