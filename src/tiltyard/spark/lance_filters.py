"""Spark's conditions in the words of Lance's filters, where both mean the same.

Spark applies its own condition again to the rows that come, so a filter may let through too much
and never too little. A condition is translated if Lance's answer equals Spark's wherever Spark's is
true or false; where Spark's is null, Lance may say anything. That carries over from the parts to
AND, OR and NOT, because in three-valued logic a null that becomes known changes nothing that was
known already. Whatever else there is comes out as None and is left to Spark.

Nothing here can fail on a row: no arithmetic, no cast but of a whole number to a wider one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

import pyarrow as pa

from tiltyard.spark.values import Literal, float_written, is_comparable, is_text, written

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
class Call:
    """Any other expression of Spark, by the name of its class."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Column | Literal | Call


def translate(conjuncts: Iterable[Expression]) -> str | None:
    """A filter that holds for every row for which all of the conditions hold."""
    found = [(each, text) for each in conjuncts if (text := _implied(each, 0)) is not None]
    # Spark says of every column that it compares that it is not null; a comparison says so too.
    compared = [each.arguments[0] for each, _ in found if _is_call(each, {*_OPERATORS, *_SEARCHES})]
    texts = [
        text
        for each, text in found
        if not (_is_call(each, {"IsNotNull"}) and each.arguments[0] in compared)
    ]
    return _joined("AND", texts[:MOST_TERMS]) if texts else None


def translate_exactly(conjuncts: Iterable[Expression]) -> str | None:
    """A filter that holds for those rows alone for which all of the conditions hold, if there is
    one. What is null must not pass here, so there is no NOT."""
    texts = [_exact(each, 0) if _passes_only_if_true(each) else None for each in conjuncts]
    return _all("AND", texts) if texts else None


def _passes_only_if_true(expression: Expression) -> bool:
    """Whether Lance, too, lets a row pass only where Spark's answer is true."""
    match expression:
        case Call("And" | "Or", parts):
            return all(map(_passes_only_if_true, parts))
        case Call("IsNull" | "IsNotNull" | "IsNaN" | "EqualNullSafe", _) | Column():
            return True
        case Call("In" | "InSet", (Column(), *values)):
            return all(isinstance(each, Literal) and each.value is not None for each in values)
        case Call(name, (one, other)) if name in _OPERATORS or name in _SEARCHES:
            return not any(isinstance(e, Literal) and e.value is None for e in (one, other))
    return False


def _is_call(expression: Expression, names: set[str]) -> TypeGuard[Call]:
    return isinstance(expression, Call) and expression.name in names


def either(filters: Iterable[str | None]) -> str | None:
    """A filter for whatever passes one of these; None lets everything through."""
    found = list(dict.fromkeys(filters))
    if None in found or len(found) > MOST_TERMS:
        return None
    return _joined("OR", [each for each in found if each is not None])


# ---------------------------------------------------------------- logic


def _implied(expression: Expression, depth: int) -> str | None:
    """What follows from a condition; a part of an AND may be missing."""
    if depth > DEEPEST:
        return None
    match expression:
        case Call("And", _):
            parts = [_implied(each, depth + 1) for each in _flat("And", expression)]
            found = [each for each in parts if each is not None]
            return _joined("AND", found[:MOST_TERMS]) if found else None
        case Call("Or", _):
            return _all("OR", [_implied(each, depth + 1) for each in _flat("Or", expression)])
        case Call("Not", (Call("And", parts),)):
            return _implied(Call("Or", tuple(Call("Not", (each,)) for each in parts)), depth)
        case Call("Not", (Call("Or", parts),)):
            return _implied(Call("And", tuple(Call("Not", (each,)) for each in parts)), depth)
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
            parts = [_exact(each, depth + 1) for each in _flat(word, expression)]
            return _all(word.upper(), parts)
        case Call("Not", (inside,)):
            text = _exact(inside, depth + 1)
            return None if text is None else f"NOT ({text})"
        case Call("IsNull", (Column(path, _),)):
            return _nothing(path)
        case Call("IsNotNull", (Column(path, _),)):
            return _something(path)
        case Call("IsNaN", (Column(path, kind),)) if pa.types.is_floating(kind):
            name = _name(path)
            return None if name is None else f"({_something(path)} AND isnan({name}))"
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
    found: list[Expression] = []
    waiting = [expression]
    while waiting:
        match waiting.pop():
            case Call(same, arguments) if same == name:
                waiting.extend(reversed(arguments))
            case other:
                found.append(other)
    return found


def _all(word: str, parts: list[str | None]) -> str | None:
    found = [each for each in parts if each is not None]
    return _joined(word, found) if len(found) == len(parts) <= MOST_TERMS else None


def _joined(word: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f" {word} ".join(f"({each})" for each in parts)


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
    text = written(column.type, value)
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
        low, high = float_written(column.type, -0.0), float_written(column.type, 0.0)
        return f"({subject} = {low} OR {subject} = {high})"
    if number == 0:
        number = -0.0 if name in ("LessThan", "GreaterThanOrEqual") else 0.0
    compared = f"{subject} {_OPERATORS[name]} {float_written(column.type, number)}"
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
        return _nothing(one.path)
    equal = _against("EqualTo", one, other)
    return None if equal is None else f"({_something(one.path)} AND {equal})"


def _listed(column: Column, values: Iterable[Expression]) -> str | None:
    """A null among the values makes false into null, which may stay false."""
    found = [each for each in values if isinstance(each, Literal)]
    known = [each for each in found if each.value is not None]
    subject = _name(column.path)
    if subject is None or len(found) < len(list(values)) or len(known) > MOST_VALUES:
        return None
    if not known:
        return "false"
    if pa.types.is_floating(column.type):
        return _all("OR", [_against("EqualTo", column, each) for each in known])
    texts = [written(column.type, each) for each in known]
    if None in texts:
        return None
    return f"{subject} IN ({', '.join(each for each in texts if each is not None)})"


def _searched(function: str, column: Column, value: Expression) -> str | None:
    subject = _name(column.path)
    if subject is None or not is_text(column.type) or not isinstance(value, Literal):
        return None
    text = written(column.type, value) if value.value is not None else None
    return None if text is None else f"{function}({subject}, {text})"


def _prefixed(column: Column, pattern: str) -> str | None:
    """What a pattern begins with. The rest of it, and any escape, is left to Spark."""
    plain = next((at for at, each in enumerate(pattern) if each in "%_\\"), len(pattern))
    return _searched("starts_with", column, Literal(pattern[:plain], "string")) if plain else None


def _operand(expression: Expression) -> tuple[str, pa.DataType] | None:
    """A side of a comparison between columns. Floating-point numbers are Spark's own affair."""
    match expression:
        case Column(path, kind) if is_comparable(kind):
            name = _name(path)
            return None if name is None else (name, kind)
        case Call("Cast to bigint", (Column(path, kind),)) if pa.types.is_signed_integer(kind):
            name = _name(path)
            return None if name is None else (f"CAST({name} AS BIGINT)", pa.int64())
    return None


# ---------------------------------------------------------------- names and values


def _name(path: tuple[str, ...]) -> str | None:
    if any("`" in part or "." in part or not part for part in path):
        return None
    return ".".join(f"`{part}`" for part in path)


def _nothing(path: tuple[str, ...]) -> str | None:
    """A field is missing if it is null, or something that it lies in."""
    return _all("OR", [f"{each} IS NULL" for each in _way(path)] if _name(path) else [None])


def _something(path: tuple[str, ...]) -> str | None:
    return _all("AND", [f"{each} IS NOT NULL" for each in _way(path)] if _name(path) else [None])


def _way(path: tuple[str, ...]) -> list[str | None]:
    return [_name(path[:end]) for end in range(1, len(path) + 1)]
