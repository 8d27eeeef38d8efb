"""Bar charts of benchmark records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from benchmarks.measure import digits
from docs.records import Record, newest
from docs.svg import INK, LINE, PALE, SERIES, box, legend, line, svg, text

from tacit.transport import PROFILES

WIDTH, LABELS = 870, 300  # of a chart, of the names at its left
FIGURES, COMPARISONS = 90, 210  # room at its right for figures, and for figures with a name
BAR, SPACE = 13, 11


class Scale(NamedTuple):
    """A logarithmic axis from 10^low to 10^high, with room at its right."""

    low: int
    high: int
    room: int

    @classmethod
    def around(cls, values: Sequence[float], room: int) -> Scale:
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return cls(low, max(high, low + 1), room)

    def x(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return LABELS + share * (WIDTH - LABELS - self.room)

    def grid(self, top: float, bottom: float) -> Iterator[str]:
        for power in range(self.low, self.high + 1):
            x = self.x(10.0**power)
            yield line(x, top, x, bottom)
            yield text(x, bottom + 16, f"{10.0**power:g}", PALE, 11, anchor="middle")


class Figure(NamedTuple):
    value: float
    remark: str = ""

    @property
    def digits(self) -> str:
        """Three digits at most: of others' figures there are often no more than two."""
        return f"{self.value:.3g}" if self.value < 1000 else f"{self.value:.0f}"


def grouped_bars(
    unit: str, series: Sequence[str], cases: Mapping[str, Sequence[Figure | None]]
) -> str:
    """A bar for each figure, those of a case together, on a logarithmic axis."""
    scale = Scale.around([f.value for row in cases.values() for f in row if f], FIGURES)
    parts, y = [], 48.0
    for name, figures in cases.items():
        found = [(i, f) for i, f in enumerate(figures) if f]
        middle = y + len(found) * BAR / 2 + 4
        parts.append(text(LABELS - 12, middle, shortened(name), size=12, anchor="end"))
        for i, figure in found:
            parts += bar(scale, 10.0**scale.low, figure.value, y, SERIES[i])
            label = f"{figure.digits} {figure.remark}".strip()
            parts.append(text(scale.x(figure.value) + 6, y + BAR - 3, label, PALE, 11))
            y += BAR
        y += SPACE
    head = legend(15, 26, zip(series, SERIES, strict=False))
    head.append(text(LABELS - 30, y + 16, f"{unit}, logarithmic", PALE, 11, anchor="end"))
    return svg(WIDTH, round(y + 24), [*head, *scale.grid(40, y), *parts])


def bar(scale: Scale, start: float, end: float, y: float, fill: str) -> list[str]:
    left, right = sorted((scale.x(start), scale.x(end)))
    return [box(left, y, max(right - left, 1), BAR - 2, fill, stroke="none", radius=2)]


SPEED = {"s", "ms", "us", "runs/s", "GB/s", "GMAC/s", "TMAC/s", "M/s", "pictures/s", "images/h"}
MOST = 30  # rows that a chart shows


def times_as_fast(record: Record) -> str | None:
    """Each row's speed by that of its baseline; None if a table says it better."""
    rows = [row for row in record.rows if row["unit"] in SPEED and row["ratio"] > 0]
    if not 1 < len(rows) <= MOST:
        return None
    factors = [1 / r["ratio"] if r["lower_is_better"] else r["ratio"] for r in rows]
    scale = Scale.around([1, *factors], COMPARISONS)
    parts, y = [], 48.0
    for row, factor in zip(rows, factors, strict=True):
        parts.append(text(LABELS - 12, y + BAR - 3, shortened(row["name"]), size=12, anchor="end"))
        parts += bar(scale, 1, factor, y, SERIES[0] if factor >= 1 else SERIES[4])
        right = max(scale.x(factor), scale.x(1)) + 6
        parts.append(text(right, y + BAR - 3, f"{digits(factor)} x {row['baseline']}", PALE, 11))
        y += BAR + 7
    one = line(scale.x(1), 40, scale.x(1), y, INK)
    head = text(15, 26, "times as fast as what a row is compared with, logarithmic", PALE, 12)
    return svg(WIDTH, round(y + 24), [head, *scale.grid(40, y), *parts, one])


def shortened(name: str, most: int = 44) -> str:
    return name if len(name) <= most else name[: most - 2].rstrip(" ,") + " …"


NETWORKS = ("LeNet, MNIST, batch 1", "VGG-16, CIFAR-10, batch 64", "ResNet-50, ImageNet, batch 1")
LINKS = ("10gbit", "1gbit", "wan")
SPENT = re.compile(r"([\d.]+) MB by the busiest party, (\d+) rounds")
KINDS = ("computing", "latency of rounds", "bytes")


def where_time_goes() -> str:
    """Computing, rounds and bytes of an inference on three networks, as parts of the whole."""
    rows = {row["name"]: row for row in newest()["cryptgpu"].rows}
    parts, y, room = (
        legend(15, 26, zip(KINDS, SERIES, strict=False)),
        44.0,
        WIDTH - LABELS - FIGURES,
    )
    for name in NETWORKS:
        found = SPENT.search(rows[name]["note"])
        assert found, name
        sent, rounds = float(found[1]) * 1e6, int(found[2])
        parts.append(text(15, y + 15, name, weight=600))
        parts.append(text(15, y + 35, f"{rounds} rounds, {found[1]} MB a party", PALE, 12))
        for link in LINKS:
            latency, bandwidth = PROFILES[link].latency, PROFILES[link].bandwidth
            times = (rows[name]["value"], rounds * latency, 8 * sent / bandwidth)
            parts.append(text(LABELS - 12, y + BAR, link, size=12, anchor="end"))
            x: float = LABELS
            for kind, seconds in enumerate(times):
                width = room * seconds / sum(times)
                parts.append(box(x, y, width, BAR + 3, SERIES[kind], stroke="none", radius=0))
                x += width
            parts.append(text(x + 8, y + BAR, f"{digits(sum(times))} s", PALE, 12))
            y += BAR + 9
        y += SPACE
    return svg(WIDTH, round(y), [*parts, line(LABELS, 38, LABELS, y - SPACE, LINE)])
