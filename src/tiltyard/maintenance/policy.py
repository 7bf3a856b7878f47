"""Which versions of a table may be deleted: a pure choice over numbers, ages and references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, NamedTuple, Self

import lance
from pydantic import (
    AfterValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    Strict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.dataclasses import dataclass as validated_dataclass

from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidInputError
from tiltyard.settings import duration

# A recovery that takes back what a crash left half done returns to a version before the latest.
RECOVERY_FLOOR = 3
# How the settings begin by which Lance deletes versions on its own.
AUTO_CLEANUP = "lance.auto_cleanup."

Duration = str | int | float | timedelta


def _check_duration(value: Duration, info: ValidationInfo) -> Duration:
    if duration(value, str(info.field_name)) is None:
        raise InvalidInputError(
            f"{info.field_name} takes a time, not 'never'", hint="like 12h or 7d"
        )
    return value


# Strict values, but not a strict policy: the server reads one from JSON.
_Duration = Annotated[
    StrictStr | StrictInt | StrictFloat | Annotated[timedelta, Strict()],
    AfterValidator(_check_duration),
]


@validated_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class CleanupPolicy:
    """What to keep. A version is deleted only if both hold: it is not among the newest
    `keep_versions`, and it is older than `older_than` ("7d", seconds, a timedelta).

    Never deleted are the latest version, tagged ones, bases of branches, and whatever is younger
    than `min_age` (the catalog's property `cleanup_min_age` if None), counted from when the next
    version came: until then all readers were on it. Less than three versions, or a lower minimum
    age, have to be allowed.

    Versions of branches are only deleted with `branches`. Lance gives the directory of a removed
    branch to the next branch of that name, and a delete that comes late would hit that one: so
    nobody may remove a branch and use its name again while they are cleaned up.
    """

    keep_versions: StrictInt | None = None
    older_than: _Duration | None = None
    min_age: _Duration | None = None
    allow_below_recovery_floor: StrictBool = False
    allow_young: StrictBool = False
    branches: StrictBool = False

    @model_validator(mode="wrap")
    @classmethod
    def _translate(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = f"{first['loc'][0]}: " if first["loc"] else ""
            raise InvalidInputError(
                f"{where}{first['msg'].lower()}, not {first['input']!r}"
            ) from error

    def __post_init__(self) -> None:
        if self.keep_versions is None and self.older_than is None:
            raise InvalidInputError(
                "a clean-up has to know what to keep", hint="keep_versions, older_than or both"
            )
        if self.keep_versions is not None and self.keep_versions < 1:
            raise InvalidInputError("keep_versions must be at least 1: the latest always stays")
        if self.is_below_recovery_floor and not self.allow_below_recovery_floor:
            raise InvalidInputError(
                f"with less than {RECOVERY_FLOOR} versions, what a crash left half done may not be "
                f"undone",
                hint="allow_below_recovery_floor, if you are sure",
            )

    @property
    def is_below_recovery_floor(self) -> bool:
        return self.keep_versions is not None and self.keep_versions < RECOVERY_FLOOR

    def min_age_ms(self, default_seconds: float) -> int:
        """The age that a version has to have. InvalidInputError for a lower one than the catalog
        has, unless that was allowed."""
        if self.min_age is None:
            return round(default_seconds * 1000)
        seconds = duration(self.min_age, "min_age") or 0.0
        if seconds < default_seconds and not self.allow_young:
            raise InvalidInputError(
                f"a min_age of {seconds:g} s is below the catalog's, {default_seconds:g} s: "
                f"readers of such versions would fail",
                hint="allow_young, if you are sure",
            )
        return round(seconds * 1000)

    @property
    def older_than_ms(self) -> int:
        seconds = None if self.older_than is None else duration(self.older_than, "older_than")
        return round((seconds or 0.0) * 1000)


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """The versions to delete, and for each of the others why it stays."""

    going: tuple[int, ...]
    kept: Mapping[int, str]

    @property
    def reasons(self) -> str:
        """Why versions stay, with how many if it is several."""
        counts = Counter(self.kept[number] for number in sorted(self.kept, reverse=True))
        return "; ".join(
            reason if count == 1 else f"{count} {reason}" for reason, count in counts.items()
        )


def choose(
    versions: Sequence[VersionFile],
    referred: Mapping[int, str],
    policy: CleanupPolicy,
    now_ms: int,
    min_age_ms: int,
) -> VersionChoice:
    """Decide for every version of a table; `referred` tells what refers to some of them."""
    newest_first = sorted(versions, key=lambda version: version.version, reverse=True)
    kept: dict[int, str] = {}
    next_ms: int | None = None
    for rank, version in enumerate(newest_first):
        ages = _Ages.of(version.modified_ms, next_ms, now_ms)
        reason = _why_kept(rank, ages, referred.get(version.version), policy, min_age_ms)
        if reason is not None:
            kept[version.version] = reason
        next_ms = version.modified_ms
    going = sorted(version.version for version in versions if version.version not in kept)
    return VersionChoice(tuple(going), kept)


class _Ages(NamedTuple):
    """How long ago a version was made, and how long ago the one after it."""

    made: int
    superseded: int

    @classmethod
    def of(cls, made_ms: int | None, next_ms: int | None, now_ms: int) -> _Ages | None:
        """None if one of the times is not known."""
        return (
            None if made_ms is None or next_ms is None else cls(now_ms - made_ms, now_ms - next_ms)
        )


def _why_kept(
    rank: int, ages: _Ages | None, reference: str | None, policy: CleanupPolicy, min_age_ms: int
) -> str | None:
    if rank == 0:
        return "latest"
    if reference is not None:
        return reference
    if policy.keep_versions is not None and rank < policy.keep_versions:
        return f"among the newest {policy.keep_versions}"
    if ages is None:
        return "of unknown age"
    if ages.superseded < min_age_ms:
        return "too young"
    if ages.made < policy.older_than_ms:
        return "not old enough"
    return None


def as_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as ranges with both ends."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


# -- Lance's own clean-up


def auto_cleanup_settings(dataset: lance.LanceDataset) -> list[str]:
    """The settings of a table by which Lance deletes its versions. No request."""
    return sorted(key for key in dataset.config() if key.startswith(AUTO_CLEANUP))


def auto_cleanup_warning(dataset: lance.LanceDataset) -> str | None:
    """What to tell about a table from which Lance itself deletes versions. No request.

    It does so inside of any writer's commit, and knows no boundary and no minimum age: a writer
    that was stopped for long may then use a version number again that was deleted.
    """
    settings = auto_cleanup_settings(dataset)
    if not settings:
        return None
    return (
        f"{', '.join(settings)}: Lance itself deletes versions of this table, past the boundary; "
        f"take these settings away"
    )
