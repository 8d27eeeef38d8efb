"""Eigenvalues and eigenvectors of small symmetric matrices, by Jacobi's rotations."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..tensor.long_loops import counted
from ..tensor.ops.reductions.sort_by import SORT_BY

TINY = 1e-30  # rounds to zero on secrets, and keeps 0 / 0 away from plain tensors


def eigh(a: Tensor, sweeps: int = 6) -> tuple[Tensor, Tensor]:
    """Returns the eigenvalues of a symmetric (p, p) matrix in ascending order, and eigenvectors.

    The vectors are columns, with a sign that is not defined, as in `torch.linalg.eigh`. The number
    of sweeps is public and fixed; 6 are enough up to p = 16 or so. On secrets errors of
    eigenvalues are a few 2^-f of the largest entry; eigenvectors of eigenvalues that lie d apart
    are right to about 2^-f times the largest entry over d. About 30 (p - 1) rounds of `trio` a
    sweep: for few columns.

    >>> eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))[0]
    tensor([1.0000, 3.0000])
    """
    size = a.shape[-1]
    largest = a.abs().amax() + TINY
    scaled = a / largest
    even = size + size % 2
    rotated = torch.nn.functional.pad(scaled, (0, even - size, 0, even - size))
    vectors = torch.eye(even, dtype=a.dtype, device=a.device)
    rotations = [*tournament(even)] * sweeps
    for first, second in counted(rotations, "rotations of eigh", a):
        rotated, vectors = _rotated(rotated, vectors, first, second)
    vectors = _orthonormal(vectors[:size, :size])
    values = (vectors * (scaled @ vectors)).sum(0)
    ordered, columns = SORT_BY(values.expand(size, size), vectors)
    return ordered[0] * largest, columns


def _rotated(a: Tensor, vectors: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Returns J^T a J and vectors J, where J makes a[first, second] zero for all pairs at once.

    tan 2t = 2 a_ij / (a_jj - a_ii), with the smaller of the two angles (Golub and Van Loan, 8.5).
    """
    across = 2 * a[first, second]
    apart = a[second, second] - a[first, first]
    sign = 1 - 2 * (apart < 0).to(a.dtype)
    length = (apart.square() + across.square()).sqrt()
    tangent = across * sign / (apart * sign + length + TINY)
    cosine = torch.rsqrt(tangent.square() + 1)
    c, s = torch.diag_embed(cosine), torch.diag_embed(cosine * tangent)
    rotation = torch.cat([torch.cat([c, s], 1), torch.cat([-s, c], 1)])
    order = torch.cat([first, second])
    back = order.argsort()
    turned = torch.cat([a, vectors])[:, order] @ rotation
    rows = rotation.mT @ turned[: a.shape[0]][order]
    return rows[back][:, back], turned[a.shape[0] :][:, back]


def _orthonormal(vectors: Tensor) -> Tensor:
    """Returns orthonormal columns near the given ones: V (3 - V^T V) / 2 squares their error."""
    return 1.5 * vectors - 0.5 * vectors @ (vectors.mT @ vectors)


def tournament(size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields size - 1 sets of size / 2 pairs, in which every two of an even number meet once."""
    seats = list(range(size))
    half = size // 2
    for _ in range(size - 1):
        pairs = [sorted(pair) for pair in zip(seats[:half], reversed(seats[half:]), strict=True)]
        first, second = torch.tensor(pairs).unbind(1)
        yield first, second
        seats = [seats[0], seats[-1], *seats[1:-1]]
