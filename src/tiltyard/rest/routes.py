"""Which operation a path means. The raw path is split before it is decoded: an encoded slash in an
id is no separator, and Lance's clients write a space as "+"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_plus

from tiltyard.rest.answers import Refused
from tiltyard.rest.operation import Operation

_Mask = tuple[str | None, ...]


class Routes:
    """Paths by their fixed segments; a lookup does not get slower with the number of rows."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = tuple(operations)
        self._by_mask: dict[_Mask, dict[str, Operation]] = defaultdict(dict)
        self._variable: dict[int, set[tuple[int, ...]]] = defaultdict(set)
        for each in self.operations:
            segments = each.path.split("/")
            variable = tuple(at for at, text in enumerate(segments) if text.startswith("{"))
            self._by_mask[_masked(segments, variable)][each.method] = each
            self._variable[len(segments)].add(variable)

    def find(self, method: str, raw_path: bytes) -> tuple[Operation, Mapping[str, str]]:
        """The operation, and the variable parts of the path by name. Refused if there is none."""
        try:
            segments = raw_path.decode("ascii").split("/")
        except UnicodeDecodeError:
            raise Refused(400, "a path has ASCII characters only") from None
        for variable in sorted(self._variable.get(len(segments), ()), key=len):
            found = self._by_mask.get(_masked(segments, variable))
            if found is None:
                continue
            if method not in found:
                allowed = ", ".join(sorted(found))
                raise Refused(405, f"only {allowed} here", {"Allow": allowed})
            operation = found[method]
            names = operation.path.split("/")
            return operation, {names[at][1:-1]: _decoded(segments[at]) for at in variable}
        raise Refused(404, "there is no such operation")


def _masked(segments: list[str], variable: tuple[int, ...]) -> _Mask:
    return tuple(None if at in variable else text for at, text in enumerate(segments))


def _decoded(segment: str) -> str:
    try:
        return unquote_plus(segment, errors="strict")
    except UnicodeDecodeError:
        raise Refused(400, "the path is not UTF-8") from None
