"""Small charts as SVG, drawn on the server. Their colours come from the stylesheet.

A chart has a label for screen readers, or is hidden from them because it repeats a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

_WIDTH, _HEIGHT, _EDGE = 800.0, 120.0, 10.0


def meter(share: float, kind: str = "") -> Markup:
    """A bar that repeats the number beside it, and is hidden from screen readers."""
    width = 100 * min(max(share, 0.0), 1.0)
    return Markup(
        '<svg class="meter {}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="6"/>'
        '<rect class="fill" width="{:.1f}" height="6"/></svg>'
    ).format(kind, max(width, 1.0) if share > 0 else 0.0)


def shares(parts: Sequence[tuple[str, int]], label: str) -> Markup:
    """One bar divided into parts, each with its CSS class and its value."""
    total = sum(value for _, value in parts) or 1
    drawn, x = [], 0.0
    for kind, value in parts:
        width = 1000 * value / total
        if value:
            drawn.append(
                Markup('<rect class="{}" x="{:.1f}" width="{:.1f}" height="16"/>').format(
                    kind, x, max(width - 2, 1)
                )
            )
        x += width
    return Markup(
        '<svg class="shares" viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><rect class="track" width="1000" height="16"/>{}</svg>'
    ).format(label, Markup().join(drawn))


def columns(heights: Sequence[tuple[int, str]], label: str) -> Markup:
    """A column for each value; its title is shown on hovering."""
    highest = max((value for value, _ in heights), default=0) or 1
    step = _WIDTH / max(len(heights), 1)
    drawn = []
    for index, (value, title) in enumerate(heights):
        height = 4 + (_HEIGHT - 4) * value / highest if value else 2.0
        drawn.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="3">'
                "<title>{}</title></rect>"
            ).format(
                "column" if value else "column none",
                index * step + step * 0.15,
                _HEIGHT - height,
                step * 0.7,
                height,
                title,
            )
        )
    return _svg("columns", label, drawn)


def timeline(points: Sequence[tuple[datetime, int, str]], label: str) -> Markup:
    """A line through values over time, oldest first, with a dot for each."""
    if not points:
        return Markup()
    first, last = points[0][0].timestamp(), points[-1][0].timestamp()
    highest = max(value for _, value, _ in points) or 1
    dots = [
        (_x(moment.timestamp(), first, last), _y(value, highest)) for moment, value, _ in points
    ]
    path = "".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(dots))
    floor = _HEIGHT - 1
    below = f"{path}L{dots[-1][0]:.1f} {floor}L{dots[0][0]:.1f} {floor}Z"
    drawn = [
        Markup('<path class="area" d="{}"/><path class="line" d="{}"/>').format(below, path),
        *(
            Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4.5"><title>{}</title></circle>').format(
                x, y, title
            )
            for (x, y), (_, _, title) in zip(dots, points, strict=True)
        ),
    ]
    return _svg("timeline", label, drawn)


def _x(moment: float, first: float, last: float) -> float:
    inside = _WIDTH - 2 * _EDGE
    return _EDGE + (inside * (moment - first) / (last - first) if last > first else inside / 2)


def _y(value: int, highest: int) -> float:
    return _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / highest


def _svg(kind: str, label: str, drawn: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="{}" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>'
    ).format(kind, _WIDTH, _HEIGHT, label, Markup().join(drawn))
