"""Activation functions and dropout, with their gradients."""

from __future__ import annotations

import torch

from ....errors import RangeError
from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.encoding import TOO_LARGE, ZERO
from ....ring.drawn_numbers import scaled_mask
from ...operand import times
from ...table import implements

aten = torch.ops.aten

MOST_ALPHA = 10  # bits of the largest alpha of celu, which multiplies the error of e^x


@implements(aten.relu.default)
def relu(n: Numbers, self: Value) -> Value:
    """max(self, 0), by a comparison, whose bit is saved for the gradient."""
    value, bit = n.relu(self)
    return value.with_saved(positive=bit)


@implements(aten.threshold_backward.default)
def threshold_backward(n: Numbers, grad_output: Operand, self: Operand, threshold: float) -> Value:
    """grad where self > threshold, else 0; the bit of a relu is not computed again."""
    bit = self.saved.get("positive") if isinstance(self, Value) and threshold == 0 else None
    if bit is None:
        bit = n.less(threshold, self)
    return n.mul(bit, grad_output)


@implements(aten.gelu.default)
def gelu(n: Numbers, self: Value, *, approximate: str = "none") -> Value:
    """x Phi(x), exact or by the tanh formula; piecewise polynomials."""
    return n.gelu_tanh(self) if approximate == "tanh" else n.gelu(self)


@implements(aten.gelu_backward.default)
def gelu_backward(
    n: Numbers, grad_output: Operand, self: Value, *, approximate: str = "none"
) -> Value:
    """grad times gelu'(x), by piecewise polynomials."""
    slope = n.gelu_tanh_slope(self) if approximate == "tanh" else n.gelu_slope(self)
    return n.mul(grad_output, slope)


@implements(aten.silu.default)
def silu(n: Numbers, self: Value) -> Value:
    """x sigmoid(x)."""
    return n.silu(self)


@implements(aten.silu_backward.default)
def silu_backward(n: Numbers, grad_output: Operand, self: Value) -> Value:
    """grad times silu'(x)."""
    return n.mul(grad_output, n.silu_slope(self))


@implements(aten.mish.default)
def mish(n: Numbers, self: Value) -> Value:
    """x tanh(softplus(x))."""
    return n.mish(self)


@implements(aten.mish_backward.default)
def mish_backward(n: Numbers, grad_output: Operand, self: Value) -> Value:
    """grad times mish'(x)."""
    return n.mul(grad_output, n.mish_slope(self))


@implements(aten.softplus.default)
def softplus(n: Numbers, self: Value, beta: float = 1, threshold: float = 20) -> Value:
    """softplus(beta x) / beta. Beyond the threshold it equals x within a unit."""
    value = n.softplus(self if beta == 1 else n.mul(self, beta))
    return value if beta == 1 else n.div(value, beta)


@implements(aten.softplus_backward.default)
def softplus_backward(
    n: Numbers, grad_output: Operand, self: Value, beta: float, threshold: float
) -> Value:
    """grad sigmoid(beta x)."""
    return n.mul(grad_output, n.sigmoid(self if beta == 1 else n.mul(self, beta)))


@implements(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(n: Numbers, self: Value) -> tuple[Value, torch.Tensor]:
    """ln sigmoid(x), and an empty buffer where torch keeps e^-|x|."""
    return n.logsigmoid(self), torch.empty(0)


@implements(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(n: Numbers, grad_output: Operand, self: Value, buffer: object) -> Value:
    """grad sigmoid(-x)."""
    return n.mul(grad_output, n.sigmoid(n.neg(self)))


@implements(aten.glu.default)
def glu(n: Numbers, self: Value, dim: int = -1) -> Value:
    """The first half times the sigmoid of the second."""
    first, second = self.map_list(lambda part: part.chunk(2, dim))
    return n.mul(first, n.sigmoid(second))


# Lines ------------------------------------------------------------------------------------------


@implements(aten.hardtanh.default)
def hardtanh(n: Numbers, self: Value, min_val: float = -1, max_val: float = 1) -> Value:
    """self between two bounds."""
    return n.clamp(self, min_val, max_val)


@implements(aten.threshold.default)
def threshold(n: Numbers, self: Value, threshold: float, value: float) -> Value:
    """self where it is above the threshold, else the value."""
    return n.where(n.less(threshold, self), self, value)


def _positive(n: Numbers, x: Value) -> Value:
    """[x >= 0], saved with x for its gradient."""
    if "nonnegative" not in x.saved:
        x.saved["nonnegative"] = n.logical_not(n.less(x, 0))
    return x.saved["nonnegative"]


@implements(aten.leaky_relu.default)
def leaky_relu(n: Numbers, self: Value, negative_slope: float = 0.01) -> Value:
    """slope x + (1 - slope) max(x, 0)."""
    value, self.saved["nonnegative"] = n.relu(self)
    return n.add(n.mul(value, 1 - negative_slope), n.mul(self, negative_slope))


@implements(aten.leaky_relu_backward.default)
def leaky_relu_backward(
    n: Numbers, grad_output: Operand, self: Value, negative_slope: float, self_is_result: bool
) -> Value:
    """grad where x >= 0, else slope grad; the bit of the forward pass is reused."""
    chosen = n.mul(_positive(n, self), grad_output)
    return n.add(n.mul(chosen, 1 - negative_slope), times(n, grad_output, negative_slope))


@implements(aten._prelu_kernel.default)
def prelu(n: Numbers, self: Operand, weight: Operand) -> Value:
    """max(x, 0) + weight min(x, 0)."""
    x = n.settled(n.operand(self))
    value, x.saved["nonnegative"] = n.relu(x)
    if isinstance(self, Value):
        self.saved["nonnegative"] = x.saved["nonnegative"]
    return n.add(value, n.mul(n.sub(x, value), weight))


@implements(aten._prelu_kernel_backward.default)
def prelu_backward(
    n: Numbers, grad_output: Operand, self: Operand, weight: Operand
) -> tuple[Value, Value]:
    """The gradients by x and by the weight; the bit of the forward pass is reused."""
    x = n.operand(self)
    bit = _positive(n, x)
    grad = n.settled(n.operand(grad_output))
    upper = n.mul(bit, grad)
    lower = n.settled(n.sub(grad, upper))  # the gradient where x is negative
    return n.add(upper, n.mul(lower, weight)), n.mul(lower, x)


@implements(aten.hardtanh_backward.default)
def hardtanh_backward(
    n: Numbers, grad_output: Operand, self: Value, min_val: float, max_val: float
) -> Value:
    """grad where min_val < x < max_val, else 0."""
    return n.mul(n.between(self, min_val, max_val), grad_output)


@implements(aten.hardsigmoid.default)
def hardsigmoid(n: Numbers, self: Value) -> Value:
    """clamp(x + 3, 0, 6) / 6."""
    return n.mul(n.clamp(n.add(self, 3.0), 0.0, 6.0), 1 / 6)


@implements(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(n: Numbers, grad_output: Operand, self: Value) -> Value:
    """grad / 6 where -3 < x < 3, else 0."""
    return n.mul(n.mul(n.between(self, -3.0, 3.0), grad_output), 1 / 6)


@implements(aten.hardswish.default)
def hardswish(n: Numbers, self: Value) -> Value:
    """x clamp(x + 3, 0, 6) / 6."""
    x = n.settled(self)
    return n.mul(n.mul(x, n.clamp(n.add(x, 3.0), 0.0, 6.0)), 1 / 6)


@implements(aten.hardswish_backward.default)
def hardswish_backward(n: Numbers, grad_output: Operand, self: Value) -> Value:
    """The slope is 0, x / 3 + 1 / 2, or 1."""
    six_slopes = n.piecewise(self, [-3.0, 3.0], [(0, 0.0), (2, 3.0), (0, 6.0)])
    return n.mul(n.mul(grad_output, six_slopes), 1 / 6)


@implements(aten.softshrink.default)
def softshrink(n: Numbers, self: Value, lambd: float = 0.5) -> Value:
    """x - lambd above lambd, x + lambd below -lambd, else 0."""
    return n.piecewise(self, [-lambd, lambd], [(1, lambd), (0, 0.0), (1, -lambd)])


@implements(aten.hardshrink.default)
def hardshrink(n: Numbers, self: Value, lambd: float = 0.5) -> Value:
    """x where |x| > lambd, else 0."""
    unit = 2.0**-n.fraction_bits  # -lambd and lambd themselves are cut
    return n.piecewise(self, [-lambd, lambd + unit], [(1, 0.0), (0, 0.0), (1, 0.0)])


@implements(aten.softshrink_backward.default)
def softshrink_backward(n: Numbers, grad_output: Operand, self: Value, lambd: float) -> Value:
    """grad where |x| > lambd, else 0."""
    unit = 2.0**-n.fraction_bits
    outside = n.logical_not(n.between(self, -lambd - unit, lambd + unit))
    return n.mul(outside, grad_output)


@implements(aten.hardshrink_backward.default)
def hardshrink_backward(n: Numbers, grad_out: Operand, self: Value, lambd: float) -> Value:
    """grad where |x| > lambd, else 0."""
    return softshrink_backward(n, grad_out, self, lambd)


# ELU --------------------------------------------------------------------------------------------


@implements(aten.elu.default)
def elu(
    n: Numbers, self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Value:
    """scale max(x, 0) + alpha scale (e^(input_scale min(x, 0)) - 1)."""
    x = self if input_scale == 1 else n.mul(self, input_scale)
    positive, power, nonnegative = n.elu_parts(x)
    self.saved["nonnegative"], self.saved[f"power of {input_scale}"] = nonnegative, power
    if input_scale != 1:  # the scaled x has another precision
        positive = n.mul(nonnegative, self)
    above = n.mul(positive, scale)
    return n.add(above, n.mul(power, alpha * scale))


@implements(aten.celu.default)
def celu(n: Numbers, self: Value, alpha: float = 1.0) -> Value:
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0). Below 0, it is off by alpha units."""
    if not 2.0**-MOST_ALPHA <= abs(alpha) <= 2.0**MOST_ALPHA:
        raise RangeError(
            f"alpha={alpha}",
            limit=f"2^-{MOST_ALPHA} to 2^{MOST_ALPHA}: e^(x / alpha) would have no precision",
            remedy="for a large alpha, celu(x) is x; for a small one, relu(x)",
            number=TOO_LARGE if abs(alpha) > 1 else ZERO,
        )
    return elu(n, self, alpha, 1, 1 / alpha)


@implements(aten.elu_backward.default)
def elu_backward(
    n: Numbers,
    grad_output: Operand,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: Value,
) -> Value:
    """scale where x > 0, elsewhere input_scale alpha scale e^(input_scale x)."""
    x = self_or_result
    bit = _positive(n, x)
    if is_result:  # alpha scale (e^... - 1), where negative
        power = n.add(n.sub(x, n.mul(bit, x)), alpha * scale)
    else:
        key = f"power of {input_scale}"
        if key not in x.saved:
            x.saved[key] = n.elu_parts(x if input_scale == 1 else n.mul(x, input_scale))[1]
        power = n.mul(n.add(x.saved[key], 1.0), alpha * scale)
    slope = n.mul(power, input_scale)
    # At x >= 0 the power is 1, and the slope alpha scale input_scale.
    rest = n.mul(n.convert(bit, torch.int64), scale - alpha * scale * input_scale)
    return n.mul(grad_output, n.add(slope, n.convert(rest, slope.dtype)))


# Dropout, whose mask is public: all parties draw the same ----------------------------------------


@implements(aten.native_dropout.default)
def native_dropout(
    n: Numbers, input: Value, p: float, train: bool | None
) -> tuple[Value, torch.Tensor]:
    """input mask / (1 - p), and the mask. Local."""
    if train is False or p == 0:
        return input, torch.ones(input.shape, dtype=torch.bool)
    if p == 1:
        return n.mul(input, 0), torch.zeros(input.shape, dtype=torch.bool)
    mask = n.uniform(input.shape) >= p
    return n.mul(input, scaled_mask(mask, 1 / (1 - p), torch.float64)), mask


@implements(aten.native_dropout_backward.default)
def native_dropout_backward(
    n: Numbers, grad_output: Operand, mask: torch.Tensor, scale: float
) -> Value:
    """grad mask scale. Local."""
    return n.mul(grad_output, scaled_mask(mask, scale, torch.float64))
