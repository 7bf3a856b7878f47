"""Properties, as users and Lance's own clients pass them, become one validated `Settings`.

The names, the string forms and the defaults are those of pylance's DirectoryNamespace; what is
ours alone is marked so. Nothing here touches a store.
"""

from __future__ import annotations

import difflib
import getpass
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from pydantic import BeforeValidator, ValidationInfo
from pydantic.dataclasses import dataclass

from tiltyard.errors import InvalidInputError

STORAGE_PREFIX = "storage."
CLOUD_SCHEMES = ("s3", "gs", "az")
LONGEST_SECONDS = 1000 * 366 * 86_400

_SECRET = re.compile(r"(?i)secret|token|password|(?:access|account|master)_?key|sas|credential")


def _whoami() -> str:
    """Who drops and purges, unless the property `actor` says so."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidInputError(f"property {name!r} must be a string, not {type(value).__name__}")


def _flag(name: str, value: Any) -> bool:
    text = _text(name, value).strip().lower()
    if text in ("true", "1", "yes", "on"):
        return True
    if text in ("false", "0", "no", "off"):
        return False
    raise InvalidInputError(f"property {name!r} must be true or false, not {value!r}")


def _count(name: str, value: Any) -> int:
    text = _text(name, value).strip()
    if not text.isascii() or not text.isdigit():
        raise InvalidInputError(f"property {name!r} must be a whole number, not {value!r}")
    return int(text)


def duration(value: Any, name: str = "ttl") -> float | None:
    """Seconds, from a timedelta, a number, or a text like "7d"; None for "never"."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str) and value.strip().lower() == "never":
        return None
    seconds = _seconds(name, value)
    if seconds > LONGEST_SECONDS:
        raise InvalidInputError(
            f"property {name!r} can't be longer than a thousand years", hint="say 'never' instead"
        )
    return seconds


def _seconds(name: str, value: Any) -> float:
    """A duration: a number of seconds, or a number with one of the units ms, s, m, h, d."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", _text(name, value))
    if match is None:
        raise InvalidInputError(
            f"property {name!r} must be a duration, not {value!r}", hint="like 500ms, 30s, 7d"
        )
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2] or "s"]


def _root(name: str, value: Any) -> str:
    """An absolute path, or a URI whose path is percent-encoded once and has no trailing slash."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"property {name!r} must be a path or a URI, not {value!r}")
    if "://" not in text:
        return os.path.abspath(text)
    parts = urlsplit(text)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path or parts.query or parts.fragment:
            raise InvalidInputError(
                "a file URI has an absolute path and nothing else",
                hint="file:///three/slashes, with '?' and '#' percent-encoded; or a plain path",
            )
        return os.path.abspath(unquote(parts.path))
    if parts.scheme == "memory":
        raise InvalidInputError(
            "a catalog can't live in memory:// : Lance can't reopen such a table from Python",
            hint="use a temporary directory",
        )
    if parts.scheme not in CLOUD_SCHEMES:
        raise InvalidInputError(
            f"no store for {parts.scheme}://",
            hint=f"a path, or one of {', '.join(s + '://' for s in CLOUD_SCHEMES)}",
        )
    if not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInputError(
            "a root URI has a bucket and a path, and nothing else",
            hint="credentials and options go into storage.* properties",
        )
    segments = [segment for segment in unquote(parts.path).split("/") if segment]
    if "." in segments or ".." in segments:
        raise InvalidInputError("a root URI can't contain '.' or '..': a bucket has no directories")
    path = "/".join(segments)
    return f"{parts.scheme}://{parts.netloc}" + (f"/{quote(path)}" if path else "")


def _property(parse: Callable[[str, Any], Any]) -> BeforeValidator:
    """A type of property: what `parse` makes of the value, given the property's name."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        return None if value is None else parse(info.field_name or "", value)

    return BeforeValidator(validate)


Root = Annotated[str, _property(_root)]
Flag = Annotated[bool, _property(_flag)]
Count = Annotated[int, _property(_count)]
OptionalCount = Annotated[int | None, _property(_count)]
Seconds = Annotated[float, _property(_seconds)]
Text = Annotated[str, _property(_text)]
# None is for ever.
Duration = Annotated[float | None, _property(lambda name, value: duration(value, name))]


@dataclass(frozen=True)
class Settings:
    """How one namespace is reached and how it behaves. Pickles; equal settings are equal."""

    root: Root
    manifest_enabled: Flag = True
    dir_listing_enabled: Flag = True
    inline_optimization_enabled: Flag = False
    # Of eight processes that change one catalog without a pause, each loses most of its races.
    commit_retries: Count = 100
    max_staleness: Seconds = 0.0
    table_version_tracking_enabled: Flag = False
    recover_on_write: Flag = True
    default_ttl: Duration = 7 * 86400.0
    # Ours alone: what a clean-up of versions never touches, however little it is told to keep.
    cleanup_min_age: Seconds = 3600.0
    actor: Text = field(default_factory=_whoami)
    vend_input_storage_options: Flag = False
    vend_input_storage_options_refresh_interval_millis: OptionalCount = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        return "://" not in self.root

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never appear in a message or a log."""
        return tuple(value for key, value in self.storage.items() if _SECRET.search(key))

    @classmethod
    def names(cls) -> list[str]:
        """The properties that there are, but for the storage options."""
        return [option.name for option in fields(cls) if option.name != "storage"]

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Settings:
        """Check every property; the first bad one is refused with a hint."""
        values: dict[str, Any] = {}
        storage: dict[str, str] = {}
        for name, value in properties.items():
            if name.startswith(STORAGE_PREFIX) and name != STORAGE_PREFIX:
                storage[name.removeprefix(STORAGE_PREFIX)] = _text(name, value)
            elif name in cls.names():
                values[name] = _text(name, value) if value is None else value
            elif name in _PYLANCE_ONLY:
                _refuse_if_on(name, value)
            else:
                raise InvalidInputError(f"unknown property {name!r}", hint=_did_you_mean(name))
        if "root" not in values:
            raise InvalidInputError(
                "the property 'root' is required", hint="a path, or a URI like s3://bucket/prefix"
            )
        settings = cls(**values, storage=storage)
        if not (settings.manifest_enabled or settings.dir_listing_enabled):
            raise InvalidInputError(
                "manifest_enabled and dir_listing_enabled can't both be false",
                hint="one of them has to tell which tables there are",
            )
        return settings

    def as_properties(self) -> dict[str, str]:
        """The inverse of `from_properties`: what an executor or another process needs."""
        result = {f"{STORAGE_PREFIX}{key}": value for key, value in self.storage.items()}
        for name in self.names():
            value = getattr(self, name)
            if name == "default_ttl" and value is None:
                result[name] = "never"
            elif value is not None:
                result[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return result


# Properties of pylance's DirectoryNamespace that would change what a caller gets, and what to do
# instead. Switched off they are accepted, so that a shared set of properties opens both.
_PYLANCE_ONLY = {
    "table_version_storage_enabled": "versions are kept as rows where the catalog is managed",
    "dir_listing_to_manifest_migration_enabled": "call maintenance.migrate() instead",
    "ops_metrics_enabled": "count requests at the store instead",
    "credential_vendor.enabled": "storage options are handed out with vend_input_storage_options",
}


def _refuse_if_on(name: str, value: Any) -> None:
    if _flag(name, value):
        raise InvalidInputError(f"property {name!r} can't be on", hint=_PYLANCE_ONLY[name])


def _did_you_mean(name: str) -> str:
    known = [*Settings.names(), STORAGE_PREFIX + "*"]
    close = difflib.get_close_matches(name, known, n=1)
    if not close and name in (
        "region",
        "endpoint",
        "access_key_id",
        "secret_access_key",
        "allow_http",
    ):
        close = [STORAGE_PREFIX + name]
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
