"""The arithmetic of a session on values: the table of contents.

Whoever computes on secrets (the tensor layer) calls these and nothing below. An operand is a value
or something public; what is public costs less. Every method is called by all parties alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..protocols import Protocol
from ..ring import Ring
from . import (
    arithmetic,
    compare,
    dtypes,
    index,
    linear,
    lookup,
    norm,
    order,
    pool,
    public_random,
    recurrent,
    reduce,
)
from . import attention as attending
from . import conv as convolution
from .functions import exponential, powers, quotient, roots, sigmoids, trigonometric
from .functions import piecewise as lines
from .functions import softmax as proportion
from .value import Operand, Value


class Numbers:
    """Fixed-point numbers over a protocol.

    range_bits: every real value is taken to be below 2^range_bits in magnitude. Beyond that
    comparisons misread it; sums and products stay right up to the ring's end.
    debug: what leaves the range raises RangeError, which takes a protocol in clear.
    """

    def __init__(
        self,
        protocol: Protocol,
        *,
        fraction_bits: int,
        range_bits: int | None = None,
        debug: bool = False,
    ) -> None:
        self.protocol, self.debug = protocol, debug
        self.trace: Any = None  # who watches the tensors made of these numbers, if anybody
        self.fraction_bits = fraction_bits
        most = protocol.ring.bits - 3 - 2 * fraction_bits
        self.range_bits = min(20, most) if range_bits is None else range_bits

    @property
    def ring(self) -> Ring:
        return self.protocol.ring

    @property
    def device(self) -> torch.device:
        """Where the parts of values lie; what is public is on the CPU."""
        return self.protocol.device

    def bits_of(self, dtype: torch.dtype) -> int:
        """The fraction bits of a value of this dtype."""
        return self.fraction_bits if dtype.is_floating_point else 0

    # Input and output --------------------------------------------------------------------------

    def share(
        self, value: Tensor | None, owner: int, shape: Sequence[int], dtype: torch.dtype
    ) -> Value:
        """The owner's tensor as a secret; the others give its shape and dtype."""
        return arithmetic.share(self, value, owner, shape, dtype)

    def reveal(self, x: Value, to: int | None = None) -> Tensor | None:
        """The plain tensor at every party, or at party `to` and None elsewhere."""
        return arithmetic.reveal(self, x, to)

    def public(self, value: Tensor) -> Value:
        """Public numbers as a value, where an operation cannot take them as they are."""
        return arithmetic.public(self, value)

    # Arithmetic --------------------------------------------------------------------------------
    add = arithmetic.add
    sub = arithmetic.sub
    neg = arithmetic.neg
    mul = arithmetic.mul
    square = arithmetic.square
    sum = arithmetic.sum_
    cumsum = arithmetic.cumsum
    convert = arithmetic.convert
    settled = arithmetic.settled
    result_dtype = staticmethod(dtypes.result_dtype)
    matmul = linear.matmul
    bilinear = linear.bilinear
    bilinears = linear.bilinears
    conv = convolution.conv
    conv_transpose = convolution.conv_transpose
    conv_grads = convolution.conv_grads
    max_pool = pool.max_pool
    max_pool_backward = pool.max_pool_backward
    sum_pool = pool.sum_pool
    sum_pool_backward = pool.sum_pool_backward
    normalise = norm.normalise
    normalise_backward = norm.normalise_backward
    fixed_line = norm.fixed_line
    times_fine = norm.times_fine
    coarse = norm.coarse
    attention = attending.attention
    attention_backward = attending.attention_backward
    lstm = recurrent.lstm
    lstm_backward = recurrent.lstm_backward

    # Public random numbers ---------------------------------------------------------------------
    uniform = public_random.uniform
    normal = public_random.normal

    # Elements moved, and many into one ---------------------------------------------------------
    joined = index.joined
    replaced = index.replaced
    total = reduce.total
    mean = reduce.mean
    prod = reduce.prod
    cumprod = reduce.cumprod
    variance = reduce.variance
    count_nonzero = reduce.count_nonzero
    any = reduce.any_
    all = reduce.all_
    amax = order.amax
    amin = order.amin
    max_with_index = order.max_with_index
    min_with_index = order.min_with_index
    sort = order.sort
    kth_smallest = order.kth_smallest
    one_hot = lookup.one_hot
    rows = lookup.rows
    rows_back = lookup.rows_back
    gather = lookup.gather
    scatter = lookup.scatter
    scatter_add = lookup.scatter_add

    # Comparisons and choices -------------------------------------------------------------------
    less = compare.less
    equal = compare.equal
    logical_not = compare.logical_not
    logical_and = compare.logical_and
    logical_or = compare.logical_or
    logical_xor = compare.logical_xor
    where = compare.where
    relu = compare.relu
    absolute = compare.absolute
    clamp = compare.clamp
    maximum = compare.maximum
    minimum = compare.minimum

    # Functions ---------------------------------------------------------------------------------
    exp = exponential.exponential
    log = roots.logarithm
    sqrt = roots.square_root
    rsqrt = roots.inverse_square_root
    reciprocal = quotient.reciprocal
    div = quotient.divide
    pow = powers.power
    sin = trigonometric.sine
    cos = trigonometric.cosine
    tan = trigonometric.tangent
    pieces = lines.pieces
    between = lines.between
    sign = lines.sign
    halves = lines.halves
    sigmoid = sigmoids.sigmoid
    tanh = sigmoids.tanh
    erf = sigmoids.erf
    gelu = sigmoids.gelu
    gelu_slope = sigmoids.gelu_slope
    gelu_tanh = sigmoids.gelu_tanh
    gelu_tanh_slope = sigmoids.gelu_tanh_slope
    silu = sigmoids.silu
    silu_slope = sigmoids.silu_slope
    mish = sigmoids.mish
    mish_slope = sigmoids.mish_slope
    softplus = sigmoids.softplus
    logsigmoid = sigmoids.logsigmoid
    softmax = proportion.softmax
    log_softmax = proportion.log_softmax
    logsumexp = proportion.logsumexp
    proportions = proportion.proportions

    def operand(self, x: Operand) -> Value:
        """x as a value."""
        return x if isinstance(x, Value) else self.public(torch.as_tensor(x))
