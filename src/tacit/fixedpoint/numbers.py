"""The façade of the package: all arithmetic on the values of a session.

The tensor layer computes with these methods only. An operand is a value or a public number; public
operands cost less. All parties call the same methods in the same order. Each method is a function
of the module named here; its docstring states domain, error bound and rounds.
"""

from __future__ import annotations

from . import (
    arithmetic,
    compare,
    guard,
    indexing,
    logic,
    lookup,
    norm,
    order,
    pool,
    public_random,
    recurrent,
    reduce,
    rounding,
    sampling,
    shared_norm,
    shuffle,
    transfer,
    value,
    wavefront,
    words,
)
from . import attention as attention_module
from .format import Format
from .functions import activations, exponential, powers, quotient, roots, trigonometric
from .functions import piecewise as piecewise_module
from .functions import softmax as softmax_module


class Numbers(Format):
    """Fixed-point numbers over a protocol, with their arithmetic."""

    # Input and output --------------------------------------------------------------------------
    checked_input = transfer.checked_input
    share = transfer.share
    share_many = transfer.share_many
    mark_parameters = transfer.mark_parameters
    reveal = transfer.reveal
    reveal_many = transfer.reveal_many
    share_words = words.share_words
    watch = guard.watch
    check = guard.check

    # Operands in one form ----------------------------------------------------------------------
    public = value.public
    operand = value.operand
    convert = value.convert
    settled = value.settled
    combined = value.combined
    result_dtype = staticmethod(value.result_dtype)

    # Arithmetic --------------------------------------------------------------------------------
    add = arithmetic.add
    sub = arithmetic.sub
    neg = arithmetic.neg
    mul = arithmetic.mul
    square = arithmetic.square
    sum = arithmetic.sum_
    cumsum = arithmetic.cumsum
    matmul = arithmetic.matmul
    bilinear = arithmetic.bilinear
    bilinears = arithmetic.bilinears
    conv = arithmetic.conv
    conv_transpose = arithmetic.conv_transpose
    conv_grads = arithmetic.conv_grads
    max_pool = pool.max_pool
    max_pool_backward = pool.max_pool_backward
    sum_pool = pool.sum_pool
    sum_pool_backward = pool.sum_pool_backward
    normalise = norm.normalise
    normalise_backward = norm.normalise_backward
    fixed_norm = norm.fixed_norm
    norm_inputs = shared_norm.norm_inputs
    keep_shared_norm = staticmethod(shared_norm.keep_shared_norm)
    apply_norm = norm.apply_norm
    mul_extended = norm.mul_extended
    round_extended = norm.round_extended
    scale_gradient = norm.scale_gradient
    attention = attention_module.attention
    attention_backward = attention_module.attention_backward
    split_heads = staticmethod(attention_module.split_heads)
    join_heads = staticmethod(attention_module.join_heads)
    repeat_heads = staticmethod(attention_module.repeat_heads)
    sum_repeated_heads = attention_module.sum_repeated_heads
    lstm = recurrent.lstm
    lstm_backward = recurrent.lstm_backward
    recurrent = wavefront.recurrent

    # Public random numbers ---------------------------------------------------------------------
    uniform = public_random.uniform
    normal = public_random.normal
    public_words = public_random.words

    # Random numbers that no party knows -----------------------------------------------------------
    random_integers = sampling.random_integers
    random_below = sampling.random_below
    random_uniform = sampling.random_uniform
    random_truths = sampling.random_truths
    random_geometric = sampling.random_geometric
    random_exponential = sampling.random_exponential
    random_discrete_laplace = sampling.random_discrete_laplace
    random_laplace = sampling.random_laplace
    random_discrete_normal = sampling.random_discrete_normal
    random_normal = sampling.random_normal
    random_normal_units = sampling.random_normal_units
    shuffle = shuffle.shuffle

    # Reductions, order and indexing ------------------------------------------------------------
    replace = indexing.replace
    reduced_shape = staticmethod(reduce.reduced_shape)
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
    sort_by = order.sort_by
    kth_smallest = order.kth_smallest
    one_hot = lookup.one_hot
    take_rows = lookup.take_rows
    take_rows_backward = lookup.take_rows_backward
    gather = indexing.gather
    scatter = indexing.scatter
    scatter_add = indexing.scatter_add

    # Comparisons and choices -------------------------------------------------------------------
    less = compare.less
    equal = compare.equal
    equal_words = words.equal_words
    bits_of_integers = words.bits_of_integers
    logical_not = logic.logical_not
    logical_and = logic.logical_and
    logical_or = logic.logical_or
    logical_xor = logic.logical_xor
    where = compare.where
    relu = compare.relu
    absolute = compare.absolute
    clamp = compare.clamp
    maximum = compare.maximum
    minimum = compare.minimum

    # Integer parts -----------------------------------------------------------------------------
    floor = rounding.floor
    ceil = rounding.ceil
    trunc = rounding.trunc
    round = rounding.nearest
    frac = rounding.frac
    floor_divide = rounding.floor_divide
    trunc_divide = rounding.trunc_divide
    remainder = rounding.remainder
    fmod = rounding.fmod

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
    atan2 = trigonometric.angle
    atan = trigonometric.arc_tangent
    asin = trigonometric.arc_sine
    acos = trigonometric.arc_cosine
    asinh = trigonometric.hyperbolic_arc_sine
    acosh = trigonometric.hyperbolic_arc_cosine
    vector_norm = roots.vector_norm
    piecewise = piecewise_module.piecewise
    between = piecewise_module.between
    sign = piecewise_module.sign
    elu_parts = piecewise_module.elu_parts
    sigmoid = activations.sigmoid
    tanh = activations.tanh
    erf = activations.erf
    gelu = activations.gelu
    gelu_slope = activations.gelu_slope
    gelu_tanh = activations.gelu_tanh
    gelu_tanh_slope = activations.gelu_tanh_slope
    silu = activations.silu
    silu_slope = activations.silu_slope
    mish = activations.mish
    mish_slope = activations.mish_slope
    softplus = activations.softplus
    logsigmoid = activations.logsigmoid
    softmax = softmax_module.softmax
    log_softmax = softmax_module.log_softmax
    logsumexp = softmax_module.logsumexp
    softmax_of_powers = softmax_module.softmax_of_powers
