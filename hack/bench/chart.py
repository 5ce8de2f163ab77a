"""Bar charts as SVG, side by side, without a library: a panel for each measure, a bar for each contender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, MARGIN, TOP = 260, 200, 20, 60
COLOURS = ("#7a8b99", "#3b6ea5", "#2a9d6f", "#c2683a")


@dataclass(frozen=True, slots=True)
class Panel:
    """One measure: what it is called, how it is written, and what each contender got; None is left out."""

    title: str
    unit: str
    values: Mapping[str, float | None]


def draw(title: str, panels: Sequence[Panel]) -> str:
    """The whole picture."""
    width, height = MARGIN + len(panels) * (WIDTH + MARGIN), TOP + HEIGHT + 3 * MARGIN
    names = list(dict.fromkeys(name for panel in panels for name in panel.values))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    parts = [_text(MARGIN, 26, title, size=16, weight="bold")]
    for number, panel in enumerate(panels):
        parts += _panel(panel, MARGIN + number * (WIDTH + MARGIN), colours)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>", ""])


def _panel(panel: Panel, left: int, colours: Mapping[str, str]) -> list[str]:
    shown = {name: value for name, value in panel.values.items() if value is not None}
    highest = max(shown.values(), default=0.0) or 1.0
    step = WIDTH / max(1, len(shown))
    parts = [_text(left, TOP - 8, f"{panel.title} ({panel.unit})", size=13)]
    for number, (name, value) in enumerate(shown.items()):
        tall, x = HEIGHT * 0.85 * value / highest, left + number * step
        y, middle = TOP + HEIGHT - tall, x + step * 0.45
        parts += [
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.9:.1f}" height="{tall:.1f}" fill="{colours[name]}"/>',
            _text(middle, y - 4, f"{value:,.4g}", size=12, anchor="middle"),
            _text(middle, TOP + HEIGHT + 16, name, size=11, anchor="middle"),
        ]
    return parts


def _text(x: float, y: float, text: str, *, size: int, anchor: str = "start", weight: str = "normal") -> str:
    look = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="#222"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(text)}</text>'
