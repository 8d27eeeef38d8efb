"""Shares of products of which each party has one factor (Gilboa, CRYPTO 1999).

The receiver has the left matrix, the sender the right one; see `OtProduct`. For bit i of a left
element a and the row b of right values that it meets, the two parties make a correlated transfer:
the sender has x, uniform, and the receiver x + a_i b. Their sums with weights 2^i, the sender's
negated, are shares of a b. Each share alone is uniform. Two rounds, whatever the size:

  receiver -> sender: one message of the extension, 32 bits for each transfer
  sender -> receiver: corrections H_0 + b - H_1, of bit i modulo 2^(k - i)

A left matrix of zeros and ones takes one transfer for each element: these are correlated transfers
themselves, with x = minus the sender's share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import ot_multiply_receive, ot_multiply_send, pack_bits
from ...kernels.ot import half_dtype
from ...ring import OtProduct, num_words
from ...transport import Spec
from ..steps import Round, Steps, together
from .extension import TransferReceiver, Transfers, TransferSender, extension_spec

PART_BYTES = 64 << 20  # of rows and corrections that are in memory at once
ROW_BYTES = 16


def receive_product(receiver: TransferReceiver, product: OtProduct, left: Tensor) -> Steps[Tensor]:
    """Returns this party's share of its left matrix times the peer's right one."""
    _check(left, product.left, product, "left")
    peer = receiver.peer
    share = torch.zeros(product.result, dtype=product.ring.dtype)
    for part in parts(product):
        choices = _choices(left[part.left], product)
        message, (rows, first) = receiver.extend(choices, part.blocks)
        yield Round({peer: [message]})
        received = yield Round({}, {peer: correction_specs(part.product)})
        words, halves = _corrections(part.product, received[peer])
        share[part.result] += ot_multiply_receive(
            part.product, receiver.key, rows, choices, words, halves, first=first
        )
    return share


def send_product(sender: TransferSender, product: OtProduct, right: Tensor) -> Steps[Tensor]:
    """Returns this party's share of the peer's left matrix times its right one."""
    _check(right, product.right, product, "right")
    peer = sender.peer
    share = torch.zeros(product.result, dtype=product.ring.dtype)
    for part in parts(product):
        spec = extension_spec(part.product.choice_words)
        received = yield Round({}, {peer: [spec]})
        [message] = received[peer]
        rows, first = sender.extend(message.cpu(), part.blocks)
        values = right[part.right].contiguous()
        *corrections, own = ot_multiply_send(
            part.product, sender.key, rows, sender.offset, values, first=first
        )
        share[part.result] += own
        yield Round({peer: corrections if product.is_whole else corrections[:1]})
    return share


def cross_product(
    transfers: Transfers, product: OtProduct, left: Tensor, right: Tensor
) -> Steps[Tensor]:
    """Returns a share of left_0 right_1 + left_1 right_0, for two parties that each have both."""
    mine, theirs = yield from together(
        receive_product(transfers.receiver, product, left),
        send_product(transfers.sender, product, right),
    )
    return mine + theirs


class Part(NamedTuple):
    """A block of the left matrix, and the places of its operands and of its result."""

    product: OtProduct
    left: tuple[slice, slice, slice]

    @property
    def right(self) -> tuple[slice, slice]:
        return self.left[0], self.left[2]

    @property
    def result(self) -> tuple[slice, slice]:
        return self.left[:2]

    @property
    def blocks(self) -> int:
        """How many blocks of 128 bits are hashed for each transfer."""
        return -(-self.product.n * self.product.ring.bits // 128)


def parts(product: OtProduct) -> Iterator[Part]:
    """Yields the parts in which a product is made, so that memory is bounded."""
    product.check()
    most = max(1, PART_BYTES // _element_bytes(product))  # left elements
    steps = [1, 1, 1]
    for dim in (2, 1, 0):
        steps[dim] = min(product.left[dim], most)
        most //= steps[dim]
        if steps[dim] < product.left[dim]:
            break
    for b in _slices(product.batch, steps[0]):
        for m in _slices(product.m, steps[1]):
            for k in _slices(product.k, steps[2]):
                block = product._replace(batch=_size(b), m=_size(m), k=_size(k))
                yield Part(block, (b, m, k))


def correction_specs(product: OtProduct) -> list[Spec]:
    """Returns the layouts of the sender's message."""
    words = Spec(product.words, product.ring.dtype)
    return [words, Spec(product.halves, half_dtype(product))] if product.is_whole else [words]


def _corrections(product: OtProduct, received: list[Tensor]) -> list[Tensor]:
    corrections = [tensor.cpu() for tensor in received]
    if not product.is_whole:
        corrections.append(torch.empty(product.halves, dtype=half_dtype(product)))
    return corrections


def _element_bytes(product: OtProduct) -> int:
    """Returns what one left element takes: a row for each bit, and its corrections."""
    words = product.bits // 2 + 1 if product.is_whole else 1
    return product.bits * ROW_BYTES + words * product.n * product.ring.bytes


def _slices(size: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _size(place: slice) -> int:
    return int(place.stop - place.start)


def _choices(left: Tensor, product: OtProduct) -> Tensor:
    """Returns the bits of all elements, the lowest first, 64 in a word."""
    if not product.is_whole:
        return pack_bits(left)
    words = torch.zeros(num_words(left.numel() * product.bits), dtype=torch.int64)
    words.view(left.dtype)[: left.numel()] = left.reshape(-1)
    return words


def _check(matrix: Tensor, shape: tuple[int, ...], product: OtProduct, name: str) -> None:
    if tuple(matrix.shape) != shape or matrix.dtype != product.ring.dtype or not matrix.is_cpu:
        raise ConfigError(
            f"the {name} matrix has shape {tuple(matrix.shape)} and {matrix.dtype}",
            limit=f"shape {shape} and {product.ring.dtype} on the CPU are needed",
        )
