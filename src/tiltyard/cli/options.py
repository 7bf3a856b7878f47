"""The options that every command shares, and the properties that they come to.

What the command line says comes before the environment, and that before a profile. A profile that
nobody asked for, `default`, counts only where no root was named: its other values belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tiltyard.cli import profiles
from tiltyard.cli.failures import UsageError
from tiltyard.cli.output import Format
from tiltyard.cli.profiles import Profile

ROOT_VARIABLE = "TILTYARD_ROOT"
PROFILE_VARIABLE = "TILTYARD_PROFILE"

Sources = dict[str, tuple[str, str]]


class Mode(StrEnum):
    """Where a catalog keeps its names."""

    DIRECTORY = "directory"
    MANIFEST = "manifest"
    COMPATIBLE = "compatible"


_MODE_PROPERTIES = {
    Mode.DIRECTORY: {"manifest_enabled": "false", "dir_listing_enabled": "true"},
    Mode.MANIFEST: {"manifest_enabled": "true", "dir_listing_enabled": "false"},
    Mode.COMPATIBLE: {"manifest_enabled": "true", "dir_listing_enabled": "true"},
}


@dataclass(frozen=True)
class Options:
    """The shared options, as given so far."""

    root: str | None = None
    root_from: str = "--root"
    profile: str | None = None
    profile_from: str = "--profile"
    mode: Mode | None = None
    properties: tuple[str, ...] = ()
    format: Format = Format.TABLE
    quiet: bool = False
    verbose: bool = False
    no_input: bool = False

    def overridden(self, given: Mapping[str, Any]) -> Options:
        """These options and, above them, those of `given` that were set."""
        chosen = {name: value for name, value in given.items() if value}
        for name in ("root", "profile"):
            if name in chosen:
                chosen[f"{name}_from"] = f"--{name}"
        chosen["properties"] = (*self.properties, *chosen.get("properties", ()))
        return replace(self, **chosen)

    def sources(self) -> Sources:
        """Every property that was set: its value, and what set it."""
        found: Sources = {}
        profile = self._profile()
        if profile is not None:
            found |= _of_profile(profile)
        if self.root and not (self._is_profile_nearer and "root" in found):
            found["root"] = (self.root, self.root_from)
        if self.mode:
            found |= _of_mode(self.mode, "--mode")
        for name, value in parse_pairs(self.properties, "-p").items():
            if self.mode and name in _MODE_PROPERTIES[self.mode]:
                raise UsageError(
                    f"--mode and -p {name} say the same thing", "leave one of them out"
                )
            found[name] = (value, "-p")
        if "root" not in found:
            raise UsageError(
                "no catalog was named",
                f"pass --root DIRECTORY, set {ROOT_VARIABLE} to it, or write a profile into "
                f"{profiles.PROJECT_FILE}",
            )
        return found

    @property
    def _is_profile_nearer(self) -> bool:
        """Whether the profile was asked for on the command line, and the root was not."""
        return self.profile is not None and (self.profile_from, self.root_from) == (
            "--profile",
            ROOT_VARIABLE,
        )

    def _profile(self) -> Profile | None:
        if self.profile:
            return profiles.find(self.profile)
        return None if self.root else profiles.find_default()


def parse_pairs(pairs: tuple[str, ...] | list[str] | None, option: str) -> dict[str, str]:
    """NAME=VALUE options as a mapping; the last of a name wins."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
        found[name] = value
    return found


def _of_profile(profile: Profile) -> Sources:
    found = {name: (value, profile.source) for name, value in profile.properties.items()}
    if profile.mode is None:
        return found
    if profile.mode not in {each.value for each in Mode}:
        raise UsageError(
            f"the mode of {profile.source} is {profile.mode!r}",
            f"there are: {', '.join(Mode)}",
        )
    return _of_mode(Mode(profile.mode), profile.source) | found


def _of_mode(mode: Mode, source: str) -> Sources:
    return {name: (value, source) for name, value in _MODE_PROPERTIES[mode].items()}
