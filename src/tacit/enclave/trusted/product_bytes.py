"""How many bytes an outsourced product takes inside an enclave, known before it begins.

All bytes count, those that a mask hides too. What the kernels of the ring allocate is not known
from outside of them. A bound takes its place, which `tests/enclave/test_product_bytes.py` compares
with what a process really grows by.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from ...protocols.products.bilinear import Bilinear, ConvGradWeight
from ..streams import WINDOW
from ..worker_roles import Role
from .freivalds import SLICE_ELEMENTS, lengths, shortened
from .quantise import Precision

LONG = torch.int64.itemsize
QUANTISED_ELEMENT = 8 * LONG  # bytes for each number of which an integer is made
FLOAT_ELEMENT = 3 * LONG  # for each result: the float, and two steps towards it
# For each element of a sum along an axis: three limbs of it, those mod p, their sum, its limbs.
CONTRACTED_ELEMENT = 18 * LONG
RING_ELEMENT = 4 * LONG  # for each element of a product in the ring: a copy, and its residues
LIMB_ELEMENT = 3 * LONG  # for each 64-bit integer of which limbs are made

Shape = Sequence[int]


def product_bytes(
    precision: Precision, roles: Sequence[Role], op: Bilinear, a: Shape, b: Shape
) -> int:
    """Returns the bytes of a product of integers, from copies of its operands to its floats.

    Answers lie there all the time. Masked operands and what the enclave computes itself, the
    check, and floats follow each other.
    """
    operands, results = prod(a) + prod(b), prod(op.shape(a, b))
    word, value = precision.ring.dtype.itemsize, precision.dtype.itemsize
    sums = LONG * results  # of blocks along an inner axis
    answers = word * results * (len(roles) + 3)  # and terms of the enclave, and two sums
    answers += len(roles) * min(word * results, WINDOW)  # on their way inside, still encrypted
    masking = word * operands + _inside_bytes(word, roles, op, a, b)
    last = max(masking, check_bytes(op, a, b, value), FLOAT_ELEMENT * results)
    return 2 * value * operands + answers + sums + last


def _inside_bytes(word: int, roles: Sequence[Role], op: Bilinear, a: Shape, b: Shape) -> int:
    """Returns the bytes of the terms that no worker computes, from masks in `masking.py`."""
    if Role.MASK_PRODUCT in roles:
        return 0
    operands, scratch = prod(a) + prod(b), scratch_bytes(op, a, b, word)
    if Role.FIRST_TERMS in roles:
        return word * operands + scratch
    return 5 * word * operands + 2 * scratch  # masks, integers, differences, both side by side


def check_bytes(op: Bilinear, a: Shape, b: Shape, value: int) -> int:
    """Returns the bytes of Freivalds' check of a product of integers of so many bytes."""
    small, left, right = shortened(op, a, b)
    most = max(prod(a), prod(b), prod(op.shape(a, b)))
    slices = LIMB_ELEMENT * min(most, SLICE_ELEMENTS) if value == LONG else 0
    sums = sum(map(_contracted_bytes, (prod(a), prod(b)), lengths(op, a, b)))
    claimed = _contracted_bytes(prod(op.shape(a, b)), max(lengths(op, a, b)))
    expected = CONTRACTED_ELEMENT * prod(small.shape(left, right))
    return sums + claimed + expected + scratch_bytes(small, left, right, LONG) + slices


def _contracted_bytes(elements: int, length: int) -> int:
    return CONTRACTED_ELEMENT * elements // length if length > 1 else LONG * elements


def scratch_bytes(op: Bilinear, a: Shape, b: Shape, word: int) -> int:
    """Returns a bound on what a kernel of the ring takes for a product, besides its result.

    Each element has a copy and its residues. The gradient of a weight also has windows, twice.
    """
    bound = RING_ELEMENT * (prod(a) + prod(b) + prod(op.shape(a, b)))
    if isinstance(op, ConvGradWeight):
        bound += 2 * word * prod(a) * prod(op.weight_shape[2:])
    return bound
