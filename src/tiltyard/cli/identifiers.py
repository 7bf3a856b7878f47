"""Table and namespace ids as people type them: parts joined by dots, quoted where they contain one.

`parse` and `shown` are inverse to each other, so whatever a command prints can be typed again.
Which parts are allowed is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiltyard.cli.failures import UsageError

_PART = re.compile(r'"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^."][^.]*)')
_RULE = "join parts with dots, and put a part that contains one in double quotes: 'prod.\"v1.2\"'"


def parse(text: str | None) -> list[str]:
    """The parts of an id; none of them for no text, which means the root namespace."""
    parts: list[str] = []
    position = 0
    while text:
        match = _PART.match(text, position)
        if match is None:
            raise UsageError(f"{text!r} is not an id", _RULE)
        quoted = match["quoted"]
        parts.append(match["plain"] if quoted is None else quoted.replace('""', '"'))
        position = match.end()
        if position == len(text):
            break
        if text[position] != ".":
            raise UsageError(f"{text!r} is not an id", _RULE)
        position += 1
    return parts


def parse_all(texts: Sequence[str]) -> list[list[str]]:
    """Several ids, none of them twice."""
    found: list[list[str]] = []
    for text in texts:
        identifier = parse(text)
        if identifier in found:
            raise UsageError(f"{text} is named twice")
        found.append(identifier)
    return found


def shown(parts: Sequence[str]) -> str:
    """An id in the form that `parse` reads."""
    return ".".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    if part and "." not in part and not part.startswith('"'):
        return part
    return '"' + part.replace('"', '""') + '"'
