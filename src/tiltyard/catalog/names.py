"""Identifiers and every name derived from them: object ids, directories, markers, URIs.

This is the only code that knows "$", ".lance" and ".deleted". A name is refused or it round-trips;
two identifiers never share an object id, a directory or a marker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote, urlsplit

from tiltyard.errors import InvalidInputError

DELIMITER = "$"
RESERVED_PREFIX = "__"
TRASH = "__trash"
LIFTED = "__nested_markers_lifted"
WRITES = "__writes"
BOUNDARIES = "__gc"
RECOVERY = "__recovery"
AUDIT = "__audit"
BRANCH_LISTS = "__branches"
TABLE_SUFFIX = ".lance"
MARKER_SUFFIX = ".deleted"
RESERVATION = ".lance-reserved"
DEREGISTERED = ".lance-deregistered"
VERSIONS_DIRECTORY = "_versions"
REFERENCES_DIRECTORY = "_refs"
TRANSACTIONS_DIRECTORY = "_transactions"
BRANCHES_DIRECTORY = "tree"

# 255 bytes are the most a local disk holds in one name; the most that we add to an object id is a
# hash and two underscores.
MAX_OBJECT_ID_BYTES = 255 - 10

# What ends a part or a path, and control characters, lone surrogates and line separators.
_FORBIDDEN = re.compile(r"[$/\\\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_HASHED = re.compile(r"[0-9a-f]{8}_.+", re.DOTALL)
_PART = re.compile(r'"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^."][^.]*)')

TableId = tuple[str, ...]
NamespaceId = tuple[str, ...]

ROOT: NamespaceId = ()


def parse_table_id(parts: Sequence[str] | None) -> TableId:
    """Check the identifier of a table: at least one part, every part well formed."""
    if not parts:
        raise InvalidInputError(
            "a table id is required", hint="pass the namespace path followed by the table name"
        )
    return _parse(parts, "table")


def parse_namespace_id(parts: Sequence[str] | None) -> NamespaceId:
    """Check the identifier of a namespace; the empty list is the root."""
    if parts is None:
        raise InvalidInputError("a namespace id is required", hint="the root namespace is []")
    return _parse(parts, "namespace")


def _parse(parts: Sequence[str], kind: str) -> tuple[str, ...]:
    if isinstance(parts, str):
        raise InvalidInputError(
            f"a {kind} id is a list of names, not the string {parts!r}",
            hint=f"did you mean [{parts!r}]?",
        )
    identifier = tuple(parts)
    for part in identifier:
        reason = why_refused(part)
        if reason:
            raise InvalidInputError(f"{part!r} can't be part of a {kind} id: {reason}")
    if identifier and identifier[0].startswith(RESERVED_PREFIX):
        raise InvalidInputError(
            f"{identifier[0]!r} is reserved: names at the root can't start with {RESERVED_PREFIX!r}"
        )
    size = len(object_id(identifier).encode())
    if size > MAX_OBJECT_ID_BYTES:
        raise InvalidInputError(
            f"{kind} id is too long: {size} bytes with its delimiters, "
            f"and a local disk holds {MAX_OBJECT_ID_BYTES} in one directory name"
        )
    return identifier


def why_refused(part: object) -> str | None:
    """Say why a single name can't be used, or None if it can."""
    if not isinstance(part, str):
        return "it is not a string"
    if not part:
        return "it is empty"
    if part in (".", ".."):
        return "it means a directory"
    forbidden = _FORBIDDEN.search(part)
    if forbidden is None:
        return None
    return f"it contains {forbidden[0]!a}"


def object_id(identifier: tuple[str, ...]) -> str:
    """The identifier as the manifest stores it: parts joined by "$"."""
    return DELIMITER.join(identifier)


def split_object_id(text: str) -> tuple[str, ...]:
    """The inverse of `object_id`."""
    return tuple(text.split(DELIMITER)) if text else ()


def parse_dotted(text: str | None) -> list[str]:
    """The parts of an id as people type it: joined by dots, quoted where they contain one.

    None of them for no text, which means the root. Which parts are allowed is not decided here.
    """
    parts: list[str] = []
    position = 0
    while text:
        match = _PART.match(text, position)
        if match is None:
            raise _not_an_id(text)
        quoted = match["quoted"]
        parts.append(match["plain"] if quoted is None else quoted.replace('""', '"'))
        position = match.end()
        if position == len(text):
            break
        if text[position] != ".":
            raise _not_an_id(text)
        position += 1
    return parts


def dotted(parts: Sequence[str]) -> str:
    """An id in the form that `parse_dotted` reads."""
    return ".".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    if part and "." not in part and not part.startswith('"'):
        return part
    return '"' + part.replace('"', '""') + '"'


def _not_an_id(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"{text!r} is not an id",
        hint="join parts with dots, and put a part that contains one in double quotes: "
        "'prod.\"v1.2\"'",
    )


def display(identifier: Sequence[str]) -> str:
    """The identifier as a person reads it in a message: 'prod.users', or 'the root'."""
    return f"'{'.'.join(identifier)}'" if identifier else "the root"


def table_directory(name: str) -> str:
    """The V1 directory of a root table, relative to the root."""
    return name + TABLE_SUFFIX


def table_name(directory: str) -> str | None:
    """The root table that a V1 directory belongs to; None for any other directory."""
    return _root_table(directory, TABLE_SUFFIX)


def marker_key(name: str) -> str:
    """The marker of a root table: a sibling of its directory, so that one listing shows both."""
    return name + MARKER_SUFFIX


def marked_name(key: str) -> str | None:
    """The root table that a marker belongs to; None for any other object."""
    return _root_table(key, MARKER_SUFFIX)


def _root_table(text: str, suffix: str) -> str | None:
    name = text.removesuffix(suffix)
    if name == text or why_refused(name) or name.startswith(RESERVED_PREFIX):
        return None
    return name if len(name.encode()) <= MAX_OBJECT_ID_BYTES else None


def hashed_directory(identifier: TableId, entropy: str) -> str:
    """A V2 directory: eight hex digits that are fresh for every create, then the object id.

    It never ends in ".lance", which would make it the V1 directory of another table.
    """
    directory = f"{entropy[:8]}_{object_id(identifier)}"
    return f"{directory}_" if directory.endswith(TABLE_SUFFIX) else directory


def is_hashed_directory(directory: str) -> bool:
    """Whether a directory has the V2 form, never reused by another incarnation.

    What can be the directory of a root table is V1, whatever it begins with: "cafe0123_x.lance".
    """
    return _HASHED.fullmatch(directory) is not None and table_name(directory) is None


def is_own_location(identifier: str, location: str) -> bool:
    """Whether a location is one that the catalog itself gives to an object id."""
    if location == identifier + TABLE_SUFFIX:
        return DELIMITER not in identifier
    return location[9:] in (identifier, f"{identifier}_") and is_hashed_directory(location)


def natural_owners(directory: str) -> tuple[str, ...]:
    """The object ids whose own location a directory can be."""
    if is_hashed_directory(directory):
        return directory[9:], directory[9:].removesuffix("_")
    name = table_name(directory)
    return () if name is None else (name,)


def root_table_at(location: str, identifier: TableId) -> str | None:
    """The root table whose marker decides over a table's location; None: the manifest alone does.

    Lance's own clients give a root table named "x.lance" a V2 directory that looks like V1.
    """
    if _HASHED.fullmatch(location) and location[9:] == object_id(identifier):
        return None
    return table_name(location)


def is_marked(identifier: TableId, location: str) -> bool:
    """Whether the marker of a V1 location decides over a table, and not its row."""
    return len(identifier) == 1 and root_table_at(location, identifier) == identifier[0]


def top_directory(location: str) -> str:
    """The directory below the root that a location is, or lies in."""
    return location.partition("/")[0]


def overlaps(one: str, other: str) -> bool:
    """Whether two locations are equal, or one lies inside the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def relative_location(root: str, location: str) -> str:
    """A location as the catalog stores it: below the root, in whatever form it was given."""
    text = location.rstrip("/")
    if text.startswith("file:///") and root.startswith("/"):
        text = unquote(text.removeprefix("file://"))
    if "://" in text:
        inside, text = text.startswith(f"{root}/"), unquote(text.removeprefix(f"{root}/"))
    elif text.startswith("/"):
        inside, text = text.startswith(f"{root}/"), text.removeprefix(f"{root}/")
    else:
        inside = True
    segments = text.split("/")
    if not inside or not text or any(segment in ("", ".", "..") for segment in segments):
        raise InvalidInputError(
            f"location {location!r} is not inside the catalog", hint="use a path below its root"
        )
    return text


def uri(root: str, location: str) -> str:
    """Where Lance finds `location`. A URI is percent-encoded, a path on a local disk is not."""
    return f"{root}/{quote(location)}" if "://" in root else f"{root}/{location}"


def store_path(root: str, key: str) -> str:
    """An object as Lance names it to a namespace: from the top of the disk or bucket."""
    return f"{_prefix(root)}/{key}".strip("/")


def from_store_path(root: str, path: str) -> str:
    """The inverse of `store_path`; a full path or URI will do as well."""
    prefix = _prefix(root)
    if "://" in path or path.startswith("/") or not prefix:
        return relative_location(root, path)
    if not path.startswith(f"{prefix}/"):
        raise InvalidInputError(f"{path!r} is not inside the catalog")
    return relative_location(root, path[len(prefix) + 1 :])


def _prefix(root: str) -> str:
    return (unquote(urlsplit(root).path) if "://" in root else root).strip("/")
