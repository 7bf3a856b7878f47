"""Table and namespace ids as people type them on the command line, where a wrong one is a mistake
in usage. `parse` and `shown` are inverse to each other, so whatever a command prints can be typed
again."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.cli.failures import UsageError


def shown(parts: Sequence[str]) -> str:
    """An id as it can be typed again."""
    from tiltyard import names

    return names.dotted(parts)


def parse(text: str | None) -> list[str]:
    """The parts of an id; none of them for no text, which means the root namespace."""
    from tiltyard import names
    from tiltyard.errors import InvalidInputError

    try:
        return names.parse_dotted(text)
    except InvalidInputError as reason:
        raise UsageError(reason.message, reason.hint) from None


def parse_all(texts: Sequence[str]) -> list[list[str]]:
    """Several ids, none of them twice."""
    found: list[list[str]] = []
    for text in texts:
        identifier = parse(text)
        if identifier in found:
            raise UsageError(f"{text} is named twice")
        found.append(identifier)
    return found
