"""Small charts as SVG, drawn on the server. Their colours come from the stylesheet.

A chart has a sentence for those who can't see it, or is only a shape beside a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

_WIDTH, _HEIGHT, _EDGE = 800.0, 120.0, 10.0


def meter(share: float, kind: str = "") -> Markup:
    """A bar beside a number that it repeats, so it is hidden from screen readers."""
    width = 100 * min(max(share, 0.0), 1.0)
    return Markup(
        '<svg class="meter {}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="6"/>'
        '<rect class="fill" width="{:.1f}" height="6"/></svg>'
    ).format(kind, max(width, 1.0) if share > 0 else 0.0)


def shares(parts: Sequence[tuple[str, int]], told: str) -> Markup:
    """One bar cut into parts, each with the name of its colour and how much it is."""
    total = sum(value for _, value in parts) or 1
    drawn, at = [], 0.0
    for kind, value in parts:
        width = 1000 * value / total
        if value:
            drawn.append(
                Markup('<rect class="{}" x="{:.1f}" width="{:.1f}" height="16"/>').format(
                    kind, at, max(width - 2, 1)
                )
            )
        at += width
    return Markup(
        '<svg class="shares" viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><rect class="track" width="1000" height="16"/>{}</svg>'
    ).format(told, Markup().join(drawn))


def columns(heights: Sequence[tuple[int, str]], told: str) -> Markup:
    """A column for each number; its words show on hovering."""
    most = max((value for value, _ in heights), default=0) or 1
    step = _WIDTH / max(len(heights), 1)
    drawn = []
    for place, (value, title) in enumerate(heights):
        height = 4 + (_HEIGHT - 4) * value / most if value else 2.0
        drawn.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="3">'
                "<title>{}</title></rect>"
            ).format(
                "column" if value else "column none",
                place * step + step * 0.15,
                _HEIGHT - height,
                step * 0.7,
                height,
                title,
            )
        )
    return _picture("columns", told, drawn)


def timeline(points: Sequence[tuple[datetime, int, str]], told: str) -> Markup:
    """A line through numbers over time, oldest first, with a dot for each."""
    if not points:
        return Markup()
    first, last = points[0][0].timestamp(), points[-1][0].timestamp()
    most = max(value for _, value, _ in points) or 1
    places = [
        (_across(moment.timestamp(), first, last), _upwards(value, most))
        for moment, value, _ in points
    ]
    path = "".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(places))
    floor = _HEIGHT - 1
    below = f"{path}L{places[-1][0]:.1f} {floor}L{places[0][0]:.1f} {floor}Z"
    drawn = [
        Markup('<path class="area" d="{}"/><path class="line" d="{}"/>').format(below, path),
        *(
            Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4.5"><title>{}</title></circle>').format(
                x, y, title
            )
            for (x, y), (_, _, title) in zip(places, points, strict=True)
        ),
    ]
    return _picture("timeline", told, drawn)


def _across(moment: float, first: float, last: float) -> float:
    inside = _WIDTH - 2 * _EDGE
    return _EDGE + (inside * (moment - first) / (last - first) if last > first else inside / 2)


def _upwards(value: int, most: int) -> float:
    return _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / most


def _picture(kind: str, told: str, drawn: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="{}" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>'
    ).format(kind, _WIDTH, _HEIGHT, told, Markup().join(drawn))
