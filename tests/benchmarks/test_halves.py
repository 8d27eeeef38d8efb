"""The suite `halves` on few elements: both ways are measured, and give the same."""

from __future__ import annotations

from benchmarks.halves import Measured, party, row
from torch import nn

import tacit


def test_both_ways_are_measured():
    """In processes: each party sets the way for itself."""
    dealer, first, second = tacit.run(party, nn.ReLU, (60_000,), transport="processes")
    assert [*first.seconds] == [*first.ahead] == ["whole", "halves"]
    assert {*dealer.ahead.values()} == {0}
    assert first.ahead["whole"] == 0 < first.ahead["halves"] <= second.ahead["halves"]
    assert second.ahead["halves"] < second.ahead["whole"]
    assert max(one.error for one in (dealer, first, second)) < 1e-3


def test_a_row_tells_the_slowest_party():
    fast = Measured({"whole": 1.0, "halves": 0.5}, {"whole": 0, "halves": 10**6}, 0.0)
    slow = Measured({"whole": 2.0, "halves": 1.5}, {"whole": 2 * 10**6, "halves": 10**6}, 0.0)
    made = row("LeNet", "1 Gbit/s", [fast, slow], 0.8)
    assert made.ratio == 0.75
    assert made.met
    assert "receives 1.0 MB from the dealer at most, else 2.0 MB" in made.note
