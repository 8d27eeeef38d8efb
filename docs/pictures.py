"""Two pictures of what parties see: who holds which parts, and how a message is masked."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from docs.svg import BANDS, INK, LINE, MONO, PALE, PAPER, SERIES, arrow, box, svg, text


class Holdings(NamedTuple):
    """Name of each party, what it has in plain and what it learns; letter and name of secrets."""

    parties: tuple[tuple[str, str, str], ...]
    secrets: tuple[tuple[str, str], ...]


HELPER = ("party 2, a helper", "nothing", "nothing")
INFERENCE = Holdings(
    (
        ("party 0, a company", "its model w", "nothing"),
        ("party 1, a hospital", "its patients x", "the answer: reveal(y, to=1)"),
        HELPER,
    ),
    (("w", "the weights"), ("x", "the patients"), ("y", "y = model(x)")),
)
TRAINING = Holdings(
    (
        ("party 0, a hospital", "its patients x", "nothing"),
        ("party 1, a laboratory", "the answers y", "the model: reveal(model, to=1)"),
        HELPER,
    ),
    (("x", "the patients"), ("y", "the answers"), ("w", "the weights")),
)
HOSPITALS = Holdings(
    (
        ("party 0, a clinic", "its patients x", "the loss"),
        ("party 1, a hospital", "its patients z", "the loss"),
        (*HELPER[:2], "the loss"),
    ),
    (("x", "the clinic's patients"), ("z", "the hospital's"), ("w", "the weights")),
)


def holdings_svg(holdings: Holdings) -> str:
    """Three parties side by side: each lacks one part of every secret."""
    parts, width, gap = [], 270, 15
    for rank, (name, own, learns) in enumerate(holdings.parties):
        left = gap + rank * (width + gap)
        parts += [
            box(left, 15, width, 310),
            text(left + 16, 42, name, size=15, weight=600),
            text(left + 16, 72, "has in plain", PALE, 12),
            text(left + 110, 72, own, weight=600),
        ]
        for row, (letter, meaning) in enumerate(holdings.secrets):
            top = 92 + row * 58
            parts.append(text(left + 16, top + 12, f"holds of {meaning}", PALE, 12))
            for part in range(3):
                lacks = part == rank
                fill = "none" if lacks else SERIES[row]
                ink = PALE if lacks else PAPER
                words = "lacks" if lacks else f"{letter}{part}"
                x = left + 16 + part * 80
                stroke = LINE if lacks else fill
                parts += [
                    box(x, top + 20, 72, 24, fill, stroke=stroke, dashed=lacks),
                    text(x + 36, top + 37, words, ink, 12, MONO, weight=600, anchor="middle"),
                ]
        parts += [
            text(left + 16, 292, "learns", PALE, 12),
            text(left + 16, 312, learns, weight=600),
        ]
    foot = (
        "x0 + x1 + x2 modulo 2^64 is x. What a party holds of another's secret is random to it; "
        "two parties together hold all of it."
    )
    return svg(870, 366, [*parts, text(gap, 350, foot, PALE, 12)])


def masking_svg() -> str:
    """alice shares 0.75: what bob and carol get to see of it."""
    value = int(0.75 * 2**16)
    mask = int.from_bytes(hashlib.sha256(b"a mask to look at").digest()[:8], "big")
    sent = (value - mask) % 2**64
    parts = [
        box(15, 15, 400, 236),
        text(31, 42, "alice shares 0.75", size=15, weight=600),
        *number(31, 70, "0.75 · 2^16, an integer modulo 2^64", value),
        *number(31, 130, "less a mask, from the key that alice has with bob", mask),
        *number(31, 190, "is what alice sends to carol", sent),
        box(515, 15, 340, 96),
        text(531, 42, "bob draws the same mask", size=15, weight=600),
        *number(531, 62, "without a message, and keeps it", mask),
        box(515, 131, 340, 120),
        text(531, 158, "carol receives", size=15, weight=600),
        *number(531, 178, "Without the key every number is equally likely.", sent),
        text(455, 52, "one key", PALE, 12, anchor="middle"),
        f"<line x1='415' y1='62' x2='515' y2='62' stroke='{LINE}' stroke-dasharray='4 3'/>",
        arrow(415, 211, 513, 211),
        text(464, 202, "over TLS", PALE, 12, anchor="middle"),
    ]
    foot = (
        "mask + what carol holds = 0.75 · 2^16 modulo 2^64. A mask is drawn anew for each message."
    )
    return svg(870, 292, [*parts, text(15, 276, foot, PALE, 12)])


def number(x: float, y: float, caption: str, value: int) -> list[str]:
    """A caption and, below it, an integer of 64 bits in groups of four hexadecimal digits."""
    digits = f"{value:016x}"
    groups = " ".join(digits[i : i + 4] for i in range(0, 16, 4))
    return [
        text(x, y, caption, PALE, 12),
        box(x, y + 8, 190, 26, BANDS[1]),
        text(x + 95, y + 26, groups, INK, 13, MONO, weight=600, anchor="middle"),
    ]
