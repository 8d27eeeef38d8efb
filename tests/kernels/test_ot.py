"""Extended transfers and products of them: against integers, OpenSSL and the reference."""

from __future__ import annotations

import secrets
from math import prod
from struct import pack, unpack

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import (
    backend,
    ot_bits,
    ot_multiply_receive,
    ot_multiply_send,
    ot_receive_rows,
    ot_send_rows,
    pack_bits,
    unpack_bits,
)
from tacit.kernels.ot import DEPTHS, NO_OFFSET
from tacit.ring import RING32, RING64, OtProduct
from tacit.ring.reference import ot as reference

WORD64 = (1 << 64) - 1
depths = st.sampled_from(DEPTHS)
# Around the 16 words of a chunk.
word_counts = st.one_of(st.integers(1, 4), st.sampled_from([15, 16, 17, 33, 50]))


def words(*shape: int) -> torch.Tensor:
    data = bytearray(secrets.token_bytes(8 * prod(shape)))
    return torch.frombuffer(data, dtype=torch.int64).view(shape)


def setup(depth: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The seeds of the side that chooses, those of the other, and its offset."""
    trees = 128 // depth
    chooser = words(trees, 1 << depth, 2)
    points = [secrets.randbelow(1 << depth) for _ in range(trees)]
    order = [[x ^ point for x in range(1 << depth)] for point in points]
    sender = torch.stack([tree[places] for tree, places in zip(chooser, order, strict=True)])
    sender[:, 0] = -1  # what it does not know must not matter
    offset = sum(point << (depth * t) for t, point in enumerate(points))
    return chooser, sender, torch.tensor(signed(offset & WORD64, offset >> 64))


def signed(*values: int) -> list[int]:
    return [RING64.wrap(value) for value in values]


def transfer(choices: torch.Tensor, depth: int = 4, operation: int = 1):
    """The rows of both sides, the offset, and the message."""
    chooser, sender, offset = setup(depth)
    message, chosen = ot_receive_rows(chooser, choices, operation=operation)
    return ot_send_rows(sender, offset, message, operation=operation), chosen, offset, message


def integer(row: torch.Tensor) -> int:
    low, high = row.tolist()
    return low & WORD64 | (high & WORD64) << 64


def hashed(key: bytes, row: int, number: int, block: int = 0) -> int:
    """H by integers: AES(y) ^ y, y = s(x) ^ (number, block)."""
    low, high = row & WORD64, row >> 64
    y = high ^ number | (low ^ high ^ block) << 64
    data = y.to_bytes(16, "little")
    made = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)
    return int.from_bytes(made, "little") ^ y


def key_tensor(key: bytes) -> torch.Tensor:
    return torch.tensor(unpack("<qq", key))


@draws(40)
@given(depths, word_counts, st.sampled_from([0, 7, 2**64 - 1]))
def test_rows_differ_by_the_offset_where_chosen(depth, count, operation):
    choices = words(count)
    sent, chosen, offset, message = transfer(choices, depth, operation)
    bits = unpack_bits(choices, (64 * count,), torch.int64)
    assert torch.equal(sent ^ bits[:, None] * offset, chosen)
    assert message.shape == (128 // depth, count)


@draws(24)
@given(depths, word_counts)
def test_rows_equal_the_reference(depth, count):
    chooser, sender, offset = setup(depth)
    choices = words(count)
    message, chosen = ot_receive_rows(chooser, choices, operation=5)
    expected, rows = reference.receive_rows(chooser, choices, operation=5)
    assert torch.equal(message, expected)
    assert torch.equal(chosen, rows)
    found = ot_send_rows(sender, offset, message, operation=5)
    assert torch.equal(found, reference.send_rows(sender, offset, message, operation=5))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_row_by_integers_and_openssl(depth):
    """Each bit of a row and of the message from its definition."""
    chooser, _, _ = setup(depth)
    choices = words(3)
    message, rows = ot_receive_rows(chooser, choices, operation=9)

    def stream(seed: torch.Tensor) -> int:
        cipher = Cipher(algorithms.AES(pack("<qq", *seed.tolist())), modes.CTR(pack(">QQ", 9, 0)))
        return int.from_bytes(cipher.encryptor().update(bytes(24)), "little")

    streams = [[stream(seed) for seed in tree] for tree in chooser]
    for transfer_number in (0, 1, 70, 191):
        row = 0
        for tree, leaves in enumerate(streams):
            bits = [leaf >> transfer_number & 1 for leaf in leaves]
            for j in range(depth):
                odd = sum(bit for x, bit in enumerate(bits) if x >> j & 1) & 1
                row |= odd << (tree * depth + j)
            choice = choices.tolist()[transfer_number // 64] >> transfer_number % 64 & 1
            sent = message[tree].tolist()[transfer_number // 64] >> transfer_number % 64 & 1
            assert sent == (sum(bits) + choice) % 2
        assert integer(rows[transfer_number]) == row


def test_iknp_is_the_tree_of_depth_one():
    """Ishai, Kilian, Nissim and Petrank: t = G(k_1), u = t ^ G(k_0) ^ r."""
    chooser, sender, offset = setup(1)
    message, _ = ot_receive_rows(chooser, words(2), operation=3)
    assert message.shape == (128, 2)
    points = [integer(offset) >> t & 1 for t in range(128)]
    known = [chooser[t, 1 - point] for t, point in enumerate(points)]
    assert torch.equal(sender[:, 1], torch.stack(known))


def test_random_bits_by_integers():
    choices, key = words(2), secrets.token_bytes(16)
    sent, chosen, offset, _ = transfer(choices)
    zero = ot_bits(key_tensor(key), sent, first=1000)
    one = ot_bits(key_tensor(key), sent, offset, first=1000)
    mine = ot_bits(key_tensor(key), chosen, first=1000)
    assert torch.equal(mine, zero ^ (zero ^ one) & choices)
    for i, bit in enumerate(unpack_bits(mine, (128,), torch.int64).tolist()):
        assert bit == hashed(key, integer(chosen[i]), 1000 + i) & 1
    assert torch.equal(mine, reference.bits(key_tensor(key), chosen, NO_OFFSET, first=1000))


def multiplied(product: OtProduct, left, right, first: int = 77):
    """Both shares and the corrections."""
    choices = packed(left)
    sent, chosen, offset, _ = transfer(choices)
    key = words(2)
    made, halves, share = ot_multiply_send(product, key, sent, offset, right, first=first)
    other = ot_multiply_receive(product, key, chosen, choices, made, halves, first=first)
    return share, other, made, halves, (key, sent, offset, chosen, choices)


def packed(left: torch.Tensor) -> torch.Tensor:
    """The bits of all elements as words; elements of one bit are bool."""
    if left.dtype == torch.bool:
        return pack_bits(left)
    data = left.numpy().tobytes()
    return torch.frombuffer(bytearray(data + bytes(-len(data) % 8)), dtype=torch.int64)


@st.composite
def products(draw) -> OtProduct:
    """Elementwise ones, matrices, rows longer than what is hashed at once, and single bits."""
    ring = draw(rings)
    bits = draw(st.sampled_from([1, ring.bits]))
    small = st.integers(1, 4)
    sizes = draw(
        st.one_of(
            st.tuples(st.integers(1, 70), st.just(1), st.just(1), st.just(1)),
            st.tuples(small, small, small, st.integers(1, 9)),
            st.tuples(st.just(1), small, small, st.sampled_from([31, 32, 33, 63, 65, 130])),
        )
    )
    return OtProduct(*sizes, bits, ring)


def operands(product: OtProduct, seed: int):
    left = ring_tensor(product.ring, product.left, seed)
    right = ring_tensor(product.ring, product.right, seed + 1)
    return (left if product.is_whole else left % 2 == 1), right


@draws(60)
@given(products(), seeds)
def test_shares_add_up_to_the_product_of_integers(product, seed):
    left, right = operands(product, seed)
    share, other, *_ = multiplied(product, left, right)
    for b in range(product.batch):
        rows, columns = left[b].tolist(), right[b].T.tolist()
        exact = [[sum(x * y for x, y in zip(r, c, strict=True)) for c in columns] for r in rows]
        wrapped = [[product.ring.wrap(value) for value in row] for row in exact]
        assert (share + other)[b].tolist() == wrapped


@draws(40)
@given(products(), seeds)
def test_products_equal_the_reference(product, seed):
    left, right = operands(product, seed)
    share, other, made, halves, (key, sent, offset, chosen, choices) = multiplied(
        product, left, right
    )
    expected = reference.multiply_send(product, key, sent, offset, right, first=77)
    for found, known in zip((made, halves, share), expected, strict=True):
        assert torch.equal(found, known)
    assert torch.equal(
        other,
        reference.multiply_receive(product, key, chosen, choices, made, halves, first=77),
    )


def test_corrections_by_integers():
    """One product of 64 bits: which bits of the message are whose."""
    product = OtProduct(1, 1, 1, 1, 64, RING64)
    left, right = operands(product, 3)
    _, _, made, halves, (key, sent, offset, _, _) = multiplied(product, left, right, first=5)
    key_bytes = pack("<qq", *key.tolist())
    corrections = []
    for i, row in enumerate(map(integer, sent)):
        zero, one = (hashed(key_bytes, x, 5 + i) for x in (row, row ^ integer(offset)))
        corrections.append((zero + right.item() - one) % (1 << (64 - i)))
    expected = [corrections[p] | (corrections[64 - p] << (64 - p) if p else 0) for p in range(32)]
    assert made.view(-1).tolist() == signed(*expected)
    assert halves.item() == RING32.wrap(corrections[32])


def test_long_rows_take_a_block_for_every_two_words():
    """The share of the side that sends is minus the sum of its hashes."""
    product = OtProduct(1, 1, 1, 5, 1, RING64)
    left, right = operands(product, 4)
    share, _, _, _, (key, sent, _, _, _) = multiplied(product, left, right, first=2)
    key_bytes, row = pack("<qq", *key.tolist()), integer(sent[0])
    pads = [hashed(key_bytes, row, 2, b) for b in range(3)]
    expected = [pad >> shift & WORD64 for pad in pads for shift in (0, 64)][:5]
    assert share.view(-1).tolist() == signed(*(-pad for pad in expected))


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_any_number_of_threads(ring):
    if backend.load_native() is None:
        pytest.skip("the reference has no threads of its own")
    product, before = OtProduct(300, 2, 2, 3, ring.bits, ring), backend.num_threads()
    left, right = operands(product, 8)
    choices, key = packed(left), words(2)
    chooser, sender, offset = setup(4)
    results = []
    try:
        for threads in (1, 2, 5):
            backend.set_num_threads(threads)
            message, chosen = ot_receive_rows(chooser, choices, operation=2)
            sent = ot_send_rows(sender, offset, message, operation=2)
            made, halves, share = ot_multiply_send(product, key, sent, offset, right, first=0)
            other = ot_multiply_receive(product, key, chosen, choices, made, halves, first=0)
            bits = ot_bits(key, chosen, first=0)
            results.append([message, chosen, sent, made, halves, share, other, bits])
    finally:
        backend.set_num_threads(before)
    for one in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(one, results[0], strict=True))


def chi_square(tensor: torch.Tensor) -> float:
    """Of the tensor's bytes; 255 is expected."""
    counts = torch.bincount(tensor.contiguous().view(torch.uint8).view(-1).long(), minlength=256)
    mean = counts.sum() / 256
    return float(((counts - mean) ** 2 / mean).sum())


@pytest.mark.parametrize("choice", [0, -1])
@pytest.mark.parametrize("value", [0, 1, -1])
def test_messages_are_uniform_whatever_they_hide(choice, value):
    """One false alarm in some 10^9: the bound is 7 standard deviations above 255."""
    product = OtProduct(300, 1, 1, 1, 64, RING64)
    left = torch.full(product.left, choice)
    right = torch.full(product.right, value)
    _, _, made, halves, _ = multiplied(product, left, right)
    _, chosen, _, message = transfer(packed(left))
    for seen in (message, made, halves, chosen):
        assert chi_square(seen) < 415


def test_another_number_gives_other_rows_and_hashes():
    chooser, _, _ = setup(4)
    choices, key = words(4), words(2)
    first, rows = ot_receive_rows(chooser, choices, operation=1)
    second, others = ot_receive_rows(chooser, choices, operation=2)
    assert not (rows == others).any(1).any()
    assert chi_square(first ^ second) < 500
    assert not torch.equal(ot_bits(key, rows, first=0), ot_bits(key, rows, first=256))


def test_forced_reference(force_reference):
    chooser, sender, offset = setup(2)
    choices, key = words(2), words(2)
    product = OtProduct(2, 1, 1, 3, 64, RING64)
    right = ring_tensor(RING64, product.right, 1)

    def everything():
        message, chosen = ot_receive_rows(chooser, choices, operation=1)
        sent = ot_send_rows(sender, offset, message, operation=1)
        made = ot_multiply_send(product, key, sent, offset, right, first=0)
        other = ot_multiply_receive(product, key, chosen, choices, *made[:2], first=0)
        return [message, chosen, sent, *made, other, ot_bits(key, sent, offset, first=0)]

    fast = everything()
    force_reference()
    assert all(torch.equal(a, b) for a, b in zip(fast, everything(), strict=True))


def test_bad_arguments_are_named():
    chooser, sender, offset = setup(4)
    choices, key = words(1), words(2)
    message, rows = ot_receive_rows(chooser, choices, operation=0)
    product = OtProduct(1, 1, 1, 2, 64, RING64)
    right = words(1, 1, 2)
    made, halves, _ = ot_multiply_send(product, key, rows, offset, right, first=0)
    cases = {
        "depth": lambda: ot_receive_rows(chooser[:, :1], choices, operation=0),
        "seeds": lambda: ot_receive_rows(chooser[:5], choices, operation=0),
        "choices": lambda: ot_receive_rows(chooser, choices.int(), operation=0),
        "message": lambda: ot_send_rows(sender, offset, message[1:], operation=0),
        "offset": lambda: ot_send_rows(sender, offset[:1], message, operation=0),
        "key": lambda: ot_bits(key[:1], rows, first=0),
        "rows": lambda: ot_bits(key, rows[:-1], first=0),
        "values": lambda: ot_multiply_send(product, key, rows, offset, right.int(), first=0),
        "words": lambda: ot_multiply_receive(
            product, key, rows, choices, made[..., :1], halves, first=0
        ),
        "halves": lambda: ot_multiply_receive(
            product, key, rows, choices, made, halves.long(), first=0
        ),
        "bits": lambda: ot_multiply_send(
            product._replace(bits=7), key, rows, offset, right, first=0
        ),
        "sizes": lambda: ot_multiply_send(product._replace(m=0), key, rows, offset, right, first=0),
    }
    for name, call in cases.items():
        with pytest.raises(ConfigError, match=name):
            call()
