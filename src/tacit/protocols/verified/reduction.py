"""Matrix products as gates of numbers. See NOTE [matrix products] of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ... import kernels
from ..bit_trees import map_parts
from ..products.bilinear import MUL
from ..products.matrix_forms import matrix_form
from ..replicated.arithmetic import product_share, replicate
from ..share import Parts
from ..steps import Steps
from .base import VerifiedBase
from .claims import Gates, Product
from .coin import Coin, toss

PAIRS = 105  # of random vectors for each product: (3/4)^105 < 2^-43


class Dots(NamedTuple):
    """z = the sum of x * y over the last dimension, for matrices x and y."""

    x: Parts
    y: Parts
    z: Parts

    @property
    def terms(self) -> int:
        return next(iter(self.x.values())).shape[-1]


class Matrices(NamedTuple):
    """One part of left, right and their product, as batches of matrices."""

    left: Tensor
    right: Tensor
    product: Tensor


def reduced(p: VerifiedBase, products: Sequence[Product]) -> Steps[list[Gates]]:
    """Returns gates that are right only if all products are. 3 rounds.

    Each party sends an element for each term of each sum of products.
    """
    coin = yield from toss(p)
    dots = [_dots(coin, one) for one in products]
    single, sums = [d for d in dots if d.terms == 1], [d for d in dots if d.terms != 1]
    gates = [Gates.of(*(map_parts(torch.ravel, parts) for parts in one)) for one in single]
    if not sums:
        return gates
    x, y = (
        map_parts(lambda *parts: torch.cat([part.reshape(-1) for part in parts]), *operands)
        for operands in zip(*((one.x, one.y) for one in sums), strict=True)
    )
    z = yield from replicate(p, product_share(p, MUL, x, y))
    _note_sums(p, sums, z)
    return [*gates, Gates(x, y, z)]


def _note_sums(p: VerifiedBase, sums: Sequence[Dots], terms: Parts) -> None:
    """Compares what the terms add up to with what the products say."""
    held = next(iter(terms))
    sizes = [one.x[held].numel() for one in sums]
    split = {part: tensor.split(sizes) for part, tensor in terms.items()}
    differ = {
        part: torch.cat(
            [
                split[part][n].view(one.x[part].shape).sum(-1, dtype=tensor.dtype) - one.z[part]
                for n, one in enumerate(sums)
            ]
        )
        for part, tensor in terms.items()
    }
    i, j = p.held
    p.note_zero(differ, -(differ[i] + differ[j]))


def _dots(coin: Coin, product: Product) -> Dots:
    """The sums of products that are right only if the product is, but for a small probability.

    If the product has fewer elements in each matrix than there are pairs of vectors, all of them.
    """
    matrices = {part: _matrices(product, part) for part in product.z}
    one = next(iter(matrices.values()))
    batch, m, _ = one.left.shape
    n = one.right.shape[-1]
    if m * n <= PAIRS:
        every = {part: _every_element(matrix) for part, matrix in matrices.items()}
    else:
        left = coin.bits((batch, PAIRS, m), one.left.dtype, one.left.device)
        right = coin.bits((batch, n, PAIRS), one.left.dtype, one.left.device)
        every = {part: _combined(matrix, left, right) for part, matrix in matrices.items()}
    return Dots(*({part: of[k] for part, of in every.items()} for k in range(3)))


def _matrices(product: Product, part: int) -> Matrices:
    """A part of an operation's operands and result as matrices.

    Which element of the matrices' product is which element of the result is found by numbering.
    """
    form = matrix_form(product.op, product.x[part], product.y[part])
    (batch, m, _), n = form.left.shape, form.right.shape[-1]
    z = product.z[part]
    numbers = torch.arange(z.numel(), device=z.device).view(batch, m, n)
    made = torch.empty_like(z.reshape(-1))
    made[form.finish(numbers).reshape(-1)] = z.reshape(-1)
    return Matrices(form.left, form.right, made.view(batch, m, n))


def _every_element(of: Matrices) -> tuple[Tensor, Tensor, Tensor]:
    (batch, m, terms), n = of.left.shape, of.right.shape[-1]
    shape = (batch, m, n, terms)
    x, y = of.left.unsqueeze(2).expand(shape), of.right.mT.unsqueeze(1).expand(shape)
    rows = batch * m * n
    return x.reshape(rows, terms), y.reshape(rows, terms), of.product.reshape(rows)


def _combined(of: Matrices, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """s X, Y r and s Z r for all pairs of vectors; all matrices of a batch add up."""
    x = kernels.matmul(left, of.left.contiguous())
    y = kernels.matmul(of.right.contiguous(), right).mT
    z = (kernels.matmul(left, of.product) * right.mT).sum((0, 2), dtype=left.dtype)
    return x.transpose(0, 1).flatten(1), y.transpose(0, 1).flatten(1), z
