"""torch's functions of secret tensors and their gradients, beside plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from .comparison import check, on_secrets, tensor

X, Y = tensor(3, 4, seed=1, scale=3), tensor(3, 4, seed=2, scale=3)
P = X.abs() + 0.2
U = tensor(3, 4, seed=3).sigmoid() * 0.8 + 0.1

CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "exp": (torch.exp, (X,)),
    "expm1": (torch.expm1, (X,)),
    "exp2": (torch.exp2, (X,)),
    "log": (torch.log, (P,)),
    "log2": (torch.log2, (P,)),
    "log10": (torch.log10, (P,)),
    "log1p": (torch.log1p, (P,)),
    "sqrt": (torch.sqrt, (P,)),
    "rsqrt": (torch.rsqrt, (P,)),
    "reciprocal": (torch.reciprocal, (P,)),
    "div": (torch.div, (X, P)),
    "div by a number": (lambda x: x / 3, (X,)),
    "number over": (lambda x: 5 / x, (P,)),
    "public over": (lambda x: Y / x, (P,)),
    "over public": (lambda x: x / P, (X,)),
    "pow 2": (lambda x: x**2, (X,)),
    "pow 3": (lambda x: x**3, (X,)),
    "pow 0": (lambda x: x**0 + x, (X,)),
    "pow -1": (lambda x: x**-1, (P,)),
    "pow 1/2": (lambda x: x**0.5, (P,)),
    "pow 2.3": (lambda x: x**2.3, (P,)),
    "pow of both": (torch.pow, (P, U)),
    "pow of a number": (lambda x: 2.5**x, (X,)),
    "pow by public": (lambda x: x ** torch.tensor([1.0, 2.0, 3.0, 4.0]), (X,)),
    "sigmoid": (torch.sigmoid, (X,)),
    "tanh": (torch.tanh, (X,)),
    "erf": (torch.erf, (X,)),
    "erfc": (torch.erfc, (X,)),
    "sin": (torch.sin, (X,)),
    "cos": (torch.cos, (X,)),
    "tan": (torch.tan, (U,)),
    "sinh": (torch.sinh, (X,)),
    "cosh": (torch.cosh, (X,)),
    "atanh": (torch.atanh, (U,)),
    "logit": (torch.logit, (U,)),
    "logit with eps": (lambda x: torch.logit(x, 0.3), (U,)),
    "xlogy": (torch.xlogy, (X, P)),
    "logaddexp": (torch.logaddexp, (X, Y)),
    "logaddexp2": (torch.logaddexp2, (X, Y)),
    "hypot": (torch.hypot, (X, Y)),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=0.3), (X, Y, P)),
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.3), (X, Y, P)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), (X, Y)),
    "lerp of three": (torch.lerp, (X, Y, U)),
    "abs": (torch.abs, (X,)),
    "sign": (lambda x: torch.sign(x) + x, (X,)),
    "gelu": (F.gelu, (X,)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,)),
    "silu": (F.silu, (X,)),
    "mish": (F.mish, (X,)),
    "softplus": (F.softplus, (X,)),
    "softplus 2": (lambda x: F.softplus(x, 2.0), (X,)),
    "logsigmoid": (F.logsigmoid, (X,)),
    "softsign": (F.softsign, (X,)),
    "tanhshrink": (F.tanhshrink, (X,)),
    "leaky relu": (lambda x: F.leaky_relu(x, 0.1), (X,)),
    "leaky relu in place": (lambda x: F.leaky_relu(x * 1, 0.1, inplace=True), (X,)),
    "prelu": (F.prelu, (X, U[0])),
    "hardtanh": (F.hardtanh, (X,)),
    "relu6": (F.relu6, (X * 2,)),
    "hardsigmoid": (F.hardsigmoid, (X,)),
    "hardswish": (F.hardswish, (X,)),
    "softshrink": (F.softshrink, (X,)),
    "hardshrink": (F.hardshrink, (X,)),
    "threshold": (lambda x: F.threshold(x, 0.5, -1.0), (X,)),
    "elu": (lambda x: F.elu(x, 0.7), (X,)),
    "elu in place": (lambda x: F.elu(x * 1, inplace=True), (X,)),
    "selu": (F.selu, (X,)),
    "celu": (lambda x: F.celu(x, 2.0), (X,)),
    "leaky relu of relu": (lambda x: F.leaky_relu(F.relu(x - 1), 0.1), (X,)),
    "elu of relu": (lambda x: F.elu(F.relu(x - 1)) + F.elu(x), (X,)),
    "two elus": (lambda x: F.elu(x, 0.5) * F.celu(x, 2.0), (X,)),
    "glu": (lambda x: F.glu(x, 1), (X,)),
    "softmax": (lambda x: x.softmax(-1), (X,)),
    "softmax of columns": (lambda x: x.softmax(0), (X,)),
    "softmin": (lambda x: F.softmin(x, 1), (X,)),
    "log_softmax": (lambda x: x.log_softmax(-1), (X,)),
    "logsumexp": (lambda x: x.logsumexp((0, 1)), (X,)),
    "logsumexp of rows": (lambda x: x.logsumexp(1, keepdim=True), (X,)),
}


def with_gradients(function: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """The value, and the gradients by all inputs of a weighted sum of it."""

    def program(*inputs: Tensor) -> list[Tensor]:
        value = function(*inputs)
        weights = torch.cos(torch.arange(value.numel(), dtype=torch.float32))
        (value * weights.reshape(value.shape)).sum().backward()
        return [value.detach(), *(x.grad for x in inputs if x.grad is not None)]

    return program


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    function, inputs = CASES[name]
    leaves = [x.clone().requires_grad_() for x in inputs]
    check(with_gradients(function), *leaves, absolute=2**-8, relative=2**-8)


SOME = [
    "div",
    "tanh",
    "gelu",
    "mish",
    "log_softmax",
    "softmax",
    "elu",
    "hardswish",
    "prelu",
    "hypot",
]


@pytest.mark.parametrize("name", SOME)
def test_by_three_parties(name):
    function, inputs = CASES[name]
    leaves = [x.clone().requires_grad_() for x in inputs]
    settings = {"protocol": "trio", "parties": 3}
    check(with_gradients(function), *leaves, absolute=2**-8, relative=2**-8, **settings)


def test_the_gradient_of_a_log_softmax_computes_no_exponential(monkeypatch):
    from tacit.fixedpoint import Numbers

    def refuse(*_: Any) -> Any:
        raise AssertionError("an exponential")

    monkeypatch.setattr(Numbers, "exp", refuse)
    leaf = X.clone().requires_grad_()
    check(with_gradients(lambda x: x.log_softmax(1)), leaf)


def test_integers_become_reals():
    whole = torch.tensor([[1, 2, 3], [4, 5, 6]])
    check(lambda x: (x.sqrt(), x.exp().log(), x / 2, 1 / x, x**-1.0), whole, absolute=2**-8)
    check(lambda x: (x**2, x**3, x.sign(), x.abs()), whole - 3)


def test_far_logits():
    """However far apart: masks are made of minus infinity."""
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.5, -1e4, 100.0], [7.0, 7.0, 7.0]])
    mask = torch.tensor([[False, True, False], [False, False, True], [False, False, False]])

    def program(x: Tensor) -> Tensor:
        return x.masked_fill(mask, float("-inf")).softmax(-1)

    found = on_secrets(program, logits)
    torch.testing.assert_close(found, program(logits), atol=2**-11, rtol=0)
