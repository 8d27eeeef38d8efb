"""The GPU's streams, planes, gates and injection, bit for bit the reference.

Without a GPU they run in Triton's interpreter, which takes its time: few examples, small sizes.
"""

import struct

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.conftest import forget
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.tiers import FULL, draws

from tacit import kernels
from tacit.kernels import backend
from tacit.kernels.planes import PACKABLE
from tacit.ring import RING32, RING64
from tacit.ring import num_words as words_for
from tacit.ring.reference import bits as bits_reference
from tacit.ring.reference import gates as gates_reference
from tacit.ring.reference import injection as injection_reference
from tacit.ring.reference import signs as signs_reference
from tacit.ring.reference import stream as stream_reference

gpu = pytest.importorskip("tacit.kernels.gpu")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HERE = torch.cuda.is_available()
FEW = draws(60) if HERE else settings(deadline=None, max_examples=4 if FULL else 3)
SOME = draws(100) if HERE else settings(deadline=None, max_examples=8 if FULL else 4)

counts = st.sampled_from([0, 1, 63, 64, 65, 130])
words = st.sampled_from([0, 1, 5, 129])
digit_lists = st.one_of(
    st.sampled_from([(4, 4, 3), (3, 3, 1), (5,), (7, 1)]),
    st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple),
)
size_lists = st.one_of(
    st.sampled_from([(4, 4, 2), (3, 3, 2), (5,), (2, 6), (9,), (7, 7, 2), (2, 8)]),
    st.lists(st.integers(2, 4), min_size=1, max_size=4).map(tuple),
)


def there(x):
    """A copy on the device; tuples one by one."""
    return x.to(DEVICE, copy=True) if isinstance(x, torch.Tensor) else tuple(map(there, x))


def same(found, expected) -> bool:
    if isinstance(found, torch.Tensor):
        found, expected = [found], [expected]
    return all(torch.equal(a.cpu(), b) for a, b in zip(found, expected, strict=True))


def planes(num_words: int, seed: int, *rows: int) -> list[torch.Tensor]:
    return [ring_tensor(RING64, (n, num_words), seed + i) for i, n in enumerate(rows)]


# Streams ----------------------------------------------------------------------------------------


def chacha(key: bytes, count: int, dtype: torch.dtype, operation: int, offset: int) -> torch.Tensor:
    out = torch.zeros(count, dtype=dtype, device=DEVICE)
    return gpu.chacha20(kernels.stream_key(key, DEVICE).words, out, operation, offset).cpu()


@FEW
@given(
    st.binary(min_size=32, max_size=32),
    rings,
    st.sampled_from([0, 1, 16, 33, 130]),
    st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 2**32, 2**63, 2**64 - 1])),
    st.one_of(
        st.sampled_from([0, 64, 4, 60, 100, 64 * (2**32 - 1), 64 * (2**63 - 2), 64 * (2**64 - 40)]),
        st.integers(0, 2**40).map(lambda n: 4 * n),
    ),
)
def test_the_stream_equals_the_reference(key, ring, count, operation, offset):
    expected = torch.zeros(count, dtype=ring.dtype)
    stream_reference.stream(key, expected, operation=operation, offset=offset, cipher="chacha20")
    assert torch.equal(chacha(key, count, ring.dtype, operation, offset), expected)


@FEW
@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.sampled_from([0, 5, 2**32 - 7, 2**63 - 9, 2**64 - 301])),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([0, 3, 2**64 - 1]),
)
def test_several_streams_equal_the_reference(parts, operation):
    keys, sizes = [bytes([i] * 32) for i in range(len(parts))], [64 * size for size, _ in parts]
    out = torch.zeros(sum(sizes) // 8, dtype=torch.int64)
    pieces = out.split([size // 8 for size in sizes])
    for key, piece, (_, first) in zip(keys, pieces, parts, strict=True):
        where = {"operation": operation, "offset": 64 * first, "cipher": "chacha20"}
        stream_reference.stream(key, piece, **where)
    words = [kernels.stream_key(key, DEVICE).words for key in keys]
    counts, firsts = zip(*parts, strict=True)
    assert same(
        gpu.chacha20_many(words, there(torch.zeros_like(out)), counts, operation, firsts), out
    )


@FEW
@given(
    rings,
    st.sampled_from(["add", "sub", "xor"]),
    st.sampled_from([0, 1, 16, 33, 130]),
    st.sampled_from([0, 3, 2**32, 2**64 - 1]),
    st.sampled_from([0, 8, 7 * 8, 64, 2**41, 64 * (2**64 - 40)]),
    seeds,
)
def test_a_mask_equals_the_reference(ring, how, count, operation, offset, seed):
    key, values = bytes(range(32)), ring_tensor(ring, (count,), seed)
    words = torch.zeros_like(values)
    stream_reference.stream(key, words, operation=operation, offset=offset, cipher="chacha20")
    ready, found = kernels.stream_key(key, DEVICE).words, there(values)
    gpu.chacha20_mask(ready, found, how, operation, offset)
    assert same(found, {"add": values + words, "sub": values - words, "xor": values ^ words}[how])


@FEW
@given(
    rings,
    st.sampled_from([0, 1, 3, 1025, 4096, 9001]),
    st.sampled_from([0, 3, 2**64 - 1]),
    st.sampled_from([0, 64, 64 * 2**35]),
    seeds,
)
def test_a_checksum_equals_that_of_integers(ring, count, operation, offset, seed):
    check_checksum(ring_tensor(ring, (count,), seed), operation, offset)


def test_a_checksum_of_the_largest_words():
    check_checksum(torch.full((20_000,), -1), 1, 128, torch.full((8192,), -1))


def check_checksum(values, operation, offset, table=None):
    key, before, words = bytes(range(32)), torch.tensor([5, 1 << 40]), values.view(torch.int32)
    table = ring_tensor(RING64, (8192,), 7) if table is None else table
    expected = kernels.checksum(before)
    for part, some in enumerate(words.split(8192)):
        factor = torch.zeros(1, dtype=torch.int64)
        where = {"operation": operation, "offset": offset + 64 * part, "cipher": "chacha20"}
        stream_reference.stream(key, factor, **where)
        terms = zip(table.tolist(), some.tolist(), strict=False)
        expected += factor.item() % 2**61 * sum(t % 2**61 * (x % 2**32) for t, x in terms)
    ready, there_total = kernels.stream_key(key, DEVICE).words, there(before.clone())
    found = gpu.chacha20_checksum(
        there(table), ready, there(values), there_total, operation, offset
    )
    assert kernels.checksum(found) == expected % (2**61 - 1)


def test_the_stream_has_the_published_block():
    """RFC 8439, 2.3.2: its 96-bit nonce is the high half of our counter and our operation."""
    nonce = bytes.fromhex("000000090000004a00000000")
    high, operation = struct.unpack("<IQ", nonce)
    found = chacha(bytes(range(32)), 16, torch.int32, operation, 64 * (1 + (high << 32)))
    assert found.numpy().tobytes()[:16] == bytes.fromhex("10f1e7e4d13b5915500fdd1fa32071c4")


@pytest.mark.full("test_the_stream_equals_the_reference")
def test_many_blocks_are_those_of_another_implementation():
    key, operation, count = bytes(range(7, 39)), 0x0123456789ABCDEF, 16 * 300 + 5
    cipher = Cipher(algorithms.ChaCha20(key, struct.pack("<QQ", 3, operation)), None)
    expected = cipher.encryptor().update(bytes(4 * count))
    found = chacha(key, count, torch.int32, operation, 3 * 64)
    assert found.numpy().tobytes() == expected


# Planes -----------------------------------------------------------------------------------------


@SOME
@given(rings, counts, seeds, st.data())
def test_planes_equal_the_reference(ring, count, seed, data):
    low = data.draw(st.integers(0, ring.bits - 1))
    width = data.draw(st.integers(1, ring.bits - low))
    x = ring_tensor(ring, (count,), seed)
    expected = bits_reference.bit_planes(x, width, low)
    assert same(gpu.bit_planes(there(x), width, low), expected)
    noise = ring_tensor(RING64, expected.shape, seed)  # bits beyond the last element
    for signed in (False, True):
        found = gpu.from_bit_planes(there(noise), (count,), ring.dtype, signed=signed)
        wanted = bits_reference.from_bit_planes(noise, (count,), ring.dtype, signed=signed)
        assert same(found, wanted)


@SOME
@given(st.sampled_from(PACKABLE), counts, seeds)
def test_packing_equals_the_reference(dtype, count, seed):
    x = ring_tensor(RING64, (count,), seed)
    bits = (x & 1).bool() if dtype == torch.bool else x.to(dtype)
    packed = bits_reference.pack_bits(bits)
    assert same(gpu.pack_bits(there(bits)), packed)
    found = gpu.unpack_bits(there(packed), (count,), dtype)
    assert found.dtype == dtype
    assert same(found, bits_reference.unpack_bits(packed, (count,), dtype))
    assert same(gpu.popcount(there(x)), bits_reference.popcount(x))
    assert same(gpu.parity(there(x)), bits_reference.parity(x))


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_planes_of_many_programs(ring):
    x = ring_tensor(ring, (3, 1001), 1)
    found = gpu.bit_planes(there(x.T), ring.bits, 0)
    assert same(found, bits_reference.bit_planes(x.T, ring.bits))
    assert same(gpu.from_bit_planes(found, x.T.shape, ring.dtype), x.T)


# Gates ------------------------------------------------------------------------------------------


def equal_also_in_place(fast, slow, arguments, key, **keywords) -> bool:
    """Whether the results are the same, in new memory and in that of the pad or mask."""
    expected = slow(*arguments, key, **keywords)
    moved = [there(x) if isinstance(x, torch.Tensor) else x for x in arguments]
    fresh, reused = torch.empty_like(key, device=DEVICE), there(key)
    found = fast(*moved, there(key), fresh, **keywords), fast(*moved, reused, reused, **keywords)
    assert found[0] is fresh
    assert found[1] is reused
    return same(found, (expected, expected))


@FEW
@given(digit_lists, words, seeds, st.booleans())
def test_leaves_equal_the_reference(digits, num_words, seed, first):
    n, rows = len(digits), gates_reference.num_table_rows(digits)
    u, tables, pairs, singles = planes(num_words, seed, sum(digits), rows, 2 * n - 1, n)
    ref = gates_reference
    assert equal_also_in_place(gpu.leaf_tables, ref.leaf_tables, (u, digits), tables)
    given = u, tables, digits
    assert equal_also_in_place(gpu.leaf_carries, ref.leaf_carries, given, pairs, first=first)
    assert equal_also_in_place(gpu.leaf_matches, ref.leaf_matches, given, singles, first=first)


@FEW
@given(rings, digit_lists, counts, seeds, st.booleans(), st.data())
def test_signs_equal_the_reference(ring, digits, count, seed, flag, data):
    low = data.draw(st.integers(0, ring.bits - 1 - sum(digits)))
    ref, rows = signs_reference, gates_reference.num_table_rows(digits) + 1
    x, num_words = ring_tensor(ring, (count,), seed), words_for(count)
    pad, mask = planes(num_words, seed + 1, rows, 2 * len(digits) - 1)
    expected = ref.sign_tables(x, digits, pad, shift=low, negate=flag)
    v = gpu.quotient_planes(there(x), sum(digits) + 1, low)
    assert same(gpu.sign_tables(v, digits, there(pad), negate=flag), expected)
    expected = ref.sign_leaves(x, pad, digits, mask, low=low, first=flag)
    u = gpu.bit_planes(there(x), sum(digits) + 1, low)
    assert same(gpu.sign_leaves(u, there(pad), digits, there(mask), first=flag), expected)


def with_a_group_more(state: torch.Tensor) -> torch.Tensor:
    """Rows (G..., P...) with a most significant group, of zeros, that no node takes."""
    groups = (len(state) + 1) // 2
    nothing = torch.zeros_like(state[:1])
    return torch.cat([state[:groups], nothing, state[groups:], nothing])


@FEW
@given(size_lists, words, seeds, st.booleans())
def test_nodes_equal_the_reference(sizes, num_words, seed, first):
    ref = gates_reference
    state, rows = 2 * sum(sizes) - 1, ref.num_products(sizes)
    hats, own, dealt, mask = planes(num_words, seed, state, state, rows, 2 * len(sizes) - 1)
    assert equal_also_in_place(gpu.node_products, ref.node_products, (hats, sizes), dealt)
    given = hats, own, dealt, sizes
    assert equal_also_in_place(gpu.node_carries, ref.node_carries, given, mask, first=first)
    expected = ref.node_carries(*given, mask, first=first)
    more = [there(with_a_group_more(x)) for x in (hats ^ own, own, own)]
    out = torch.empty_like(mask, device=DEVICE)
    received, moved = more.pop(), (*more, there(dealt), sizes, there(mask), out)
    assert same(gpu.node_carries(*moved, first=first, received=received), expected)
    expected, pad = ref.node_products(hats, sizes, dealt), there(dealt)
    assert same(gpu.node_products(there(with_a_group_more(hats)), sizes, pad, pad), expected)


@FEW
@given(size_lists, words, seeds, st.booleans())
def test_ands_equal_the_reference(sizes, num_words, seed, first):
    ref = gates_reference
    inputs, rows = sum(sizes), ref.num_and_products(sizes)
    hats, own, dealt, mask = planes(num_words, seed, inputs, inputs, rows, len(sizes))
    assert equal_also_in_place(gpu.and_products, ref.and_products, (hats, sizes), dealt)
    given = hats, own, dealt, sizes
    assert equal_also_in_place(gpu.and_gates, ref.and_gates, given, mask, first=first)


# Injection --------------------------------------------------------------------------------------


def alike(name: str, *arguments, **keywords) -> bool:
    """Whether the GPU's function gives what the reference does, out of copies."""
    slow = [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]
    fast = [there(x) if isinstance(x, torch.Tensor) else x for x in arguments]
    more = dict(keywords)
    if "out" in keywords:
        keywords["out"], more["out"] = keywords["out"].clone(), there(keywords["out"])
    expected = getattr(injection_reference, name)(*slow, **keywords)
    return same(getattr(gpu, name)(*fast, **more), expected)


@SOME
@given(rings, counts, seeds, st.booleans())
def test_injection_equals_the_reference(ring, count, seed, first):
    bits = ring_tensor(RING64, (words_for(count),), seed)
    a, b, c, d, out = (ring_tensor(ring, (count,), seed + i) for i in range(5))
    assert alike("inject_share", bits, a, b, c, d, first=first, out=out)
    expected = injection_reference.inject_share(bits, a, b, c, d, first=first, out=-out)
    moved = [there(x) for x in (bits, a, b, c, d)]
    assert same(gpu.inject_share(*moved, first=first, out=None, minus=there(out)), expected)
    assert alike("flip_share", bits, a, first=first, out=out)
    assert alike("deal_flip", bits, a)
    assert alike("deal_injection", bits, a, b, c)


@SOME
@given(rings, counts, seeds, st.booleans(), st.data())
def test_truncation_equals_the_reference(ring, count, seed, first, data):
    t = data.draw(st.one_of(st.integers(1, ring.bits - 2), st.sampled_from([1, ring.bits - 2])))
    bits = ring_tensor(RING64, (words_for(count),), seed)
    *six, out = (ring_tensor(ring, (count,), seed + i) for i in range(7))
    assert alike("exact_share", *six[:3], t, first=first, out=out)
    assert alike("inject_exact_share", bits, *six, t, first=first, out=out)
    expected = injection_reference.inject_exact_share(bits, *six, t, first=first, out=-out)
    tops = [bits_reference.bit_planes(top, t + 1) for top in six[4:]]
    moved = [there(x) for x in (bits, *six[:4], *tops)]
    keywords = {"first": first, "packed": True, "out": None, "minus": there(out)}
    assert same(gpu.inject_exact_share(*moved, t, **keywords), expected)
    expected = injection_reference.exact_share(*six[:3], t, first=first, out=-out)
    moved = [there(x) for x in six[:3]]
    assert same(gpu.exact_share(*moved, t, first=first, out=None, minus=there(out)), expected)
    expected = injection_reference.correct_inject_exact(bits, out, t, [x.clone() for x in six[:5]])
    found = gpu.correct_inject_exact(there(bits), there(out), t, [there(x) for x in six[:5]])
    assert same(found, expected)
    assert alike("deal_exact", six[0], t)
    assert alike("deal_inject_exact", bits, six[0], t)


# How they are chosen ----------------------------------------------------------------------------


@pytest.fixture
def forced(monkeypatch):
    monkeypatch.setenv(backend.VARIABLE, "triton")
    forget()
    yield
    monkeypatch.undo()
    forget()


def calls() -> list[torch.Tensor]:
    """A result of each module's functions."""
    x, y, out = (ring_tensor(RING64, (70,), i).to(DEVICE) for i in range(3))
    p, tables, mask = (x.to(DEVICE) for x in planes(2, 5, 6, 14, 3))
    return [
        kernels.bit_planes(x, 9, 3),
        kernels.from_bit_planes(p, (70,), torch.int64),
        kernels.unpack_bits(kernels.pack_bits(x), (70,), torch.bool),
        kernels.parity(x),
        kernels.leaf_tables(p, (3, 3), tables),
        kernels.leaf_carries(p, tables, (3, 3), mask, first=True),
        kernels.and_gates(p[:4], p[2:], tables[:2], (2, 2), p[:2], first=True),
        kernels.flip_share(p[0], x, first=True, out=out.clone()),
        *kernels.deal_exact(x, 7),
        kernels.mul_add(x, y, out),
    ]


def test_the_functions_of_kernels_reach_them(forced, monkeypatch):
    found = calls()
    monkeypatch.setenv(backend.VARIABLE, "reference")
    forget()
    assert all(torch.equal(a, b) for a, b in zip(found, calls(), strict=True))


@pytest.mark.full("test_the_stream_equals_the_reference")
@pytest.mark.parametrize("offset", [0, 64, 12])
def test_a_stream_key_is_a_key(forced, offset):
    key = bytes(range(32))
    ready, out = kernels.stream_key(key, DEVICE), torch.zeros(37, dtype=torch.int64)
    stream_reference.stream(key, out, operation=5, offset=offset, cipher="chacha20")
    for given_key in (key, ready):
        found = torch.zeros(37, dtype=torch.int64, device=DEVICE)
        kernels.stream(given_key, found, operation=5, offset=offset, cipher="chacha20")
        assert torch.equal(found.cpu(), out)
    assert repr(ready) == "StreamKey()"
