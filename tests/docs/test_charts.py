"""Charts show the figures that they are given."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from docs import charts
from docs.charts import Figure, grouped_bars, times_as_fast, where_time_goes
from docs.generate import drawings
from docs.records import Record
from docs.svg import SERIES

SPACE = "{http://www.w3.org/2000/svg}"


def bars(svg: str) -> list[tuple[float, float, str]]:
    """Left, width and colour of every bar, from the top."""
    boxes = ElementTree.fromstring(svg).iter(f"{SPACE}rect")
    found = [box for box in boxes if box.get("stroke") == "none"]
    return [(float(b.get("x", 0)), float(b.get("width", 0)), b.get("fill", "")) for b in found]


def words(svg: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(svg).iter(f"{SPACE}text")]


def row(name: str, ratio: float, lower: bool, unit: str = "s") -> dict[str, object]:
    return {
        "name": name,
        "ratio": ratio,
        "lower_is_better": lower,
        "unit": unit,
        "baseline": "other",
    }


def test_a_bar_is_as_long_as_its_figure():
    svg = grouped_bars(
        "seconds", ["ours", "theirs"], {"a": [Figure(1.0), Figure(10.0)], "b": [None, Figure(100)]}
    )
    (_, none, first), (_, one, second), (_, two, last) = bars(svg)
    assert none == 1  # the axis begins at 1: a line remains
    assert two == pytest.approx(2 * one, rel=1e-4)  # each power of ten has the same length
    assert (first, second, last) == (SERIES[0], SERIES[1], SERIES[1])
    assert {"ours", "theirs", "a", "b", "10", "100"} <= set(words(svg))


def test_faster_than_the_baseline_is_right_of_one():
    rows = [row("slower", 10, True), row("faster", 10, False), row("other unit", 3, True, "GB")]
    svg = times_as_fast(Record("file", {}, rows))
    assert svg is not None
    (left, width, _), (right, same, _) = bars(svg)
    assert left + width == pytest.approx(right, abs=0.01)
    assert width == pytest.approx(same, rel=1e-4)
    assert "other unit" not in words(svg)


def test_a_single_figure_has_no_chart():
    assert times_as_fast(Record("file", {}, [row("alone", 2, False)])) is None


def test_the_parts_of_the_time_fill_the_whole(monkeypatch):
    note = "0.0 s; 125 MB by the busiest party, 1000 rounds, 1 GB"  # 1 s and 1 s on 1gbit
    made = Record("file", {}, [{"name": "net", "value": 2.0, "note": note}])
    monkeypatch.setattr(charts, "newest", lambda: {"cryptgpu": made})
    monkeypatch.setattr(charts, "NETWORKS", ("net",))
    monkeypatch.setattr(charts, "LINKS", ("1gbit",))
    svg = where_time_goes()
    computing, latency, sending = (width for _, width, _ in bars(svg))
    assert computing == pytest.approx(2 * latency, rel=1e-3)
    assert latency == pytest.approx(sending, rel=1e-3)
    assert "4.00 s" in words(svg)


def test_every_drawing_is_xml():
    for name, svg in drawings().items():
        assert ElementTree.fromstring(svg).tag == f"{SPACE}svg", name
