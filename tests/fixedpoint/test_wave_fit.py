"""Sums of sines that follow a function: their error everywhere, and coefficients of fixed bits."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256

import pytest
import torch
from torch import Tensor

from tacit.fixedpoint.functions.quotient import inverse
from tacit.fixedpoint.functions.roots import LOGARITHMS, reciprocal_root
from tacit.fixedpoint.functions.wave_fit import MARGIN, Function, Waves, fitted

CASES = [
    (inverse, torch.reciprocal, True),
    (reciprocal_root, torch.rsqrt, True),
    (Decimal.sqrt, torch.sqrt, True),
    (LOGARITHMS["e"], torch.log, False),
]


def value(waves: Waves, u: Tensor) -> Tensor:
    total = torch.zeros_like(u)
    for i, (a, b) in enumerate(zip(waves.sines, waves.cosines, strict=True)):
        phase = (2 * i + 1) * torch.pi / 2 * u
        total += a * phase.sin() + b * phase.cos()
    return total


@pytest.mark.parametrize("octaves", [1, 2])
@pytest.mark.parametrize("tolerance", [2.0**-16, 2.0**-19])
@pytest.mark.parametrize(("function", "plain", "relative"), CASES)
def test_follows_the_function(function: Function, plain, relative, tolerance, octaves):
    """Also a little beyond both ends, where a threshold is not exact."""
    low, high = 2.0**-octaves * (1 - MARGIN / 2), 1 + MARGIN / 2
    u = torch.linspace(low, high, 5001, dtype=torch.float64)
    waves = fitted(function, octaves, tolerance, relative=relative)
    wanted = plain(u)
    error = (value(waves, u) - wanted).abs() / (wanted.abs() if relative else 1)
    assert error.max() <= 1.01 * tolerance
    assert len(waves.sines) <= 8
    assert sum(map(abs, waves.sines + waves.cosines)) <= 140


def test_coefficients_have_the_same_bits_on_every_machine():
    """Two evaluators with other coefficients would compute noise. The digest is of aarch64."""
    waves = [fitted(f, o, 2.0**-18, relative=r) for f, _, r in CASES for o in (1, 2)]
    bits = "".join(c.hex() for one in waves for c in one.sines + one.cosines)
    assert sha256(bits.encode()).hexdigest()[:16] == "b78368cac55c277f"
