"""The suite `tiles` on a small batch: both ways send as much, and the row compares their times."""

from __future__ import annotations

from benchmarks import tiles
from benchmarks.tiles import Measured

import tacit
from tacit.transport import tiles as sent_in_tiles


def test_both_ways_are_measured(monkeypatch):
    made = []
    compute = sent_in_tiles.Tiled.compute_tile
    monkeypatch.setattr(tiles, "SIZE", 16)
    monkeypatch.setattr(
        sent_in_tiles.Tiled, "compute_tile", lambda tiled: (made.append(1), compute(tiled))[1]
    )
    monkeypatch.setitem(tiles.WAYS, "tiles", 1 << 16)
    monkeypatch.setattr(sent_in_tiles, "TILE_BYTES", 1)  # each way sets its own
    found = tacit.run(tiles.party, 4, 1, network={"latency": 0.0, "bandwidth": 1e15})
    for one in found:
        assert {*one.seconds} == {*one.waiting} == {"whole", "tiles"}
        assert one.sent["whole"] == one.sent["tiles"]
    assert [bool(one.sent["whole"]) for one in found] == [False, True, True]
    assert made


def test_a_row_tells_the_slowest_party():
    fast = Measured({"whole": 1.0, "tiles": 0.5}, {"whole": 0.5, "tiles": 0.0}, {"tiles": 0})
    slow = Measured({"whole": 2.0, "tiles": 1.5}, {"whole": 0.8, "tiles": 0.3}, {"tiles": 10**6})
    row = tiles.row("1 Gbit/s", [fast, slow], 0.8)
    assert row.ratio == 0.75
    assert row.met
    assert "0.300 s at most, else 0.800 s; it sends 1.0 MB" in row.note
