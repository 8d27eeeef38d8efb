"""Sums, products, comparisons and functions of CrypTen's tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .wrapping import Wrapped, in_place, operands, real, same, same_of_reals


class Arithmetic(Wrapped):
    """Methods that compute element by element, and products."""

    # Sums and products ----------------------------------------------------------------------------

    add, sub = same("add", tensor="other"), same("sub", tensor="other")
    mul, div = same("mul", tensor="other"), same("div", tensor="other", y="other")
    neg, abs, square = same("neg"), same("abs"), same("square")
    matmul, outer = same_of_reals("matmul", tensor="other"), same_of_reals("outer", y="vec2")
    ger = outer
    add_, sub_, mul_, div_ = in_place("add"), in_place("sub"), in_place("mul"), in_place("div")
    neg_, square_, abs_ = in_place("neg"), in_place("square"), in_place("abs")
    __add__ = __radd__ = add
    __mul__ = __rmul__ = mul
    __sub__, __truediv__, __matmul__, __neg__, __abs__ = sub, div, matmul, neg, abs
    __iadd__, __isub__, __imul__, __itruediv__ = add_, sub_, mul_, div_
    __imatmul__ = matmul  # CrypTen's is not in place

    def __rsub__(self, other: Any) -> Any:
        return self.neg().add(other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.wrapped(operands(other) / self.real)

    def __rmatmul__(self, other: Any) -> Any:
        return self.wrapped(torch.matmul(real(other), self.real))

    def dot(self, y: Any, weights: Any = None) -> Any:
        """Returns the sum of the products of two vectors, with `weights` if given."""
        x = self if weights is None else self.mul(weights)
        return self.wrapped(torch.dot(x.real, real(y)))

    # Powers ---------------------------------------------------------------------------------------

    def pow(self, p: Any) -> Any:
        """Returns the tensor to the power p; for other powers than integers it must be positive."""
        if isinstance(p, Wrapped):
            return self.pos_pow(p)
        return self.wrapped(torch.pow(self.real, real(p)))

    pow_ = in_place("pow")
    __pow__, __ipow__ = pow, pow_

    def pos_pow(self, p: Any) -> Any:
        """Returns the tensor to the power p, where all numbers are positive."""
        if isinstance(p, int | float):
            return self.pow(p)
        return self.wrapped(torch.exp(torch.log(self.real) * real(p)))

    def __rpow__(self, base: float) -> Any:
        return self.wrapped(torch.pow(base, self.real))

    def polynomial(self, coeffs: Any, func: str = "mul") -> Any:
        """Returns c[0] x + c[1] x^2 + ...: there is no constant term. `func` is ignored."""
        given = operands(coeffs)
        terms = given.unbind() if isinstance(given, Tensor) else given
        result: Any = 0
        for one in reversed(terms):  # Horner's scheme
            result = (result + one) * self.real
        return self.wrapped(result)

    # Comparisons: 1 and 0 -------------------------------------------------------------------------

    eq, ne, lt = same("eq", y="other"), same("ne", y="other"), same("lt", y="other")
    le, gt, ge = same("le", y="other"), same("gt", y="other"), same("ge", y="other")
    __eq__ = eq
    __ne__ = ne
    __lt__, __le__, __gt__, __ge__ = lt, le, gt, ge
    __hash__ = object.__hash__

    def sign(self) -> Any:
        """Returns -1 for negative numbers and 1 for others, also for 0. Its gradient is 0."""
        signs = 1 - 2 * (self.secret < 0).to(self.secret.dtype)
        return self.wrapped(signs + 0 * self.secret if self.secret.requires_grad else signs)

    def where(self, condition: Any, y: Any) -> Any:
        """Returns this tensor where the condition is 1, and y where it is 0."""
        if isinstance(condition, Wrapped):
            other = real(y)
            return self.wrapped(condition.real * (self.real - other) + other)
        return self.wrapped(torch.where(condition.bool(), self.real, _as_real(y)))

    # Functions ------------------------------------------------------------------------------------

    exp, sqrt = same_of_reals("exp"), same_of_reals("sqrt")
    inv_sqrt, sin, cos = same_of_reals("rsqrt"), same_of_reals("sin"), same_of_reals("cos")
    sigmoid, tanh, erf = same_of_reals("sigmoid"), same_of_reals("tanh"), same_of_reals("erf")
    relu = same("relu")
    relu_ = in_place("relu")

    def log(self, input_in_01: bool = False) -> Any:
        """Returns the natural logarithm. `input_in_01` is ignored, as in `reciprocal`."""
        return self.wrapped(self.real.log())

    def reciprocal(self, input_in_01: bool = False) -> Any:
        """Returns 1 / x. `input_in_01` is ignored: no range is easier than another."""
        return self.wrapped(self.real.reciprocal())

    reciprocal_ = in_place("reciprocal")

    def cossin(self) -> tuple[Any, Any]:
        """Returns the cosine and the sine."""
        return self.cos(), self.sin()

    def softmax(self, dim: int, **options: Any) -> Any:
        """Returns e^x over its sum along a dimension."""
        return self.wrapped(self.real.softmax(dim))

    def log_softmax(self, dim: int, **options: Any) -> Any:
        """Returns the logarithm of `softmax`."""
        return self.wrapped(self.real.log_softmax(dim))

    def hardtanh(self, min_value: float = -1, max_value: float = 1) -> Any:
        """Returns x, or the bound that it is beyond."""
        return self.wrapped(torch.nn.functional.hardtanh(self.real, min_value, max_value))

    def relu6(self) -> Any:
        """Returns x from 0 to 6, or the bound that it is beyond."""
        return self.hardtanh(0, 6)


def _as_real(value: Any) -> Any:
    found = real(value)
    return found if isinstance(found, Tensor) else torch.tensor(float(found))
