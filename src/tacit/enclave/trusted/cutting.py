"""Products that add up too many terms for the ring, as sums of products that do not."""

from __future__ import annotations

from math import prod

from torch import Tensor

from ...errors import RangeError
from ...protocols.products.bilinear import Bilinear, ConvGradWeight, MatMul, Pair


def pieces(op: Bilinear, a: Tensor, b: Tensor, most_terms: int) -> list[Pair]:
    """Returns operands of products that add up at most so many terms; their sum is op(a, b).

    Which pieces there are depends on the shapes alone. A product of matrices is cut along its inner
    dimension, and the gradient of a weight between images.
    """
    terms = op.terms(a.shape, b.shape)
    if terms <= most_terms:
        return [(a, b)]
    if isinstance(op, MatMul):
        return list(zip(a.split(most_terms, -1), b.split(most_terms, -2), strict=True))
    images = most_terms // prod(b.shape[2:])
    if isinstance(op, ConvGradWeight) and images:
        return list(zip(a.split(images), b.split(images), strict=True))
    raise RangeError(
        f"{type(op).__name__} of {tuple(a.shape)} and {tuple(b.shape)} adds up {terms} products",
        limit=f"the ring holds {most_terms}",
        remedy="use a smaller kernel or fewer channels",
    )
