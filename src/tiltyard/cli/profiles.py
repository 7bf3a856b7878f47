"""Profiles: catalogs that have a name, in a file of the project or of the user.

    [profiles.prod]
    root = "s3://bucket/lake"
    mode = "manifest"
    storage.region = "eu-west-1"

The project's file is `tiltyard.toml`, here or in the nearest directory above; the user's is
`tiltyard/config.toml` in the directory for configurations. The project's comes first.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.cli.failures import UsageError

PROJECT_FILE = "tiltyard.toml"
SECTION = "profiles"
DEFAULT = "default"


@dataclass(frozen=True)
class Profile:
    """One section of a file. `mode` is as it stands there; the others are properties."""

    name: str
    file: Path
    mode: str | None
    properties: Mapping[str, str]

    @property
    def source(self) -> str:
        """Where its values come from, for people."""
        return f"profile {self.name} in {_shown(self.file)}"


def find(name: str) -> Profile:
    """The profile of that name. UsageError if there is none."""
    known: list[str] = []
    for file, sections in _files():
        if name in sections:
            return _profile(name, file, sections[name])
        known.extend(sections)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif known:
        hint = f"there are: {', '.join(sorted(set(known)))}"
    else:
        hint = f"profiles are kept in {PROJECT_FILE}, or for all projects in {_shown(_of_user())}"
    raise UsageError(f"there is no profile {name!r}", hint)


def find_default() -> Profile | None:
    """The profile `default`, if somebody has one."""
    for file, sections in _files():
        if DEFAULT in sections:
            return _profile(DEFAULT, file, sections[DEFAULT])
    return None


def project_file() -> Path | None:
    """The `tiltyard.toml` of this directory, or of the nearest one above that has it."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (directory / PROJECT_FILE).is_file():
            return directory / PROJECT_FILE
    return None


def _of_user() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if home else Path.home() / ".config") / "tiltyard" / "config.toml"


def _files() -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for file in (project_file(), _of_user()):
        if file is not None and file.is_file():
            yield file, _sections(file)


def _sections(file: Path) -> Mapping[str, Any]:
    try:
        found = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{_shown(file)} can't be read: {error}") from None
    sections = found.get(SECTION, {})
    if not isinstance(sections, dict) or not all(isinstance(it, dict) for it in sections.values()):
        raise UsageError(
            f"{SECTION!r} in {_shown(file)} must hold sections",
            f"write [{SECTION}.NAME] and its values below",
        )
    return sections


def _profile(name: str, file: Path, section: Mapping[str, Any]) -> Profile:
    properties = dict(_flat(section, name, file))
    mode = properties.pop("mode", None)
    if "root" in properties:
        properties["root"] = _from_file(properties["root"], file)
    return Profile(name, file, mode, properties)


def _flat(section: Mapping[str, Any], name: str, file: Path) -> Iterator[tuple[str, str]]:
    """The values under their dotted names: TOML makes a section of `storage.region`."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", each) for inner, each in _flat(value, name, file))
        elif isinstance(value, bool):
            yield key, str(value).lower()
        elif isinstance(value, str | int | float):
            yield key, str(value)
        else:
            raise UsageError(f"{key!r} of profile {name} in {_shown(file)} must be a text")


def _from_file(root: str, file: Path) -> str:
    """A path in a file is meant from that file's directory."""
    return root if "://" in root else str(file.parent / Path(root).expanduser())


def _shown(file: Path) -> str:
    """A path as people would write it: from here, or from home."""
    for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if file.is_relative_to(base):
            return f"{prefix}{file.relative_to(base)}"
    return str(file)
