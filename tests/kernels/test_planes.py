import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, ring_tensors, rings, shapes
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import backend
from tacit.kernels.planes import (
    PACKABLE,
    bit_planes,
    from_bit_planes,
    pack_bits,
    parity,
    popcount,
    unpack_bits,
)
from tacit.ring import RING32, RING64
from tacit.ring.reference import bits as reference


@st.composite
def windows(draw):
    """A tensor and a window of its bits."""
    ring = draw(rings)
    low = draw(st.integers(0, ring.bits - 1))
    width = draw(st.integers(1, ring.bits - low))
    if draw(st.booleans()):
        low, width = 0, draw(st.sampled_from([1, 8, 9, 16, 17, 32, ring.bits]))
    return draw(ring_tensors(ring)), width, low


@draws(150)
@given(windows())
def test_equals_the_reference(case):
    x, width, low = case
    assert torch.equal(bit_planes(x, width, low), reference.bit_planes(x, width, low))


@draws(150)
@given(windows(), st.booleans())
def test_back_equals_the_window(case, signed):
    x, width, low = case
    planes = bit_planes(x, width, low)
    back = from_bit_planes(planes, x.shape, x.dtype, signed=signed)
    assert torch.equal(back, reference.from_bit_planes(planes, x.shape, x.dtype, signed=signed))
    bits = 8 * x.element_size()
    window = x.to(torch.int64) << (64 - bits) << (bits - width - low)
    window = (window >> (64 - width)) if signed else (window >> (64 - width)) & _ones(width)
    assert torch.equal(back, window.to(x.dtype))


def _ones(width: int) -> int:
    return -1 if width == 64 else (1 << width) - 1


def test_by_python_integers():
    x = ring_tensor(RING64, (200,), seed=1)
    planes = bit_planes(x, 64)
    for i, j in [(0, 0), (63, 199), (17, 64), (40, 127), (5, 128)]:
        assert planes[i, j // 64].item() >> (j % 64) & 1 == x[j].item() >> i & 1


def test_a_narrow_window_becomes_a_wider_ring():
    x = ring_tensor(RING32, (777,), seed=2)
    assert torch.equal(from_bit_planes(bit_planes(x, 32), (777,), torch.int64, signed=True), x)


def test_garbage_in_the_padding_is_ignored():
    planes = bit_planes(ring_tensor(RING64, (70,), seed=3), 64)
    dirty = planes.clone()
    dirty[:, -1] |= -1 << 6
    for width in (1, 20, 64):
        clean = from_bit_planes(planes[:width], (70,), torch.int64, signed=True)
        assert torch.equal(from_bit_planes(dirty[:width], (70,), torch.int64, signed=True), clean)


def test_planes_may_be_a_view():
    planes = bit_planes(ring_tensor(RING64, (1000,), seed=4), 64)
    view = planes.T.contiguous().T[3:40]
    assert torch.equal(
        from_bit_planes(view, (1000,), torch.int64),
        from_bit_planes(view.clone(memory_format=torch.contiguous_format), (1000,), torch.int64),
    )


@pytest.mark.parametrize("ring", [RING32, RING64], ids=["int32", "int64"])
def test_thread_counts_agree(ring):
    x = ring_tensor(ring, ((1 << 18) + 77,), seed=5)
    before = backend.num_threads()
    try:
        backend.set_num_threads(1)
        one = bit_planes(x, ring.bits)
        backend.set_num_threads(3)
        assert torch.equal(bit_planes(x, ring.bits), one)
        assert torch.equal(from_bit_planes(one, x.shape, x.dtype), x)
    finally:
        backend.set_num_threads(before)


@draws(60)
@given(shapes.flatmap(lambda s: ring_tensors(RING64, s)), st.sampled_from(PACKABLE))
def test_packed_bits(x, dtype):
    bits = (x & 1).to(dtype)
    words = pack_bits(bits)
    assert torch.equal(words, reference.pack_bits(bits))
    assert torch.equal(unpack_bits(words, x.shape, dtype), bits)
    assert unpack_bits(words, x.shape, dtype).dtype == dtype


def test_only_bit_0_is_packed():
    x = ring_tensor(RING64, (300,), seed=6)
    assert torch.equal(pack_bits(x), pack_bits(x & 1))


@draws(60)
@given(ring_tensors(RING64))
def test_counts_of_words(words):
    counts = torch.tensor([(w % 2**64).bit_count() for w in words.flatten().tolist()])
    counts = counts.to(torch.int64).view(words.shape)
    assert torch.equal(popcount(words), counts)
    assert torch.equal(parity(words), counts & 1)
    assert torch.equal(reference.popcount(words), counts)
    assert torch.equal(reference.parity(words), counts & 1)


def test_forced_reference(force_reference):
    x = ring_tensor(RING64, (100,), seed=7)
    fast = [bit_planes(x, 9, 3), pack_bits(x), popcount(x), parity(x)]
    force_reference()
    slow = [bit_planes(x, 9, 3), pack_bits(x), popcount(x), parity(x)]
    assert all(torch.equal(a, b) for a, b in zip(fast, slow, strict=True))
    assert torch.equal(from_bit_planes(bit_planes(x, 64), (100,), torch.int64), x)
    assert torch.equal(unpack_bits(slow[1], (100,), torch.int64), x & 1)


X64, X32 = torch.zeros(70, dtype=torch.int64), torch.zeros(70, dtype=torch.int32)
P64 = torch.zeros(64, 2, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: bit_planes(X64, 0), "width=0"),
        (lambda: bit_planes(X64, 65), "width=65"),
        (lambda: bit_planes(X32, 32, 1), "low=1"),
        (lambda: bit_planes(X32, 3, -1), "low=-1"),
        (lambda: bit_planes(X64.float(), 3), "dtype"),
        (lambda: from_bit_planes(P64, (70,), torch.int32), "planes"),
        (lambda: from_bit_planes(P64[0], (70,), torch.int64), "planes"),
        (lambda: from_bit_planes(P64[:0], (70,), torch.int64), "planes"),
        (lambda: from_bit_planes(P64, (129,), torch.int64), "needs 3"),
        (lambda: from_bit_planes(P64, (70,), torch.uint8), "dtype"),
        (lambda: from_bit_planes(P64.int(), (70,), torch.int64), "dtype"),
        (lambda: pack_bits(X64.double()), "dtype"),
        (lambda: unpack_bits(P64[0], (64,), torch.bool), "needs 1"),
        (lambda: unpack_bits(P64[0], (70,), torch.float32), "dtype"),
        (lambda: popcount(X32), "dtype"),
        (lambda: parity(X32), "dtype"),
    ],
)
def test_bad_arguments_are_named(call, field):
    with pytest.raises(ConfigError, match=field):
        call()
