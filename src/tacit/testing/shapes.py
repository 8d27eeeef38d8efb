"""Shapes: every method of a share does to a secret what torch does to a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..protocols.share import join, join_bits, stack_planes
from ..runtime import Session
from .expect import expect, expect_quotient, expect_true
from .values import bit_values, integers, ring_values, secret, secret_bits, small

Change = Callable[[Any], Any]  # the same call on a tensor and on a share

ARITH: dict[str, Change] = {
    "index": lambda x: x[1],
    "slice": lambda x: x[:, 1:, ::2],
    "ellipsis": lambda x: x[..., -1],
    "fancy index": lambda x: x[torch.tensor([1, 0, 1])],
    "new axis": lambda x: x[:, None],
    "reshape": lambda x: x.reshape(4, -1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1, -1),
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll(2, 1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "index_select": lambda x: x.index_select(2, torch.tensor([3, 3, 0])),
    "unfold": lambda x: x.unfold(2, 3, 1),
    "cumsum": lambda x: x.cumsum(1),
    "split": lambda x: x.split(2, 1)[1],
}

BITS: dict[str, Change] = {
    "index": lambda x: x[1],
    "slice": lambda x: x[:, 1:, ::2],
    "ellipsis": lambda x: x[..., -1],
    "fancy index": lambda x: x[torch.tensor([1, 0, 1])],
    "reshape": lambda x: x.reshape(4, -1),
    "permute": lambda x: x.permute(2, 0, 1),
    "permute from the end": lambda x: x.permute(-1, 0, -2),
    "expand": lambda x: x.reshape(1, 2, 3, 4).expand(3, 2, 3, 4),
}


def check_shapes(session: Session) -> None:
    """The shape operations of ring elements; all are local."""
    p = session.protocol
    value = ring_values(p.ring, (2, 3, 4), "shapes")
    x = secret(p, value, 1)
    with session.stats.scope("local") as cost:
        found = {name: change(x) for name, change in ARITH.items()}
    expect_true(p, cost.messages == 0, "shapes are local")
    for name, change in ARITH.items():
        wanted = change(value).to(p.ring.dtype)
        expect_true(p, found[name].shape == wanted.shape, f"the shape of {name}")
        expect(p, found[name], wanted, name)


def check_sums_over_dims(session: Session) -> None:
    """Sums over some or all dimensions, padding, joining."""
    p = session.protocol
    value, other = (ring_values(p.ring, (2, 3, 4), seed) for seed in ("sum", "other"))
    x, y = secret(p, value, 1), secret(p, other, 2)
    dtype = p.ring.dtype
    expect(p, x.sum(), value.sum(dtype=dtype), "sum")
    expect(p, x.sum(0, 2), value.sum((0, 2), dtype=dtype), "sum over dims")
    expect(p, x.sum(-1, keepdim=True), value.sum(-1, True, dtype=dtype), "sum, keepdim")
    expect(p, x[0, 0, 0].sum(), value[0, 0, 0], "sum of a scalar")
    padded = torch.nn.functional.pad(value, [1, 0, 2, 1])
    expect(p, x.pad([1, 0, 2, 1]), padded, "pad")
    expect(p, join(torch.cat, [x, y]), torch.cat([value, other]), "cat")
    expect(p, join(torch.stack, [x, y]), torch.stack([value, other]), "stack")


def check_shapes_of_bits(session: Session) -> None:
    """The shape operations of bits, one and several for each element."""
    p = session.protocol
    bits = bit_values((2, 3, 4), "bits", 3)
    three, one = secret_bits(p, bits, 1), secret_bits(p, bits[:1], 2)
    numbers = _numbers(bits)
    for name, change in BITS.items():
        expect(p, change(one), change(bits[0]).bool(), f"{name} of bits")
        expect(p, change(three), change(numbers), f"{name} of numbers of three bits")
    expect(p, three.planes(1, 3), _numbers(bits[1:]), "planes")
    expect_true(p, three.width == 3, "width")
    stacked = stack_planes([one, three.planes(2, 3)])
    expect(p, stacked, _numbers(bits[[0, 2]]), "stack_planes")
    joined = join_bits(lambda parts: torch.cat(parts, 1), [three, three])
    expect(p, joined, torch.cat([numbers, numbers]), "join_bits")


def _numbers(bits: Tensor) -> Tensor:
    places = torch.arange(len(bits)).view(-1, *[1] * (bits.dim() - 1))
    return (bits << places).sum(0)


def check_views(session: Session) -> None:
    """Interactive operations accept shares whose parts are views."""
    p = session.protocol
    value, x = small(p, (6, 5), "views", 12)
    bits = bit_values((6, 5), "views")
    y, b = secret(p, value, 2), secret_bits(p, bits, 1)
    turned, bit = value.t(), bits[0].t()
    for name, share, wanted in (
        ("transposed", x.transpose(0, 1), turned),
        ("expanded", x[:1].expand(4, 5), value[:1].expand(4, 5)),
        ("strided", x[::2, 1:], value[::2, 1:]),
    ):
        expect(p, p.mul(share, share.map(torch.clone)), wanted * wanted, f"mul, {name}")
        expect(p, p.square(share), wanted * wanted, f"square, {name}")
        expect(p, p.sign(share), wanted < 0, f"sign, {name}")
        expect(p, p.is_zero(share), wanted == 0, f"is_zero, {name}")
        quotient = p.truncate(share.divided(3))
        expect_quotient(p, quotient, integers(wanted), 3, f"truncate, {name}")
    flipped = b.permute(1, 0)
    expect(p, p.inject(flipped, x.transpose(0, 1)), turned * bit, "inject of a view")
    pending = p.mul(x, y, shift=3).transpose(0, 1)
    dividend = integers(turned) ** 2
    expect_quotient(p, pending, dividend, 3, "a view of a pending quotient")
    pending = p.mul(x, y, shift=3).transpose(0, 1)
    wanted = integers(bit) * dividend
    expect_quotient(p, p.inject(flipped, pending), wanted, 3, "inject of a pending view")
    expect(p, p.bit_and(flipped, b.permute(1, 0)), bit.bool(), "bit_and of views")


def check_empty_and_scalar(session: Session) -> None:
    """Empty tensors and scalars."""
    p = session.protocol
    for shape in ((0,), (3, 0), ()):
        value, x = small(p, shape, "empty", 10)
        bits = bit_values(shape, "empty")
        b, what = secret_bits(p, bits, 1), f"shape {shape}"
        expect(p, p.mul(x, x), value * value, f"mul, {what}")
        expect(p, p.sign(x), value < 0, f"sign, {what}")
        for found, t in zip(p.signs(x, [0, 5]), (0, 5), strict=True):
            expect(p, found, value < t, f"signs, {what}")
        expect(p, p.is_zero(x), value == 0, f"is_zero, {what}")
        expect(p, p.inject(b, x), value * bits[0], f"inject, {what}")
        expect(p, p.bit_and(b, b), bits[0].bool(), f"bit_and, {what}")
        quotient = p.truncate(p.mul(x, x, shift=2))
        expect_quotient(p, quotient, integers(value) ** 2, 2, f"truncate, {what}")
        expect(p, x.sum(), value.sum(dtype=p.ring.dtype), f"sum, {what}")


CHECKS = (
    check_shapes,
    check_sums_over_dims,
    check_shapes_of_bits,
    check_views,
    check_empty_and_scalar,
)
