"""How a number moved over the reports, as a small static drawing."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT, EDGE = 240, 40, 4


def trend(values: Sequence[float | None], low: float, high: float, role: str) -> Markup:
    """``values`` from left to right between ``low`` and ``high``; None is a gap."""
    step = (WIDTH - 2 * EDGE) / max(1, len(values) - 1)
    span = (high - low) or 1.0
    strokes: list[list[str]] = [[]]
    for i, value in enumerate(values):
        if value is None:
            strokes.append([])
            continue
        share = min(1.0, max(0.0, (value - low) / span))
        strokes[-1].append(f"{EDGE + i * step:.1f},{HEIGHT - EDGE - share * (HEIGHT - 2 * EDGE):.1f}")
    colour = f"var(--{role})"
    parts = []
    if low < 0 < high:
        y = HEIGHT - EDGE - (0 - low) / span * (HEIGHT - 2 * EDGE)
        parts.append(f'<line x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
    parts += [
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for points in strokes
        if len(points) > 1
    ]
    for points in strokes:
        if points:
            x, y_ = points[-1].split(",")
            parts.append(f'<circle cx="{x}" cy="{y_}" r="3" fill="{colour}"/>')
    drawing = "".join(parts)
    return Markup(  # noqa: S704  numbers only
        f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true" focusable="false">{drawing}</svg>'
    )
