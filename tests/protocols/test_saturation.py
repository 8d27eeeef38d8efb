"""The scales by which masked evaluation finds the place of a secret, against integers."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.protocols.masked.saturation import EDGE_BITS, scales


@draws(400)
@given(st.data(), st.sampled_from([32, 64]))
def test_places(data, ring_bits):
    """Inside, left or right, whatever the mask is; only beyond the end may a step be inside."""
    middle = data.draw(st.integers(EDGE_BITS, ring_bits - 4))
    powers = st.sampled_from([(1 << bits) - 1 for bits in range(middle + 1, ring_bits - 1)])
    limit = data.draw(powers | st.integers((1 << middle) + 1, (1 << (ring_bits - 2)) - 1))
    places = scales(middle, limit, ring_bits)
    assume(places is not None)
    assert places.shifts[-1] + places.width <= ring_bits
    end, step = 1 << middle, 1 << (middle - EDGE_BITS)
    edges = [0, -1, end, end - 1, -end, -end - 1, end + step, limit, -limit, limit - 1]
    x = data.draw(st.sampled_from(edges) | st.integers(-limit, limit))
    assume(abs(x) <= limit)
    mask = data.draw(st.integers(0, (1 << ring_bits) - 1))
    found = _place(places, (x - mask) % (1 << ring_bits), mask)
    inside = -end <= x < end
    near = -end - step <= x < end + step
    assert found == 0 if inside else found == (1 if x > 0 else -1) or (near and found == 0)


def _place(places, m: int, mask: int) -> int:
    """0 if x = m + mask is near 0 at all scales, else its sign at the coarsest that differs."""
    size = 1 << places.width
    for i, shift in reversed(list(enumerate(places.shifts))):
        r = ((m >> shift) + (mask >> shift)) % size
        r = r if r < size // 2 else r - size
        middle = 1 if i else 1 << EDGE_BITS
        if not -middle - 1 <= r < middle:
            return 1 if r >= middle else -1
    return 0
