"""Multiplication triples of two parties: shares of a, b and a b, with a and b uniform.

Each party draws its shares of a and b alone, from randomness that nobody else has, and gets its
share of the product. (a_0 + a_1) (b_0 + b_1): two terms are local, two are cross products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import matmul, mul, ot_bits
from ...ring import OtProduct, ring_of
from ..steps import Round, Steps, together
from .cross_products import cross_product
from .extension import TransferReceiver, Transfers, TransferSender, extension_spec

PART_WORDS = 1 << 16  # of 64 AND triples each: 64 MiB of rows for each direction


def mul_triple(transfers: Transfers, a: Tensor, b: Tensor) -> Steps[Tensor]:
    """Returns a share of the elementwise product, of shares of two tensors of one shape."""
    ring = ring_of(a, b)
    if a.shape != b.shape:
        raise ConfigError(f"shapes {tuple(a.shape)} and {tuple(b.shape)}", limit="one is needed")
    if not a.numel():
        return a
    product = OtProduct(a.numel(), 1, 1, 1, ring.bits, ring)
    sizes = a.numel(), 1, 1
    cross = yield from cross_product(transfers, product, a.reshape(sizes), b.reshape(sizes))
    return mul(a, b) + cross.view(a.shape)


def matmul_triple(transfers: Transfers, a: Tensor, b: Tensor) -> Steps[Tensor]:
    """Returns a share of the product of matrices (batch, m, k) x (batch, k, n), of shares of both.

    The transfers are for the bits of the smaller matrix, and of rows of the other one.
    """
    ring = ring_of(a, b)
    batch, m, k = a.shape
    n = b.shape[-1]
    if tuple(b.shape) != (batch, k, n):
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ConfigError(f"matrices {shapes}", limit="(batch, m, k) and (batch, k, n) are needed")
    if m <= n:
        product = OtProduct(batch, m, k, n, ring.bits, ring)
        cross = yield from cross_product(transfers, product, a, b)
    else:
        product = OtProduct(batch, n, k, m, ring.bits, ring)
        turned = yield from cross_product(transfers, product, b.mT, a.mT)
        cross = turned.mT
    return matmul(a, b) + cross


def and_triples(transfers: Transfers, a: Tensor) -> Steps[tuple[Tensor, Tensor]]:
    """Returns shares of uniform bits b and of a & b, for shares a of uniform bits, all packed.

    a b = a_0 b_0 ^ a_1 b_1 and two cross terms. For each of those the receiver chooses by its a,
    and the sender's b is the XOR of its two random bits h_0 ^ h_1: the receiver's bit is then
    h_0 ^ a b. One round, and nothing but the extension's message is sent.
    """
    b, c = torch.empty_like(a), torch.empty_like(a)
    for start in range(0, len(a), PART_WORDS):
        place = slice(start, min(start + PART_WORDS, len(a)))
        mine = a[place].contiguous()
        chosen, (zero, one) = yield from together(
            _receive_bits(transfers.receiver, mine), _send_bits(transfers.sender, len(mine))
        )
        b[place] = zero ^ one
        c[place] = mine & b[place] ^ zero ^ chosen
    return b, c


def _receive_bits(receiver: TransferReceiver, choices: Tensor) -> Steps[Tensor]:
    """Returns the chosen one of two random bits of each transfer, packed."""
    message, (rows, first) = receiver.extend(choices)
    yield Round({receiver.peer: [message]})
    return ot_bits(receiver.key, rows, first=first)


def _send_bits(sender: TransferSender, words: int) -> Steps[tuple[Tensor, Tensor]]:
    """Returns both random bits of each transfer, packed."""
    received = yield Round({}, {sender.peer: [extension_spec(words)]})
    [message] = received[sender.peer]
    rows, first = sender.extend(message.cpu())
    zero = ot_bits(sender.key, rows, first=first)
    return zero, ot_bits(sender.key, rows, sender.offset, first=first)
