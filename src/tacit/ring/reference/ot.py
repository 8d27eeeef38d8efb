"""Extended oblivious transfers, and what is made of them, in torch and OpenSSL.

Both sides have a row of 128 bits for each transfer: with an offset that one side has, and the
choice bits c that the other has, row = other row ^ c offset. So the two hashes H(row) and
H(row ^ offset) are the messages of a transfer, and the hash of the other row is the chosen one.

Seeds (trees, 2^depth, 2) are AES keys as pairs of words. The side that chooses knows all. The other
numbers the leaves of a tree so that leaf x ^ point is at place x: it lacks what is at place 0.
The points, `depth` bits each, are the offset. Rows are pairs of words, (transfers, 2).
"""

from __future__ import annotations

from functools import reduce
from operator import xor
from struct import pack

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from ..ot_product import OtProduct
from ..ring import WORD
from .bits import from_bit_planes, unpack_bits

HALF_DTYPE = {32: torch.int16, 64: torch.int32}


def receive_rows(seeds: Tensor, choices: Tensor, *, operation: int) -> tuple[Tensor, Tensor]:
    """Returns the message and the rows of the side that chooses."""
    streams = _streams(seeds, operation, len(choices))
    message = [reduce(xor, leaves) ^ choices for leaves in streams]
    return torch.stack(message), _rows([one for tree in streams for one in _columns(tree)])


def send_rows(seeds: Tensor, offset: Tensor, message: Tensor, *, operation: int) -> Tensor:
    """Returns the rows of the other side."""
    streams = _streams(seeds, operation, message.shape[1])
    columns: list[Tensor] = []
    for leaves, sums in zip(streams, message, strict=True):
        for column in _columns([torch.zeros_like(sums), *leaves[1:]]):
            place = len(columns)
            bit = offset[place // WORD] >> place % WORD & 1
            columns.append(column ^ sums * bit)
    return _rows(columns)


def _streams(seeds: Tensor, operation: int, words: int) -> list[list[Tensor]]:
    """Returns a stream of AES-128-CTR for each leaf: a bit for each of 64 `words` transfers."""

    def stream(seed: Tensor) -> Tensor:
        mode = modes.CTR(pack(">QQ", operation, 0))
        made = Cipher(algorithms.AES(pack("<qq", *seed.tolist())), mode).encryptor()
        return torch.frombuffer(bytearray(made.update(bytes(8 * words))), dtype=torch.int64)

    return [[stream(seed) for seed in tree] for tree in seeds]


def _columns(leaves: list[Tensor]) -> list[Tensor]:
    """Returns for each bit of the leaves' numbers the XOR of the leaves that have it."""
    depth = len(leaves).bit_length() - 1
    return [reduce(xor, (s for x, s in enumerate(leaves) if x >> j & 1)) for j in range(depth)]


def _rows(columns: list[Tensor]) -> Tensor:
    """Returns the rows of 128 columns."""
    planes = torch.stack(columns)
    shape = (planes.shape[1] * WORD,)
    halves = (from_bit_planes(half, shape, torch.int64) for half in (planes[:WORD], planes[WORD:]))
    return torch.stack([*halves], -1)


def hashes(key: Tensor, rows: Tensor, offset: Tensor, first: int, blocks: int = 1) -> Tensor:
    """Returns H(i, b, row ^ offset) for the transfers i = first, first + 1, ... as words.

    H(i, b, x) = AES(y) ^ y, y = s(x) ^ (i, b), s(low, high) = (high, low ^ high); b counts the
    blocks of 128 bits that a transfer needs. The key of AES is public.
    """
    low, high = (rows ^ offset).unbind(-1)
    numbers = torch.arange(first, first + len(rows))
    y = torch.stack([high ^ numbers, low ^ high], -1)[:, None].repeat(1, blocks, 1)
    y[..., 1] ^= torch.arange(blocks)
    encryptor = Cipher(algorithms.AES(pack("<qq", *key.tolist())), modes.ECB()).encryptor()
    made = torch.frombuffer(bytearray(encryptor.update(y.numpy().tobytes())), dtype=torch.int64)
    return (made.view(y.shape) ^ y).view(len(rows), 2 * blocks)


def bits(key: Tensor, rows: Tensor, offset: Tensor, *, first: int) -> Tensor:
    """Returns bit 0 of the hash of each transfer, 64 in a word."""
    low = hashes(key, rows, offset, first)[:, 0] & 1
    return (low.view(-1, WORD) << torch.arange(WORD)).sum(1)


def multiply_send(
    product: OtProduct, key: Tensor, rows: Tensor, offset: Tensor, values: Tensor, *, first: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the corrections, as words and halves, and this side's share of the product."""
    zero = _pads(product, key, rows, torch.zeros_like(offset), first)
    one = _pads(product, key, rows, offset, first)
    corrections = zero + values.view(product.batch, 1, product.k, 1, product.n) - one
    return *_packed(product, corrections), -_sum(zero)


def multiply_receive(
    product: OtProduct,
    key: Tensor,
    rows: Tensor,
    choices: Tensor,
    words: Tensor,
    halves: Tensor,
    *,
    first: int,
) -> Tensor:
    """Returns the share of the side that chooses."""
    pads = _pads(product, key, rows, torch.zeros(2, dtype=torch.int64), first)
    chosen = unpack_bits(choices, (*product.left, product.bits, 1), product.ring.dtype)
    return _sum(pads + chosen * _unpacked(product, words, halves))


def _pads(product: OtProduct, key: Tensor, rows: Tensor, offset: Tensor, first: int) -> Tensor:
    """Returns the hashes as ring elements, (batch, m, k, bits, n)."""
    blocks = -(-product.n * product.ring.bits // 128)
    words = hashes(key, rows[: product.transfers], offset, first, blocks)
    return words.view(product.ring.dtype)[:, : product.n].reshape(*product.left, product.bits, -1)


def _sum(terms: Tensor) -> Tensor:
    """Returns the sum over the inner dimension and the bits, bit i with weight 2^i."""
    places = torch.arange(terms.shape[3], dtype=terms.dtype).view(-1, 1)
    return (terms << places).sum((2, 3), dtype=terms.dtype)


def _packed(product: OtProduct, corrections: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the corrections with no more bits than count; see `OtProduct`."""
    half = HALF_DTYPE[product.ring.bits]
    if not product.is_whole:
        return corrections, torch.empty(product.halves, dtype=half)
    size = product.ring.bits
    words = corrections[..., : size // 2, :].clone()
    for p in range(1, size // 2):
        low = words[..., p, :] & ((1 << (size - p)) - 1)
        words[..., p, :] = low | corrections[..., size - p, :] << (size - p)
    return words, corrections[..., size // 2, :].to(half)


def _unpacked(product: OtProduct, words: Tensor, halves: Tensor) -> Tensor:
    """Returns corrections that are right in the bits that count."""
    if not product.is_whole:
        return words
    size = product.ring.bits
    upper = [words[..., p, :] >> (size - p) for p in reversed(range(1, size // 2))]
    whole = [*words.unbind(-2), halves.to(words.dtype), *upper]
    return torch.stack(whole, -2)
