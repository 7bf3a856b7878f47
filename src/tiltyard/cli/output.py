"""Data on standard output, as people read it or as programs do; sentences on standard error.

A command hands over rows or one record with exact values. The console shows them through each
field's `show`; the other faces print them as they are.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from tiltyard.formatting import plain

Row = Mapping[str, Any]


class Format(StrEnum):
    """The faces of the output."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


@dataclass(frozen=True)
class Field:
    """One column of rows, or one line of a record; `inside` makes its value rows of their own.

    People see `title` above it, and `none` where there is no value.
    """

    name: str
    show: Callable[[Any], str] = plain
    right: bool = False
    inside: Sequence[Field] = ()
    title: str | None = None
    none: str = "-"


class Output(ABC):
    """Where a command's results go."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    @abstractmethod
    def rows(self, fields: Sequence[Field], rows: Iterable[Row]) -> None:
        """Print rows, all with the same fields."""

    @abstractmethod
    def record(self, fields: Sequence[Field], record: Row) -> None:
        """Print one thing with everything known about it."""

    @abstractmethod
    def done(self, sentence: str, result: Row) -> None:
        """Tell of a change: the sentence to people, the result to programs."""

    def summary(
        self,
        sentence: str,
        fields: Sequence[Field],
        rows: Sequence[Row],
        noteworthy: Sequence[Row] = (),
    ) -> None:
        """Tell of many things: the sentence and the noteworthy ones to people, all to programs."""
        self.rows(fields, rows)

    def say(self, sentence: str) -> None:
        """Tell people something beside the data."""
        if not self._quiet:
            print(sentence, file=sys.stderr)


class ConsoleOutput(Output):
    """For people. In a pipe nothing is wrapped, so that each row stays on its line."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, emoji=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, markup=False, emoji=False, width=10_000)

    def rows(self, fields: Sequence[Field], rows: Iterable[Row]) -> None:
        self._table(fields, list(rows), none="(none)")

    def record(self, fields: Sequence[Field], record: Row) -> None:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        for field in fields:
            if not field.inside and record.get(field.name) is not None:
                grid.add_row(field.name.replace("_", " "), Text(_shown(field, record)))
        self._console.print(grid)
        for field in fields:
            if field.inside and record.get(field.name):
                self._console.print()
                self._table(field.inside, record[field.name])

    def done(self, sentence: str, result: Row) -> None:
        self.say(sentence)

    def summary(
        self,
        sentence: str,
        fields: Sequence[Field],
        rows: Sequence[Row],
        noteworthy: Sequence[Row] = (),
    ) -> None:
        if noteworthy:
            self._table(fields, noteworthy)
        self.say(sentence)

    def _table(self, fields: Sequence[Field], rows: Sequence[Row], none: str = "") -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        if not rows:
            self.say(none)
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for field in fields:
            table.add_column(
                Text(plain(field.title or field.name)),
                justify="right" if field.right else "left",
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(Text(_shown(field, row)) for field in fields))
        self._console.print(table)


class JsonOutput(Output):
    """One JSON document: a list of rows, or one object."""

    def rows(self, fields: Sequence[Field], rows: Iterable[Row]) -> None:
        self._print([_chosen(fields, row) for row in rows])

    def record(self, fields: Sequence[Field], record: Row) -> None:
        self._print(_chosen(fields, record))

    def done(self, sentence: str, result: Row) -> None:
        self._print(result)

    def _print(self, value: Any) -> None:
        print(json.dumps(_exact(value), indent=2, ensure_ascii=False))


class JsonLinesOutput(Output):
    """One JSON object per line, each printed as soon as it is there."""

    def rows(self, fields: Sequence[Field], rows: Iterable[Row]) -> None:
        for row in rows:
            self._print(_chosen(fields, row))

    def record(self, fields: Sequence[Field], record: Row) -> None:
        self._print(_chosen(fields, record))

    def done(self, sentence: str, result: Row) -> None:
        self._print(result)

    def _print(self, value: Any) -> None:
        print(json.dumps(_exact(value), ensure_ascii=False))


class CsvOutput(Output):
    """A header and lines; a value with a structure of its own is JSON in its cell."""

    def rows(self, fields: Sequence[Field], rows: Iterable[Row]) -> None:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([field.name for field in fields])
        for row in rows:
            writer.writerow([_cell(row.get(field.name)) for field in fields])

    def record(self, fields: Sequence[Field], record: Row) -> None:
        self.rows(fields, [record])

    def done(self, sentence: str, result: Row) -> None:
        self.rows([Field(name) for name in result], [result])


_FACES: dict[Format, type[Output]] = {
    Format.TABLE: ConsoleOutput,
    Format.JSON: JsonOutput,
    Format.JSONL: JsonLinesOutput,
    Format.CSV: CsvOutput,
}


def make_output(format: Format, *, quiet: bool) -> Output:
    """The face that was asked for."""
    return _FACES[format](quiet=quiet)


def _shown(field: Field, row: Row) -> str:
    value = row.get(field.name)
    return field.none if value is None else field.show(value)


def _chosen(fields: Sequence[Field], row: Row) -> dict[str, Any]:
    return {field.name: row.get(field.name) for field in fields}


def _cell(value: Any) -> Any:
    exact = _exact(value)
    if isinstance(exact, dict | list):
        return json.dumps(exact, ensure_ascii=False)
    return str(exact).lower() if isinstance(exact, bool) else exact


def _exact(value: Any) -> Any:
    """A value as JSON can hold it, without losing any of it."""
    match value:
        case Mapping():
            return {str(key): _exact(each) for key, each in value.items()}
        case list() | tuple():
            return [_exact(each) for each in value]
        case float():
            return value if math.isfinite(value) else None  # JSON knows no NaN
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
    return value
