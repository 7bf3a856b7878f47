"""A schedule as people read it: numbered steps, what each request was and what it met, and what a
reader saw whenever that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.simulation.oracle import Violation
from tests.simulation.requests import DOUBT, Request
from tests.simulation.search import Choice, Machine, State
from tiltyard.catalog import marker, names, version_files
from tiltyard.store import Entry


def steps(within: Machine, choices: Iterable[Choice]) -> Iterator[str]:
    """Take the steps again and tell each."""
    state: State | Violation = within.start
    seen: Any = within.views[within.start.objects]
    yield f"       begins with {_told(seen)}"
    for number, choice in enumerate(choices, 1):
        assert isinstance(state, State)
        before, state = state, within.take(state, choice)
        yield f"{number:4}  {_line(within, before, choice)}"
        if isinstance(state, Violation):
            yield f"      VIOLATION ({state.kind}): {state.text}"
            return
        if choice.actor >= 0:
            for op, end in _ended(within, before, choice):
                yield f"          {op} {end.verdict}: {end.detail}"
        if within.views[state.objects] != seen:
            seen = within.views[state.objects]
            yield f"          a reader finds {_told(seen)}"


def _line(within: Machine, before: State, choice: Choice) -> str:
    if choice.actor < 0:
        return f"~  {_asked(before.flying[int(choice.how)])}  ARRIVES NOW"
    node = before.nodes[choice.actor]
    assert node.request is not None
    told = {"late": "LATE, nobody knows", "twice": "and AGAIN LATER", "crash": "CRASH"}
    text = f"{node.process.name}  {_asked(node.request)}"
    if choice.how in ("", "twice"):
        text += f"  → {_brief(within.serve(before.objects, node.request)[1])}"
    return text + (f"  [{told[choice.how]}]" if choice.how else "")


def _brief(answer: Any) -> str:
    if answer.kind == "blob":
        return _body(answer.value)
    if answer.kind == "entries":
        return f"[{', '.join(_key(key) for key, _ in answer.value)}]"
    return str(answer.kind)


def _asked(request: Request) -> str:
    text = f"{request.verb} {_key(request.key)}"
    return f"{text} {_body(request.body)}" if request.body else text


def _key(key: str) -> str:
    version = version_files.parse(Entry(key, 0, 0)) if names.VERSIONS_DIRECTORY in key else None
    return f"v{version.version}" if version else key


def _body(body: bytes) -> str:
    try:
        present = marker.decode(body, "")
    except Exception:
        return body.decode(errors="replace")[:120]
    parts = [present.state.value, present.nonce]
    parts += [f"base {present.base}"] if present.base is not None else []
    parts += [f"at {present.version_at_drop}"] if present.version_at_drop else []
    parts += [f"floor {present.floor}"] if present.floor else []
    parts += [f"from {present.previous.state.value}"] if present.previous else []
    return f"<{' '.join(parts)}>"


def _ended(within: Machine, before: State, choice: Choice) -> list[Any]:
    node = before.nodes[choice.actor]
    assert node.request is not None
    if choice.how == "crash":
        return []
    answer = DOUBT if choice.how == "late" else within.serve(before.objects, node.request)[1]
    _, finished = node.process.advance(node, answer)
    return [(f"{node.process.name}#{end.at}", end) for end in finished]


def _told(view: Any) -> str:
    return str(view) if not isinstance(view, frozenset) else f"{sorted(view, key=str)}"
