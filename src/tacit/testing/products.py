"""Products of secrets: by element, of matrices, contractions, convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ..protocols import Conv, ConvGradInput, ConvGradWeight, Protocol
from ..ring import Window
from ..runtime import Session
from .expect import expect
from .values import Integers, integers, ring_values, secret, wrapped

Index = tuple[int, ...]


def check_mul(session: Session) -> None:
    """Elementwise products wrap: inputs of any owners, with broadcasting, and squares."""
    p = session.protocol
    a, b = ring_values(p.ring, (3, 70), "a"), ring_values(p.ring, (70,), "b")
    for owner in range(session.parties):
        x, y = secret(p, a, owner), secret(p, b, owner + 1)
        expect(p, p.mul(x, y), a * b, f"mul of party {owner}'s")
        expect(p, p.mul(y, x), a * b, "mul that broadcasts the first operand")
        expect(p, p.mul(x, x), a * a, "mul with itself")
        expect(p, p.square(x), a * a, "square")
        expect(p, p.mul(p.mul(x, y), x), a * b * a, "mul of a product")
    expect(p, p.mul(secret(p, a), p.public(b)), a * b, "mul with a public share")
    expect(p, p.mul(p.random((70,)), p.public(b * 0)), b * 0, "mul with zero")


MATRICES = (
    ((4, 6), (6, 5)),
    ((1, 1), (1, 1)),
    ((2, 4, 6), (2, 6, 3)),
    ((2, 1, 4, 6), (3, 6, 2)),
    ((4, 6), (6,)),
    ((6,), (6, 5)),
    ((6,), (6,)),
    ((3, 0), (0, 2)),
)


def check_matmul(session: Session) -> None:
    """Products of matrices, of batches, of vectors."""
    p = session.protocol
    for left, right in MATRICES:
        a, b = ring_values(p.ring, left, "a"), ring_values(p.ring, right, "b")
        wanted = wrapped(p.ring, np.matmul(integers(a), integers(b)))
        found = p.matmul(secret(p, a, 1), secret(p, b, 2))
        expect(p, found, wanted, f"matmul of {left} and {right}")
    a = ring_values(p.ring, (4, 4), "square")
    x = secret(p, a, 1)
    expect(p, p.matmul(x, x), wrapped(p.ring, integers(a) @ integers(a)), "matmul with itself")
    wanted = wrapped(p.ring, integers(a).T @ integers(a))
    expect(p, p.matmul(x.transpose(0, 1), x), wanted, "matmul of a transpose")


EINSUMS = (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij,kl->ikjl", (2, 3), (2, 2)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("ij,j->ji", (2, 3), (3,)),
    ("ijk,j->i", (2, 3, 4), (3,)),
    ("i,i->i", (5,), (5,)),
)


def check_contractions(session: Session) -> None:
    """`einsum` and `outer`."""
    p = session.protocol
    for equation, left, right in EINSUMS:
        a, b = ring_values(p.ring, left, "a"), ring_values(p.ring, right, "b")
        wanted = wrapped(p.ring, np.einsum(equation, integers(a), integers(b)))
        expect(p, p.einsum(equation, secret(p, a, 1), secret(p, b, 2)), wanted, equation)
    a, b = ring_values(p.ring, (7,), "a"), ring_values(p.ring, (4,), "b")
    wanted = wrapped(p.ring, np.outer(integers(a), integers(b)))
    expect(p, p.outer(secret(p, a, 1), secret(p, b, 0)), wanted, "outer")


# Input, weight, and stride, padding, dilation, groups.
CONVOLUTIONS: tuple[tuple[Index, Index, tuple[Any, ...]], ...] = (
    ((2, 3, 9), (4, 3, 3), (1, 0, 1, 1)),
    ((1, 4, 10), (6, 2, 2), (2, 1, 3, 2)),
    ((2, 2, 5, 6), (3, 2, 3, 3), (1, 1, 1, 1)),
    ((1, 4, 7, 5), (4, 1, 3, 2), ((2, 1), (1, 0), (1, 2), 4)),
    ((1, 2, 3, 4, 4), (2, 2, 2, 2, 1), (1, (0, 1, 0), 1, 1)),
    ((1, 2, 5, 3, 4), (2, 1, 2, 3, 2), (2, 1, 1, 2)),
)


def check_convolutions(session: Session) -> None:
    """Convolutions in one, two and three dimensions, and both gradients."""
    p = session.protocol
    for image_shape, weight_shape, settings in CONVOLUTIONS:
        window = Window.make(len(image_shape) - 2, *settings)
        _check_convolution(p, window, image_shape, weight_shape)


def _check_convolution(p: Protocol, window: Window, images: Index, weights: Index) -> None:
    sizes = window.output_sizes(images[2:], weights[2:])
    outputs = (images[0], weights[0], *sizes)
    a, w, g = (ring_values(p.ring, s, "conv") for s in (images, weights, outputs))
    x, y, grad = secret(p, a, 0), secret(p, w, 1), secret(p, g, 2)
    image, weight, slope = map(integers, (a, w, g))
    by_output, by_input, by_weight = (_zeros(shape) for shape in (outputs, images, weights))
    for i, j, o in _terms(window, images, weights, sizes):
        by_output[o] += image[i] * weight[j]
        by_input[i] += weight[j] * slope[o]
        by_weight[j] += image[i] * slope[o]
    what = f"of {images} and {weights}, {window}"
    found = p.conv(x, y, window.stride, window.padding, window.dilation, window.groups)
    expect(p, found, wrapped(p.ring, by_output), f"conv {what}")
    expect(p, p.bilinear(Conv(window), x, y), wrapped(p.ring, by_output), f"Conv {what}")
    found = p.bilinear(ConvGradInput(window, images), y, grad)
    expect(p, found, wrapped(p.ring, by_input), f"gradient by the input {what}")
    found = p.bilinear(ConvGradWeight(window, weights), x, grad)
    expect(p, found, wrapped(p.ring, by_weight), f"gradient by the weight {what}")


def _zeros(shape: Index) -> Integers:
    return np.full(shape, 0, dtype=object)


def _terms(
    window: Window, images: Index, weights: Index, sizes: list[int]
) -> Iterator[tuple[Index, Index, Index]]:
    """Yields the indices of each product: input, weight, and the output that it is added to."""
    per_group = weights[0] // window.groups
    for n, out, place in product(range(images[0]), range(weights[0]), np.ndindex(*sizes)):
        for channel, tap in product(range(weights[1]), np.ndindex(*weights[2:])):
            at = tuple(
                o * s + k * d - pad
                for o, k, s, d, pad in zip(
                    place, tap, window.stride, window.dilation, window.padding, strict=True
                )
            )
            if all(0 <= i < size for i, size in zip(at, images[2:], strict=True)):
                source = out // per_group * weights[1] + channel
                yield (n, source, *at), (out, channel, *tap), (n, out, *place)


CHECKS = (check_mul, check_matmul, check_contractions, check_convolutions)
