"""Smooth activations: sigmoid, tanh, erf, GELU, SiLU, Mish, softplus, and their derivatives.

Each is a sine series between two lines (sine_series.py). r + 1 rounds with a dealer, and 2 for few
elements if both lines are constant; errors between 1.8e-5 (erf) and 7.3e-4 (SiLU, Mish) for 16
fraction bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import torch
from torch import Tensor

from ..format import Format
from ..value import Value
from .series_fit import Curve
from .sine_series import curve_value

UP = (0, 1.0)
IDENTITY = (1, 0.0)


def _normal_density(x: Tensor) -> Tensor:
    return torch.exp(-x * x / 2) / sqrt(2 * pi)


def _gelu_slope(x: Tensor) -> Tensor:
    return (1 + torch.erf(x / sqrt(2))) / 2 + x * _normal_density(x)


def _gelu_tanh(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def _gelu_tanh_slope(x: Tensor) -> Tensor:
    inner, slope = sqrt(2 / pi) * (x + 0.044715 * x**3), sqrt(2 / pi) * (1 + 0.134145 * x**2)
    t = torch.tanh(inner)
    return (1 + t) / 2 + x / 2 * (1 - t * t) * slope


def _silu_slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


def _mish_slope(x: Tensor) -> Tensor:
    t = torch.tanh(torch.nn.functional.softplus(x))
    return t + x * (1 - t * t) * torch.sigmoid(x)


CURVES = {
    "sigmoid": Curve(torch.sigmoid, right=UP),
    "tanh": Curve(torch.tanh, (0, -1.0), UP),
    "erf": Curve(torch.erf, (0, -1.0), UP),
    "gelu": Curve(torch.nn.functional.gelu, right=IDENTITY),
    "gelu_slope": Curve(_gelu_slope, right=UP),
    "gelu_tanh": Curve(_gelu_tanh, right=IDENTITY),
    "gelu_tanh_slope": Curve(_gelu_tanh_slope, right=UP),
    "silu": Curve(torch.nn.functional.silu, right=IDENTITY),
    "silu_slope": Curve(_silu_slope, right=UP),
    "mish": Curve(torch.nn.functional.mish, right=IDENTITY),
    "mish_slope": Curve(_mish_slope, right=UP),
    "softplus": Curve(torch.nn.functional.softplus, right=IDENTITY),
    "logsigmoid": Curve(torch.nn.functional.logsigmoid, left=IDENTITY),
}


def _named(name: str) -> Callable[[Format, Value], Value]:
    def activation(n: Format, x: Value) -> Value:
        return curve_value(n, x, CURVES[name])

    activation.__name__, activation.__doc__ = name, f"Returns the curve `{name}` at x."
    return activation


sigmoid = _named("sigmoid")
tanh = _named("tanh")
erf = _named("erf")
gelu = _named("gelu")
gelu_slope = _named("gelu_slope")
gelu_tanh = _named("gelu_tanh")
gelu_tanh_slope = _named("gelu_tanh_slope")
silu = _named("silu")
silu_slope = _named("silu_slope")
mish = _named("mish")
mish_slope = _named("mish_slope")
softplus = _named("softplus")
logsigmoid = _named("logsigmoid")
