"""Exact matrix products."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import ring_of
from ..ring.reference import arithmetic as reference
from .backend import native_for

METHODS = {"choose": 0, "plain": 1, "encoded": 2}


def matmul(a: Tensor, b: Tensor, *, method: str = "choose") -> Tensor:
    """The product of two ring matrices, or batches of them, exact mod 2^k.

    Shapes as in `torch.matmul`: vectors, batches and broadcasting. Any strides are read in place.
    Large products go through bytes (residues or digits; csrc/scheme.h), small ones through plain
    loops; `method` forces one of them ("plain", "encoded") for tests and measurements.
    """
    ring = ring_of(a, b)
    number = method_number(method)
    native = native_for(a, b)
    if native is None or 0 in (a.dim(), b.dim()):
        return reference.matmul(a, b)
    if b.dim() == 1:
        return matmul(a, b.unsqueeze(1), method=method).squeeze(-1)
    if a.dim() == 1:
        return matmul(a.unsqueeze(0), b, method=method).squeeze(-2)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.shape[-2] != k:
        raise ConfigError(f"matmul of {tuple(a.shape)} and {tuple(b.shape)}: {k} != {b.shape[-2]}")
    if b.dim() == 2 and a.dim() > 2:  # one right operand for all: one tall product
        tall = a.reshape(a.shape[:-1].numel(), k)
        return matmul(tall, b, method=method).reshape(*a.shape[:-1], n)
    batch = torch.Size() if a.dim() == b.dim() == 2 else _batch_shape(a, b)
    out = a.new_empty((*batch, m, n))
    if out.numel() == 0 or k == 0:
        return out.zero_()
    if batch:
        a = a.expand(*batch, m, k).reshape(-1, m, k)
        b = b.expand(*batch, k, n).reshape(-1, k, n)
    function = native.matmul64 if ring.bits == 64 else native.matmul32
    function(
        a.data_ptr(),
        (0, *a.stride())[-3:],
        b.data_ptr(),
        (0, *b.stride())[-3:],
        out.data_ptr(),
        batch.numel(),
        (m, n, k),
        number,
    )
    return out


def method_number(method: str, methods: Mapping[str, int] = METHODS) -> int:
    """The compiled kernels' number of a method."""
    if method not in methods:
        raise ConfigError(f"method={method!r}: allowed are {', '.join(methods)}")
    return methods[method]


def _batch_shape(a: Tensor, b: Tensor) -> torch.Size:
    """The common batch shape of two batches of matrices."""
    try:
        return torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except RuntimeError as error:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ConfigError(f"matmul of {shapes}: the batch dimensions do not broadcast") from error
