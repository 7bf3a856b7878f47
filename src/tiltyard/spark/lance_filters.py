"""Spark's conditions as filters of Lance, where both mean the same.

Spark applies its own condition again to the rows that come, so a filter may let through too much
and never too little. A condition is translated if Lance's answer equals Spark's wherever Spark's is
true or false; where Spark's is null, Lance may say anything. That carries over from the parts to
AND, OR and NOT, because in three-valued logic a null that becomes known changes nothing that was
known already. Everything else becomes None and is left to Spark.

Nothing here can fail on a row: no arithmetic, no cast but of a whole number to a wider one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeGuard

import pyarrow as pa

# Lance's parser takes exponential time over deep nesting, and gives up beyond fifty levels.
DEEPEST = 8
MOST_TERMS = 200
MOST_VALUES = 10_000


@dataclass(frozen=True)
class Column:
    """A column, or a field inside one, with the type that it has in Lance."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass(frozen=True)
class Literal:
    """A value as Spark keeps it: days for a date, microseconds for a timestamp."""

    value: Any
    type: str


@dataclass(frozen=True)
class Call:
    """Any other expression of Spark, by the name of its class."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Column | Literal | Call


def translate(conjuncts: Iterable[Expression]) -> str | None:
    """A filter that holds for every row for which all of the conditions hold."""
    translated = [
        (condition, text) for condition in conjuncts if (text := _implied(condition, 0)) is not None
    ]
    # Spark adds IS NOT NULL for every column that it compares; a comparison implies it.
    compared = [
        condition.arguments[0]
        for condition, _ in translated
        if _is_call(condition, {*_OPERATORS, *_SEARCHES})
    ]
    texts = [
        text
        for condition, text in translated
        if not (_is_call(condition, {"IsNotNull"}) and condition.arguments[0] in compared)
    ]
    return _joined("AND", texts[:MOST_TERMS]) if texts else None


def translate_exactly(conjuncts: Iterable[Expression]) -> str | None:
    """A filter that holds for those rows alone for which all of the conditions hold, if there is
    one. What is null must not pass here, so there is no NOT."""
    texts = [
        _exact(condition, 0) if _passes_only_if_true(condition) else None for condition in conjuncts
    ]
    return _all("AND", texts) if texts else None


def _passes_only_if_true(expression: Expression) -> bool:
    """Whether Lance, too, lets a row pass only where Spark's answer is true."""
    match expression:
        case Call("And" | "Or", parts):
            return all(map(_passes_only_if_true, parts))
        case Call("IsNull" | "IsNotNull" | "IsNaN" | "EqualNullSafe", _) | Column():
            return True
        case Call("In" | "InSet", (Column(), *values)):
            return all(isinstance(value, Literal) and value.value is not None for value in values)
        case Call(name, (one, other)) if name in _OPERATORS or name in _SEARCHES:
            return not any(
                isinstance(side, Literal) and side.value is None for side in (one, other)
            )
    return False


def _is_call(expression: Expression, names: set[str]) -> TypeGuard[Call]:
    return isinstance(expression, Call) and expression.name in names


def either(filters: Iterable[str | None]) -> str | None:
    """A filter for whatever passes one of these; None lets everything through."""
    distinct = list(dict.fromkeys(filters))
    if None in distinct or len(distinct) > MOST_TERMS:
        return None
    return _joined("OR", [text for text in distinct if text is not None])


# ---------------------------------------------------------------- logic


def _implied(expression: Expression, depth: int) -> str | None:
    """What follows from a condition; a part of an AND may be missing."""
    if depth > DEEPEST:
        return None
    match expression:
        case Call("And", _):
            parts = [_implied(part, depth + 1) for part in _flat("And", expression)]
            texts = [text for text in parts if text is not None]
            return _joined("AND", texts[:MOST_TERMS]) if texts else None
        case Call("Or", _):
            return _all("OR", [_implied(part, depth + 1) for part in _flat("Or", expression)])
        case Call("Not", (Call("And", parts),)):
            return _implied(Call("Or", tuple(Call("Not", (part,)) for part in parts)), depth)
        case Call("Not", (Call("Or", parts),)):
            return _implied(Call("And", tuple(Call("Not", (part,)) for part in parts)), depth)
        case Call("Not", (Call("Not", (inside,)),)):
            return _implied(inside, depth)
        case Call("EqualNullSafe", (Call() as inside, Literal(bool(value)))):
            return _implied(inside if value else Call("Not", (inside,)), depth)
        case Call("Coalesce", (Call() as inside, Literal(False))):
            return _implied(inside, depth)
        case Call("Like", (Column() as column, Literal(str(pattern)))):
            return _prefixed(column, pattern)
    return _exact(expression, depth)


def _exact(expression: Expression, depth: int) -> str | None:
    """The same answer, true or false, wherever Spark has one."""
    if depth > DEEPEST:
        return None
    match expression:
        case Literal(value, "boolean"):
            return "true" if value else "false"
        case Column(path, kind) if pa.types.is_boolean(kind):
            return _name(path)
        case Call("And" | "Or" as word, _):
            parts = [_exact(part, depth + 1) for part in _flat(word, expression)]
            return _all(word.upper(), parts)
        case Call("Not", (inside,)):
            text = _exact(inside, depth + 1)
            return None if text is None else f"NOT ({text})"
        case Call("IsNull", (Column(path, _),)):
            return _is_null(path)
        case Call("IsNotNull", (Column(path, _),)):
            return _is_not_null(path)
        case Call("IsNaN", (Column(path, kind),)) if pa.types.is_floating(kind):
            name = _name(path)
            return None if name is None else f"({_is_not_null(path)} AND isnan({name}))"
        case Call(search, (Column() as column, value)) if search in _SEARCHES:
            return _searched(_SEARCHES[search], column, value)
        case Call("In" | "InSet", (Column() as column, *values)):
            return _listed(column, values)
        case Call("EqualNullSafe", (one, other)):
            return _equal_or_null(one, other)
        case Call(operator, (one, other)) if operator in _OPERATORS:
            return _compared(operator, one, other)
    return None


def _flat(name: str, expression: Expression) -> list[Expression]:
    """The operands of a chain of ANDs or ORs, which Spark nests to the left."""
    operands: list[Expression] = []
    stack = [expression]
    while stack:
        match stack.pop():
            case Call(same, arguments) if same == name:
                stack.extend(reversed(arguments))
            case other:
                operands.append(other)
    return operands


def _all(word: str, parts: list[str | None]) -> str | None:
    texts = [text for text in parts if text is not None]
    return _joined(word, texts) if len(texts) == len(parts) <= MOST_TERMS else None


def _joined(word: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f" {word} ".join(f"({part})" for part in parts)


# ---------------------------------------------------------------- comparisons

_OPERATORS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TURNED = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}
_SEARCHES = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}


def _compared(name: str, one: Expression, other: Expression) -> str | None:
    match one, other:
        case Column() as column, Literal() as value:
            return _against(name, column, value)
        case Literal() as value, Column() as column:
            return _against(_TURNED.get(name, name), column, value)
    left, right = _operand(one), _operand(other)
    if left is None or right is None or left[1] != right[1]:
        return None
    return f"{left[0]} {_OPERATORS[name]} {right[0]}"


def _against(name: str, column: Column, value: Literal) -> str | None:
    """A column and a value. A comparison with null is null, and so may be anything."""
    subject = _name(column.path)
    if subject is None:
        return None
    if value.value is None:
        return "false"
    if pa.types.is_float32(column.type) or pa.types.is_float64(column.type):
        return _against_float(name, subject, column, value)
    text = _literal_text(column.type, value)
    return None if text is None else f"{subject} {_OPERATORS[name]} {text}"


def _against_float(name: str, subject: str, column: Column, value: Literal) -> str | None:
    """To Spark every NaN is equal, and greater than all else; to Lance its sign and bits matter.

    Both zeros are equal to Spark. Lance orders them in an index, so each comparison takes the one
    that leaves both on the same side.
    """
    if value.type not in ("float", "double"):
        return None
    number = value.value
    if math.isnan(number):
        return {
            "EqualTo": f"isnan({subject})",
            "GreaterThanOrEqual": f"isnan({subject})",
            "GreaterThan": "false",
            "LessThan": f"NOT isnan({subject})",
            "LessThanOrEqual": f"{subject} IS NOT NULL",
        }[name]
    if number == 0 and name == "EqualTo":
        low, high = _float_text(column.type, -0.0), _float_text(column.type, 0.0)
        return f"({subject} = {low} OR {subject} = {high})"
    if number == 0:
        number = -0.0 if name in ("LessThan", "GreaterThanOrEqual") else 0.0
    compared = f"{subject} {_OPERATORS[name]} {_float_text(column.type, number)}"
    if name == "EqualTo":
        return compared
    if name in ("GreaterThan", "GreaterThanOrEqual"):
        return f"({compared} OR isnan({subject}))"
    return f"({compared} AND NOT isnan({subject}))"


def _equal_or_null(one: Expression, other: Expression) -> str | None:
    """`<=>`, which is never null itself."""
    if isinstance(one, Literal):
        one, other = other, one
    if not isinstance(one, Column) or not isinstance(other, Literal):
        return None
    if other.value is None:
        return _is_null(one.path)
    equal = _against("EqualTo", one, other)
    return None if equal is None else f"({_is_not_null(one.path)} AND {equal})"


def _listed(column: Column, values: Iterable[Expression]) -> str | None:
    """A null among the values makes false into null, which may stay false."""
    literals = [value for value in values if isinstance(value, Literal)]
    known = [literal for literal in literals if literal.value is not None]
    subject = _name(column.path)
    if subject is None or len(literals) < len(list(values)) or len(known) > MOST_VALUES:
        return None
    if not known:
        return "false"
    if pa.types.is_floating(column.type):
        return _all("OR", [_against("EqualTo", column, literal) for literal in known])
    texts = [_literal_text(column.type, literal) for literal in known]
    if None in texts:
        return None
    return f"{subject} IN ({', '.join(text for text in texts if text is not None)})"


def _searched(function: str, column: Column, value: Expression) -> str | None:
    subject = _name(column.path)
    if subject is None or not _is_text(column.type) or not isinstance(value, Literal):
        return None
    text = _literal_text(column.type, value) if value.value is not None else None
    return None if text is None else f"{function}({subject}, {text})"


def _prefixed(column: Column, pattern: str) -> str | None:
    """What a pattern begins with. The rest of it, and any escape, is left to Spark."""
    prefix = pattern[: next((at for at, sign in enumerate(pattern) if sign in "%_\\"), None)]
    return _searched("starts_with", column, Literal(prefix, "string")) if prefix else None


def _operand(expression: Expression) -> tuple[str, pa.DataType] | None:
    """A side of a comparison between columns. Floating-point numbers are left to Spark."""
    match expression:
        case Column(path, kind) if _is_comparable(kind):
            name = _name(path)
            return None if name is None else (name, kind)
        case Call("Cast to bigint", (Column(path, kind),)) if pa.types.is_signed_integer(kind):
            name = _name(path)
            return None if name is None else (f"CAST({name} AS BIGINT)", pa.int64())
    return None


# ---------------------------------------------------------------- names


def _name(path: tuple[str, ...]) -> str | None:
    if any("`" in part or "." in part or not part for part in path):
        return None
    return ".".join(f"`{part}`" for part in path)


def _is_null(path: tuple[str, ...]) -> str | None:
    """A field is null too if a struct that holds it is."""
    return _all("OR", [f"{name} IS NULL" for name in _levels(path)] if _name(path) else [None])


def _is_not_null(path: tuple[str, ...]) -> str | None:
    return _all("AND", [f"{name} IS NOT NULL" for name in _levels(path)] if _name(path) else [None])


def _levels(path: tuple[str, ...]) -> list[str | None]:
    return [_name(path[:end]) for end in range(1, len(path) + 1)]


# ---------------------------------------------------------------- values


def _literal_text(kind: pa.DataType, literal: Literal) -> str | None:
    """A value that is not null, if it has exactly the column's type."""
    write = _writer_of(kind)
    return None if write is None else write(kind, literal)


def _writer_of(kind: pa.DataType) -> Callable[[pa.DataType, Literal], str | None] | None:
    for is_type, write in _WRITERS:
        if is_type(kind):
            return write
    return None


def _is_comparable(kind: pa.DataType) -> bool:
    """Whether two columns of this type compare in Lance as they do in Spark."""
    return _writer_of(kind) is not None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_microseconds(kind: pa.DataType) -> bool:
    """Another unit would be rounded, and in Lance by another rule than on the way to Spark."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us")


def _integer(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type not in ("tinyint", "smallint", "int", "bigint"):
        return None
    lowest = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
    if not lowest <= literal.value < lowest + 2**kind.bit_width:
        return None
    # The lowest of all would be read as a minus sign before a number that is too large.
    is_lowest = literal.value == -(2**63)
    return f"CAST('{literal.value}' AS BIGINT)" if is_lowest else str(literal.value)


def _float_text(kind: pa.DataType, number: float) -> str:
    text = repr(number) if math.isfinite(number) else ("inf" if number > 0 else "-inf")
    return f"CAST('{text}' AS {'FLOAT' if pa.types.is_float32(kind) else 'DOUBLE'})"


def _text(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type != "string" or "\0" in literal.value:
        return None
    doubled = literal.value.replace("'", "''")
    return f"'{doubled}'"


def _bytes(kind: pa.DataType, literal: Literal) -> str | None:
    return f"X'{literal.value.hex()}'" if literal.type == "binary" else None


def _boolean(kind: pa.DataType, literal: Literal) -> str | None:
    return str(literal.value).lower() if literal.type == "boolean" else None


def _decimal(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type != f"decimal({kind.precision},{kind.scale})":
        return None
    assert isinstance(literal.value, Decimal)
    return f"CAST('{literal.value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"


def _date(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type != "date":
        return None
    try:
        day = date(1970, 1, 1) + timedelta(days=literal.value)
    except OverflowError:
        return None
    return f"CAST('{day.isoformat()}' AS DATE)"


def _timestamp(kind: pa.DataType, literal: Literal) -> str | None:
    """A moment is the same in every zone; a timestamp without one goes with its like only."""
    if literal.type != ("timestamp_ntz" if kind.tz is None else "timestamp"):
        return None
    zone = "None" if kind.tz is None else 'Some("UTC")'
    return f"arrow_cast({literal.value}, 'Timestamp(Microsecond, {zone})')"


_WRITERS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Literal], str | None]], ...
] = (
    (lambda kind: pa.types.is_integer(kind) and kind != pa.uint64(), _integer),
    (_is_text, _text),
    (_is_binary, _bytes),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal128, _decimal),
    (pa.types.is_date32, _date),
    (_is_microseconds, _timestamp),
)
