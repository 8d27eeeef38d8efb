"""Operations without a message: sums, public operands, exclusive or."""

from __future__ import annotations

import torch

from ..kernels import pack_bits
from ..protocols import MATMUL, MUL, Conv
from ..ring import Window
from ..runtime import Session
from .expect import expect, expect_true
from .values import bit_values, edges, integers, ring_values, secret, secret_bits, wrapped


def check_sums(session: Session) -> None:
    """x + y, x - y and -x wrap, for inputs of any two owners."""
    p = session.protocol
    a, b = (ring_values(p.ring, (40,), seed) for seed in ("a", "b"))
    for owner in range(session.parties):
        x, y = secret(p, a, owner), secret(p, b, owner + 1)
        with session.stats.scope("local") as cost:
            found = p.add(x, y), p.sub(x, y), p.neg(x)
        expect_true(p, cost.messages == 0, "sums are local")
        for share, wanted in zip(found, (a + b, a - b, -a), strict=True):
            expect(p, share, wanted, "add, sub, neg")


def check_public_operands(session: Session) -> None:
    """Public tensors and integers, with broadcasting, on either side of a product."""
    p = session.protocol
    a, c = ring_values(p.ring, (4, 6), "a"), ring_values(p.ring, (6,), "c")
    x = secret(p, a, 1)
    expect(p, p.add_public(x, c), a + c, "add_public of a tensor")
    expect(p, p.add_public(x, -3), a - 3, "add_public of an integer")
    row = secret(p, c, 2)
    expect(p, p.add_public(row, a), a + c, "add_public that broadcasts the secret")
    expect(p, p.mul_public(x, c), a * c, "mul_public of a tensor")
    for factor in edges(p.ring):
        wanted = wrapped(p.ring, integers(a) * factor)
        expect(p, p.mul_public(x, factor), wanted, "mul_public of an integer")
        expect(p, x.scaled(factor), wanted, "scaled")
    expect(p, p.bilinear_public(MUL, x, c), a * c, "bilinear_public of MUL")


def check_public_matrices(session: Session) -> None:
    """Products with public matrices and convolution kernels."""
    p = session.protocol
    a, b = ring_values(p.ring, (4, 6), "a"), ring_values(p.ring, (6, 5), "b")
    wanted = wrapped(p.ring, integers(a) @ integers(b))
    expect(p, p.bilinear_public(MATMUL, secret(p, a), b), wanted, "secret @ public")
    found = p.bilinear_public(MATMUL, secret(p, b, 1), a, left=False)
    expect(p, found, wanted, "public @ secret")
    image, kernel = (ring_values(p.ring, s, "c") for s in ((1, 2, 7), (3, 2, 1)))
    wanted = wrapped(p.ring, integers(kernel)[:, :, 0] @ integers(image)[0])[None]
    op = Conv(Window.make(1, 1, 0, 1, 1))
    expect(p, p.bilinear_public(op, secret(p, image), kernel), wanted, "conv with a public kernel")


def check_bit_operations(session: Session) -> None:
    """Exclusive or, negation, and public planes."""
    p = session.protocol
    a, b, c = (bit_values((70,), seed, 1) for seed in "abc")
    x, y = secret_bits(p, a, 1), secret_bits(p, b, 2)
    planes = p.pack(c[0])
    words = torch.stack([pack_bits(plane) for plane in c])
    expect(p, p.bit_xor(x, y), (a ^ b)[0].bool(), "bit_xor")
    expect(p, p.bit_xor(x, planes), (a ^ c)[0].bool(), "bit_xor with a public share")
    expect(p, p.bit_not(x), (1 - a)[0].bool(), "bit_not")
    expect(p, p.bit_xor_public(x, words), (a ^ c)[0].bool(), "bit_xor_public")
    expect(p, p.bit_and_public(x, words), (a & c)[0].bool(), "bit_and_public")


CHECKS = (check_sums, check_public_operands, check_public_matrices, check_bit_operations)
