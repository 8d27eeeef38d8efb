"""Shapes of the drawings: text, boxes, arrows and bars as SVG.

A colour is a variable of CSS with a value for where nothing sets it: docs/assets/site.css sets them
for the dark site, and a drawing that is looked at alone has the light ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

FONT = "font-family='system-ui, sans-serif'"
MONO = "font-family='ui-monospace, monospace'"


def colour(name: str, light: str) -> str:
    return f"var(--{name}, {light})"


PAPER = colour("paper", "#ffffff")
BANDS = (colour("band", "#eef3fb"), colour("faint", "#f6f8fb"))
INK = colour("ink", "#1b2733")
PALE = colour("pale", "#5b6b7a")
LINE = colour("line", "#c7d2dc")
ACCENT = colour("accent", "#3f51b5")
SERIES = (
    colour("first", "#3f51b5"),
    colour("second", "#00897b"),
    colour("third", "#b86e00"),
    colour("fourth", "#c2185b"),
    colour("fifth", "#8d9aa8"),
)


def text(
    x: float,
    y: float,
    words: str,
    fill: str = INK,
    size: int = 13,
    font: str = FONT,
    *,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    return (
        f"<text x='{x:g}' y='{y:g}' {font} font-size='{size}' font-weight='{weight}' "
        f"text-anchor='{anchor}' fill='{fill}'>{escape(words)}</text>"
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str = BANDS[0],
    *,
    stroke: str = LINE,
    radius: int = 6,
    dashed: bool = False,
) -> str:
    dashes = " stroke-dasharray='4 3'" if dashed else ""
    return (
        f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='{radius}' "
        f"fill='{fill}' stroke='{stroke}'{dashes}/>"
    )


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = LINE) -> str:
    return f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{stroke}'/>"


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{ACCENT}' "
        "stroke-width='1.6' marker-end='url(#head)'/>"
    )


def legend(x: float, y: float, names: Iterable[tuple[str, str]]) -> list[str]:
    """A square of its colour and a name for each, in one line."""
    parts = []
    for name, fill in names:
        parts += [box(x, y - 10, 11, 11, fill, stroke=fill, radius=2), text(x + 17, y, name, PALE)]
        x += 17 + 7.2 * len(name) + 22
    return parts


def svg(width: int, height: int, parts: Iterable[str]) -> str:
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}'>",
        "<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' "
        "markerHeight='7' orient='auto'>"
        f"<path d='M0 0 L8 4 L0 8 z' fill='{ACCENT}'/></marker></defs>",
        box(0, 0, width, height, PAPER, stroke=PAPER, radius=10),
    )
    return "\n".join([*head, *parts, "</svg>"]) + "\n"
