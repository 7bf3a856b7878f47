"""The options of the data source `tiltyard`: one model for each thing that is done with a table.

Spark passes every option as a text, under a name in any case. A wrong value is refused with the
name of its option, an unknown option with the name that may be meant.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tiltyard.errors import InvalidInputError
from tiltyard.settings import STORAGE_PREFIX, Settings

EARLIEST = "earliest"
LATEST = "latest"


# -- types of options


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise InvalidInputError(f"option {name!r} is empty")
    return text


def _count(name: str, text: str) -> int:
    try:
        number = int(_text(name, text).strip())
    except ValueError:
        raise _wrong(name, "a whole number", text) from None
    if number < 1:
        raise InvalidInputError(f"option {name!r} must be at least 1, not {number}")
    return number


def _flag(name: str, text: str) -> bool:
    word = _text(name, text).strip().lower()
    if word not in ("true", "false"):
        raise _wrong(name, "true or false", text)
    return word == "true"


def _names(name: str, text: str) -> tuple[str, ...]:
    if _text(name, text).lstrip().startswith("["):
        listed = _json(name, text)
        if not all(isinstance(item, str) for item in listed):
            raise _wrong(name, "a list of names", text)
    else:
        listed = [item.strip() for item in text.split(",")]
    if not all(listed):
        raise InvalidInputError(f"option {name!r} has an empty name: {text!r}")
    if len(set(listed)) < len(listed):
        raise InvalidInputError(f"option {name!r} names something twice: {text!r}")
    return tuple(listed)


def _time(name: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(_text(name, text).strip())
    except ValueError:
        raise _wrong(name, "a time like 2026-05-04T12:00:00Z", text) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _nearest(name: str, text: str) -> dict[str, Any]:
    query = _json(name, text)
    if not isinstance(query, dict) or not {"column", "q"} <= query.keys():
        raise InvalidInputError(
            f"option {name!r} needs a column and a vector",
            hint='like {"column": "v", "q": [0.1, 0.2], "k": 10}',
        )
    return query


def _full_text(name: str, text: str) -> str | dict[str, Any]:
    if not _text(name, text).lstrip().startswith("{"):
        return text
    query = dict(_json(name, text))
    if "query" not in query:
        raise InvalidInputError(
            f"option {name!r} needs a query", hint='like {"query": "words", "columns": ["a"]}'
        )
    return query


def _if_exists(name: str, text: str) -> str:
    words = ("append", "error", "ignore")
    word = _text(name, text).strip().lower()
    if word not in words:
        raise _wrong(name, f"one of {', '.join(words)}", text)
    return word


def _starting_version(name: str, text: str) -> int | str:
    word = _text(name, text).strip().lower()
    if word in (EARLIEST, LATEST):
        return word
    if not word.isdecimal() or int(word) < 1:
        raise InvalidInputError(
            f"option {name!r} can't be {word!r}",
            hint=f"a version from 1 on, {LATEST!r}, or {EARLIEST!r}",
        )
    return int(word)


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(_text(name, text))
    except ValueError as reason:
        raise InvalidInputError(f"option {name!r} is not JSON: {reason}") from None


def _wrong(name: str, wanted: str, text: str) -> InvalidInputError:
    return InvalidInputError(f"option {name!r} must be {wanted}, not {text!r}")


def _option(parse: Callable[[str, str], Any]) -> BeforeValidator:
    """A type of option: what `parse` makes of the text, given the option's name."""
    return BeforeValidator(lambda text, info: parse(info.field_name, text))


Text = Annotated[str, _option(_text)]
Count = Annotated[int, _option(_count)]
Flag = Annotated[bool, _option(_flag)]
# Names between commas, or a JSON list, in which a name may contain one.
Names = Annotated[tuple[str, ...], _option(_names)]
# ISO 8601; without a zone it is in UTC, as on every executor.
Time = Annotated[datetime, _option(_time)]


# -- the options


class Options(BaseModel):
    """Options that were checked. Frozen, picklable; equal options are equal."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def names(cls) -> frozenset[str]:
        return frozenset(cls.model_fields)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Check options as Spark or a caller passes them."""
        texts = {name.lower(): _as_text(value) for name, value in given.items()}
        cls._refuse_misplaced(texts)
        known = cls.names()
        for name in texts:
            if name not in known and not _is_storage_option(name):
                raise _unknown(name, known)
        return cls.model_validate(texts)

    @classmethod
    def _refuse_misplaced(cls, texts: Mapping[str, str]) -> None:
        """Refuse options that have a meaning elsewhere, with the reason."""


class VersionOptions(Options):
    """Which version of a table is read."""

    version: Count | None = None
    tag: Text | None = None
    branch: Text | None = None
    as_of: Time | None = None


class TableOptions(Options):
    """Which table is meant: a name in the catalog at `root`, or the path of a Lance directory.

    `properties` are those of the catalog, `root` and `storage.*` among them.
    """

    path: Text | None = None
    table: Text | None = None
    properties: dict[str, str] = Field(default_factory=dict, repr=False)  # may hold credentials

    @classmethod
    def names(cls) -> frozenset[str]:
        return (super().names() - {"properties"}) | frozenset(Settings.names())

    @model_validator(mode="before")
    @classmethod
    def _collect_properties(cls, texts: dict[str, str]) -> dict[str, Any]:
        settings = Settings.names()
        properties = {
            name: text
            for name, text in texts.items()
            if name in settings or _is_storage_option(name)
        }
        others = {name: text for name, text in texts.items() if name not in properties}
        return {**others, "properties": properties}

    @classmethod
    def _refuse_misplaced(cls, texts: Mapping[str, str]) -> None:
        # Spark passes the options of CREATE TABLE once, as option.*, and never again.
        if not texts or any(name.startswith("option.") for name in texts):
            raise InvalidInputError(
                "a table of Spark's own catalog keeps no options for a Python source, so nothing "
                "would say which table is meant",
                hint="use CREATE TEMPORARY VIEW, tiltyard.spark.attach(), or SELECT ... FROM t "
                "WITH (...)",
            )


class ReadOptions(TableOptions, VersionOptions):
    """What is read of a table, and in how many pieces."""

    columns: Names | None = None
    filter: Text | None = None
    limit: Count | None = None
    with_row_id: Flag = False
    with_row_address: Flag = False
    # A vector search with the arguments of pylance: {"column": "v", "q": [0.1, 0.2], "k": 10}.
    nearest: Annotated[dict[str, Any] | None, _option(_nearest)] = None
    # Words to search for, or a query as JSON: {"query": "words", "columns": ["title"]}.
    full_text: Annotated[str | dict[str, Any] | None, _option(_full_text)] = None
    batch_size: Count | None = None
    num_partitions: Count | None = None
    fragments_per_partition: Count | None = None

    @model_validator(mode="after")
    def _check_partitions(self) -> Self:
        if self.num_partitions is not None and self.fragments_per_partition is not None:
            raise InvalidInputError(
                "num_partitions and fragments_per_partition can't both be given"
            )
        return self


# What makes a view show other rows or columns than the table has. Spark passes the schema of such
# a view to a write, so the rows would come without the other columns.
_PARTIAL = (
    ReadOptions.names()
    - TableOptions.names()
    - {"batch_size", "fragments_per_partition", "num_partitions"}
)


class ChangeOptions(TableOptions):
    """How rows of a table are changed."""

    case_sensitive: Flag = False
    max_rows_per_file: Count | None = None
    max_bytes_per_file: Count | None = None


class WriteOptions(ChangeOptions):
    """How a DataFrame is written into a table."""

    batch_size: Count | None = None
    if_exists: Annotated[str | None, _option(_if_exists)] = None
    mergeschema: Flag = False
    storage_version: Text | None = None

    @classmethod
    def _refuse_misplaced(cls, texts: Mapping[str, str]) -> None:
        super()._refuse_misplaced(texts)
        for name in sorted(_PARTIAL.intersection(texts)):
            raise InvalidInputError(
                f"a table can't be written through the option {name!r}",
                hint="write to the table itself, without options that choose what is read",
            )


class StreamReadOptions(TableOptions):
    """What a stream reads of a table, where it starts, and how much it takes at once."""

    columns: Names | None = None
    starting_version: Annotated[int | str, _option(_starting_version)] = EARLIEST
    change_kinds: Flag = False
    skip_changes: Flag = False
    fail_on_data_loss: Flag = True
    max_versions_per_batch: Count = 1000
    max_rows_per_batch: Count | None = None
    batch_size: Count | None = None
    num_partitions: Count | None = None

    @classmethod
    def _refuse_misplaced(cls, texts: Mapping[str, str]) -> None:
        super()._refuse_misplaced(texts)
        for name in sorted((ReadOptions.names() - cls.names()).intersection(texts)):
            raise InvalidInputError(
                f"option {name!r} has no meaning in a stream",
                hint="a stream brings every row of every version; filter its DataFrame",
            )

    @model_validator(mode="after")
    def _check_changes(self) -> Self:
        if self.change_kinds and self.skip_changes:
            raise InvalidInputError(
                "change_kinds brings changes and skip_changes leaves them out",
                hint="choose one of them",
            )
        return self


STREAM_ONLY = StreamReadOptions.names() - ReadOptions.names()


class StreamWriteOptions(WriteOptions):
    """How the batches of a stream are written into a table."""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        sparks_own = ("checkpointlocation", "queryname")
        return super().parse(
            {name: value for name, value in given.items() if name.lower() not in sparks_own}
        )

    @classmethod
    def _refuse_misplaced(cls, texts: Mapping[str, str]) -> None:
        super()._refuse_misplaced(texts)
        if "if_exists" in texts:
            raise InvalidInputError(
                "the option 'if_exists' has no meaning in a stream", hint="use another output mode"
            )


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_storage_option(name: str) -> bool:
    return name.startswith(STORAGE_PREFIX) and name != STORAGE_PREFIX


def _unknown(name: str, known: frozenset[str]) -> InvalidInputError:
    """A misspelt option would silently change what is read."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    listed = ", ".join(sorted(known))
    hint = f"did you mean {close[0]!r}?" if close else f"known are {listed}"
    return InvalidInputError(f"unknown option {name!r}", hint=hint)
