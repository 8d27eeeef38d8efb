"""Shapes, layouts and values for kernel tests, chosen to be likely to break something."""

import torch
from hypothesis import strategies as st

from tacit.ring import RING32, RING64, Ring

rings = st.sampled_from([RING32, RING64])
seeds = st.integers(0, 2**32 - 1)


def edges(ring: Ring) -> list[int]:
    near_powers = [(1 << m) + d for m in range(0, ring.bits - 1, 3) for d in (-1, 0, 1)]
    values = [0, 1, -1, ring.low, ring.low + 1, ring.high, ring.high - 1, *near_powers]
    return values + [-v for v in near_powers]


def ring_tensor(ring: Ring, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Returns uniform values, with a third of the elements replaced by edge values."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.randint(ring.low, ring.high, shape, generator=generator, dtype=ring.dtype)
    special = torch.tensor(edges(ring), dtype=ring.dtype)
    chosen = special[torch.randint(len(special), shape, generator=generator)]
    return torch.where(torch.rand(shape, generator=generator) < 1 / 3, chosen, uniform)


shapes = st.one_of(
    st.just(()),
    st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
    st.sampled_from([63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 5000]).map(lambda n: (n,)),
)


@st.composite
def ring_tensors(draw, ring: Ring, shape: tuple[int, ...] | None = None) -> torch.Tensor:
    """Draws a tensor of any memory layout."""
    shape = draw(shapes) if shape is None else shape
    seed, layout = draw(seeds), draw(st.sampled_from(["contiguous", "transposed", "strided"]))
    if layout == "transposed":
        return ring_tensor(ring, shape[::-1], seed).permute(tuple(reversed(range(len(shape)))))
    if layout == "strided" and shape:
        return ring_tensor(ring, (*shape[:-1], 2 * shape[-1]), seed)[..., ::2]
    return ring_tensor(ring, shape, seed)
