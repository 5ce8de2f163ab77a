"""Boxes within boxes, laid out and drawn as SVG: text on top, then small cells, then children in rows of a width.

Fonts are monospaced so that a text's width follows from its length, and nothing outside the file is needed to draw it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil

from kubenexus.agent.show.parts import clean

LETTER, LINE, PAD, GAP, CELL, CELLS_PER_ROW = 7.3, 17.0, 10.0, 8.0, 12.0, 28


@dataclass(slots=True)
class Box:
    """A box with lines of text and boxes below them; without text it only groups. `style` is a CSS class."""

    lines: Sequence[str]
    style: str
    children: Sequence[Box] = ()
    row_width: float = 0
    """children go on in a new row past this width; 0 puts each in a row of its own"""
    colour: str | None = None
    cells: int = 0
    """small squares below the text: things that are many and all alike"""
    rows: list[list[Box]] = field(init=False, default_factory=list)
    width: float = field(init=False, default=0)
    height: float = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.lines = [clean(line) for line in self.lines]
        self._fill_rows()
        widths = [LETTER * len(line) for line in self.lines]
        widths += [sum(child.width for child in row) + GAP * (len(row) - 1) for row in self.rows]
        widths.append(CELL * min(self.cells, CELLS_PER_ROW))
        heights = [GAP + max(child.height for child in row) for row in self.rows]
        # A group has no text, no frame and no padding; the gap of its first row is its parent's.
        frame, first_gap = (2 * PAD, 0.0) if self.lines else (0.0, GAP)
        self.width = max(widths) + frame
        self.height = self._head() + sum(heights) + frame - first_gap

    def _fill_rows(self) -> None:
        used = 0.0
        for child in self.children:
            if self.rows and used + GAP + child.width <= self.row_width:
                self.rows[-1].append(child)
                used += GAP + child.width
            else:
                self.rows.append([child])
                used = child.width

    def _head(self) -> float:
        return LINE * len(self.lines) + CELL * ceil(self.cells / CELLS_PER_ROW)

    def draw(self, x: float, y: float, height: float | None = None) -> Iterator[str]:
        """SVG elements with the box's corner at (x, y); a row's boxes are as high as the highest of them."""
        if not self.lines:
            yield from self._draw_rows(x, y - GAP)
            return
        fill = f' style="fill:{self.colour}"' if self.colour else ""
        yield _rect(self.style, x, y, self.width, height or self.height, f' rx="5"{fill}')
        left, top = x + PAD, y + PAD
        for number, line in enumerate(self.lines):
            weight, text = ' class="head"' if number == 0 else "", escape(line, quote=False)
            yield f'<text{weight} x="{left:.0f}" y="{top + LINE * (number + 0.75):.0f}">{text}</text>'
        for number in range(self.cells):
            row, column = divmod(number, CELLS_PER_ROW)
            cell_top = top + LINE * len(self.lines) + CELL * row
            yield _rect("cell", left + CELL * column, cell_top, CELL - 3, CELL - 3)
        yield from self._draw_rows(left, top + self._head())

    def _draw_rows(self, x: float, top: float) -> Iterator[str]:
        for row in self.rows:
            top += GAP
            left, tallest = x, max(child.height for child in row)
            for child in row:
                yield from child.draw(left, top, height=tallest)
                left += child.width + GAP
            top += tallest


def _rect(style: str, x: float, y: float, width: float, height: float, extra: str = "") -> str:
    return f'<rect class="{style}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}"{extra}/>'


def page(box: Box, styles: dict[str, str]) -> str:
    """A whole SVG document around a box."""
    width, height = f"{box.width + 20:.0f}", f"{box.height + 20:.0f}"
    css = "".join(f".{name}{{{rule}}}" for name, rule in styles.items())
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="monospace" font-size="12">'
    )
    return "\n".join([head, f"<style>{css}</style>", *box.draw(10, 10), "</svg>"])
