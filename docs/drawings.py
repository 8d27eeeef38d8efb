"""The drawings of ARCHITECTURE.md: its table of layers, and the journey of one private layer.

`python -m docs.generate` writes both to docs/drawings/. The layers come from the table on that
page; the journey names files, and a test checks that they exist.
"""

from __future__ import annotations

from pathlib import Path

from docs.svg import ACCENT, BANDS, INK, MONO, PALE, arrow, box, svg, text

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "drawings"

# The journey of relu(linear(x)) at one party: layer, file under src/tacit, what happens there.
JOURNEY: tuple[tuple[str, str, str], ...] = (
    ("tensor", "tensor/secret.py", "torch calls an operator on a SecretTensor"),
    ("tensor", "tensor/dispatch.py", "one look-up in the table of rules: (overload, kind)"),
    ("tensor", "tensor/ops/linalg/matmul.py", "the rule of aten.addmm, in real numbers"),
    ("fixedpoint", "fixedpoint/arithmetic.py", "scales and limits; the division stays pending"),
    ("protocols", "protocols/steps.py", "drives the rounds that an operation yields"),
    ("protocols", "protocols/masked/arithmetic.py", "each party's share of the product (M3)"),
    ("protocols", "protocols/products/executor.py", "chunks, kept weights, one kernel call"),
    ("kernels", "kernels/matmul.py", "exact mod 2^64: residues, byte products, CRT"),
    ("transport", "transport/mesh.py", "one round: one packed message to each receiver"),
    (
        "protocols",
        "protocols/masked/injection.py",
        "sign of the pending product, injection",
    ),
    (
        "protocols",
        "protocols/masked/compare.py",
        "leaf tables, carry nodes on planes (M6-M9)",
    ),
    ("kernels", "kernels/gates.py", "the gates without messages, 64 elements a word"),
    ("transport", "transport/wire/socket_channel.py", "frames over TLS, heartbeats, deadlines"),
)
TALKS = {"transport/mesh.py", "transport/wire/socket_channel.py"}


def layer_rows() -> list[list[str]]:
    """The rows of the table of layers in ARCHITECTURE.md, from layer 0 up."""
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:2] == "| "]
    return [row for row in cells if row[0].isdigit()]


def layers_svg() -> str:
    """One band for each layer, the highest on top; an import may only point down."""
    rows = layer_rows()[::-1]
    height, width = 46, 860
    parts = []
    for i, (number, packages, knows, *_) in enumerate(rows):
        top = 14 + i * (height + 6)
        parts += [
            box(40, top, width - 54, height, BANDS[i % 2]),
            text(58, top + 28, number, PALE, 13),
            text(84, top + 28, packages.replace("`", ""), INK, 14, MONO, weight=600),
            text(380, top + 28, shortened(knows), PALE, 12),
        ]
    bottom = 14 + len(rows) * (height + 6)
    parts.append(arrow(22, 20, 22, bottom - 8))
    return svg(width, bottom + 28, [*parts, text(40, bottom + 14, "imports point down", PALE, 12)])


def journey_svg() -> str:
    """relu(linear(x)) from the call at the top to the message at the bottom."""
    step, width = 44, 900
    parts = [text(40, 30, "relu(linear(x)) at one party", INK, 15, weight=600)]
    for i, (layer, file, what) in enumerate(JOURNEY):
        top = 46 + i * step
        parts += [
            box(40, top, 690, step - 12, BANDS[i % 2]),
            text(54, top + 21, layer, PALE, 12),
            text(136, top + 21, file, INK, 12, MONO, weight=600),
            text(392, top + 21, what, INK, 12),
        ]
        if i:
            parts.append(arrow(60, top - 12, 60, top))
        if file in TALKS:
            y = top + (step - 12) // 2
            parts += [arrow(732, y, 782, y), text(790, y + 4, "other parties", ACCENT, 12)]
    return svg(width, 46 + len(JOURNEY) * step + 6, parts)


def shortened(sentence: str, most: int = 70) -> str:
    """The first clauses of a sentence that fit."""
    if len(sentence) <= most:
        return sentence
    return sentence[:most].rsplit(" ", 1)[0].rstrip(",;:") + " …"
