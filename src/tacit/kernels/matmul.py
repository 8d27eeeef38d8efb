"""Exact matrix products mod 2^32 and 2^64, and right operands that are encoded once.

Large products multiply bytes with the dot-product instructions of CPU and GPU: each word becomes 18
residues of coprime moduli (64 bits) or 4 digits (32 bits on a CPU, 10 residues on a GPU), see
csrc/residues.h and gpu/residue_system.py. Encoding a weight costs more than multiplying one image
by it. So `plan_matmul` and `plan_conv` tell which method pays for a weight that is used many times
and how many bytes it keeps, `prepare_matmul` and `prepare_conv` encode the weight, and `matmul` and
`conv` take a `Prepared` instead of the weight, with the same results bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import Window, ring_of
from ..ring.reference import arithmetic as reference
from .backend import address, gpu_for, native_for

METHODS = {"choose": 0, "plain": 1, "encoded": 2}


@dataclass(frozen=True)
class Plan:
    """The number of a method (`METHODS`), and how many bytes it keeps: 0 for the plain one."""

    method: int
    num_bytes: int


PLAIN = Plan(1, 0)


@dataclass(frozen=True)
class Prepared:
    """A right operand of shape `shape`, encoded for its method; a weight also for a window."""

    shape: torch.Size
    dtype: torch.dtype
    plan: Plan
    data: Tensor  # the bytes, or the operand itself where the plan is plain
    window: Window | None = None

    @property
    def is_plain(self) -> bool:
        """Whether `data` is the operand itself."""
        return self.plan.num_bytes == 0

    @property
    def num_bytes(self) -> int:
        """How much memory `data` takes."""
        return self.data.numel() * self.data.element_size()


def matmul(a: Tensor, b: Tensor | Prepared, *, method: str = "choose") -> Tensor:
    """Returns the product of two ring matrices, or of batches of them, exact mod 2^k.

    Shapes are those of `torch.matmul`: vectors, batches and broadcasting. Any strides are read in
    place. Large products multiply encoded operands, small ones run in plain loops; `method` forces
    "plain" or "encoded", for tests and measurements. A prepared right operand has its own method.
    """
    if isinstance(b, Prepared):
        return _matmul_prepared(a, b)
    ring = ring_of(a, b)
    number = method_number(method)
    gpu, native = gpu_for(a, b), native_for(a, b)
    if (native is None and gpu is None) or 0 in (a.dim(), b.dim()):
        return reference.matmul(a, b)
    if b.dim() == 1:
        return matmul(a, b.unsqueeze(1), method=method).squeeze(-1)
    if a.dim() == 1:
        return matmul(a.unsqueeze(0), b, method=method).squeeze(-2)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.shape[-2] != k:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ConfigError(f"matmul of {shapes}: {k} != {b.shape[-2]}")
    if b.dim() == 2 and a.dim() > 2:  # one right operand for all: one tall product
        tall = a.reshape(a.shape[:-1].numel(), k)
        return matmul(tall, b, method=method).reshape(*a.shape[:-1], n)
    batch = torch.Size() if a.dim() == b.dim() == 2 else _batch_shape(a, b)
    out = a.new_empty((*batch, m, n))
    if out.numel() == 0 or k == 0:
        return out.zero_()
    if gpu:
        return gpu.matmul(a.expand(*batch, m, k), b.expand(*batch, k, n), out, number)
    assert native is not None
    if batch:
        a = a.expand(*batch, m, k).reshape(-1, m, k)
        b = b.expand(*batch, k, n).reshape(-1, k, n)
    function = native.matmul64 if ring.bits == 64 else native.matmul32
    function(
        address(a),
        (0, *a.stride())[-3:],
        address(b),
        (0, *b.stride())[-3:],
        address(out),
        batch.numel(),
        (m, n, k),
        number,
        0,
        False,
    )
    return out


def plan_matmul(rows: int, shape: Sequence[int], like: Tensor, *, method: str = "choose") -> Plan:
    """Returns how to prepare a right operand of this shape for left operands of so many rows.

    `like` has the dtype and device of the operands. The plan is `PLAIN` if encoding does not pay.
    """
    number, native = method_number(method), native_for(like)
    (k, n), bits = shape, ring_of(like).bits
    if (gpu := gpu_for(like)) and 0 not in (rows, k, n):
        return Plan(*gpu.plan_matmul((rows, k, n), bits, number))
    if native is None or 0 in (rows, k, n):
        return PLAIN
    return Plan(*getattr(native, f"matmul_plan{bits}")((rows, n, k), number))


def prepare_matmul(b: Tensor, plan: Plan) -> Prepared:
    """Returns the matrix b, encoded as the right operand of products, as the plan says."""
    gpu, native = gpu_for(b), native_for(b)
    if (native is None and gpu is None) or not plan.num_bytes:
        return Prepared(b.shape, b.dtype, PLAIN, b)
    if gpu:
        return Prepared(b.shape, b.dtype, plan, gpu.prepare_matmul(b))
    made = Prepared(b.shape, b.dtype, plan, b.new_empty(plan.num_bytes, dtype=torch.int8))
    # A product of no rows encodes b and does nothing else.
    _run(b.new_empty(0, b.shape[0]), b, b.new_empty(0, b.shape[1]), made, filled=False)
    return made


def _matmul_prepared(a: Tensor, b: Prepared) -> Tensor:
    if b.is_plain:
        return matmul(a, b.data)
    k, n = b.shape
    if a.dtype != b.dtype or not a.dim() or a.shape[-1] != k:
        raise ConfigError(f"matmul of {tuple(a.shape)} and {(k, n)}, prepared for {b.dtype}")
    rows = a.reshape(a.shape[:-1].numel(), k)
    out = a.new_empty(rows.shape[0], n)
    if out.numel() and (gpu := gpu_for(a)):
        gpu.matmul_prepared(rows, b.data, out)
    elif out.numel():
        _run(rows, b.data, out, b, filled=True)
    return out.reshape(*a.shape[:-1], n)


def _run(a: Tensor, b: Tensor, out: Tensor, prepared: Prepared, *, filled: bool) -> None:
    """Calls the compiled product, which encodes b, or if `filled` reads `prepared`."""
    native, (k, n) = native_for(a, out), prepared.shape
    strides = (0, 0, 0) if filled else (0, *b.stride())
    number, encoded = prepared.plan.method, address(prepared.data)
    getattr(native, f"matmul{ring_of(a).bits}")(
        address(a),
        (0, *a.stride()),
        address(b),
        strides,
        address(out),
        1,
        (out.shape[0], n, k),
        number,
        encoded,
        filled,
    )


def method_number(method: str, methods: Mapping[str, int] = METHODS) -> int:
    """Returns the number that the compiled kernels have for a method."""
    if method not in methods:
        raise ConfigError(f"method={method!r}", limit=f"allowed are {', '.join(methods)}")
    return methods[method]


def _batch_shape(a: Tensor, b: Tensor) -> torch.Size:
    """Returns the common batch shape of two batches of matrices."""
    try:
        return torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except RuntimeError as error:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        raise ConfigError(f"matmul of {shapes}: the batch dimensions do not broadcast") from error
