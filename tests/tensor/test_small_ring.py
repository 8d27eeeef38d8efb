"""A ring of 32 bits: functions of products whose division is pending, and norms of small numbers.

A pending division of f bits leaves little of such a ring, so a function must not add more bits to
its argument before it divides.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.tiers import FULL
from torch import Tensor
from torch.nn import functional as F

import tacit

BITS = (8, 10, 12)
UNITS = 24  # of 2^-f, for a result of magnitude 1; most runs stay below 13

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "exp": lambda x: torch.exp(-x.abs()),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "softplus": F.softplus,
    "sin": torch.sin,
    "erf": torch.erf,
    "atan": torch.atan,
    "log": lambda x: torch.log(x.abs() + 0.5),
    "sqrt": lambda x: torch.sqrt(x.abs() + 0.25),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.25),
    "reciprocal": lambda x: 1 / (x.abs() + 0.5),
    "quotient": lambda x: x / (x.abs() + 1),
    "layer norm": lambda x: F.layer_norm(x, (4,)),
    "rms norm": lambda x: F.rms_norm(x, (4,)),
    "variance": lambda x: x.var(-1),
    "largest": lambda x: x.amax(-1),
    "sorted": lambda x: x.sort(-1).values,
    "clamp": lambda x: x.clamp(-1, 1),
    "hardswish": F.hardswish,
    "relu": F.relu,
    "mean": lambda x: x.mean(-1),
    "cumsum": lambda x: x.cumsum(-1),
}


def numbers(fraction_bits: int, shape: tuple[int, ...], scale: float, seed: int) -> Tensor:
    """Random numbers that fixed point represents exactly."""
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (drawn * scale * 2**fraction_bits).round() / 2**fraction_bits


def of_products(session: tacit.Session, fraction_bits: int) -> dict[str, float]:
    """The largest error of each function of x y, in units, relative to results above 1."""
    plain = [numbers(fraction_bits, (64, 4), scale, seed) for scale, seed in ((1.0, 1), (1.2, 2))]
    x, y = (session.share(one.float(), owner=0) for one in plain)
    errors = {}
    for name, function in FUNCTIONS.items():
        wanted = function(plain[0] * plain[1])
        found = session.reveal(function(x * y)).double()
        relative = (found - wanted).abs() / wanted.abs().clamp(min=1)
        errors[name] = float(relative.max()) * 2**fraction_bits
    return errors


@pytest.mark.filterwarnings("ignore:precision")
@pytest.mark.parametrize("fraction_bits", BITS if FULL else [12])
def test_functions_of_products(fraction_bits):
    for errors in tacit.run(of_products, fraction_bits, ring=32, fraction_bits=fraction_bits):
        wrong = {name: error for name, error in errors.items() if error > UNITS}
        assert not wrong, f"units, with {fraction_bits} fraction bits"


def of_small_rows(session: tacit.Session, fraction_bits: int) -> dict[float, float]:
    """The largest error of a layer norm of rows with each deviation."""
    errors = {}
    for deviation in (0.02, 0.05, 0.2, 1.0, 2.0):
        x = numbers(fraction_bits, (64, 16), deviation, 3)
        wanted = F.layer_norm(x, (16,), eps=1e-6)
        found = session.reveal(F.layer_norm(session.share(x.float(), owner=0), (16,), eps=1e-6))
        errors[deviation] = float((found.double() - wanted).abs().max())
    return errors


@pytest.mark.filterwarnings("ignore:precision")
@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_the_norm_of_small_rows(protocol):
    """A unit is 2^-f / deviation of a row: the result is off by a few of those at most."""
    for fraction_bits in (10, 12):
        settings = {"ring": 32, "fraction_bits": fraction_bits, "protocol": protocol}
        for errors in tacit.run(of_small_rows, fraction_bits, **settings):
            for deviation, error in errors.items():
                allowed = (4 / deviation + 12) * 2.0**-fraction_bits
                assert error < allowed, f"{deviation}, with {fraction_bits} fraction bits"


def test_debug_mode_lets_statistics_leave_the_range():
    """1 / 0.02 is beyond 2^5; it only serves the gradient."""
    settings = {"ring": 32, "fraction_bits": 12, "protocol": "cleartext", "debug": True}
    tacit.run(of_small_rows, 12, **settings)
