"""Functions of secrets against float64: with a dealer and without, errors, rounds, determinism."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tacit.errors import PartyFailed
from tacit.protocols.derived import functions
from tacit.protocols.derived.piecewise import Line
from tacit.protocols.share import Arith
from tacit.protocols.steps import Interactive
from tacit.ring.deterministic import odd_harmonics, power_of_half, stacked_harmonics

from .plaintexts import EVERYWHERE, RINGS, close, evaluate, integers

F = 16
ONE = 1 << F
# Odd sine series on a quarter of the period, L: c_h = 2/L times the integral of f(t) sin(h ...).
SIGMOID = [0.598050780, 0.126488873, 0.0360613127, 0.0104399603, 0.00306854051]
SIGMOID += [0.000872867058, 0.000269652908]  # L = 8
TANH = [2 * c for c in SIGMOID]  # L = 4
ERF = [1.22508635, 0.299984013, 0.0971302922, 0.0275032893, 0.00622946706]
ERF += [0.0010903444, 0.000144987758, 0.0000145054569]  # L = 4

slow_fourier = Interactive(functions.fourier, Arith)
slow_exp = Interactive(functions.exp_negative, Arith)


def encoded(x: Tensor, bits: int = F) -> Tensor:
    return (x * 2.0**bits).round().to(torch.int64)


def grid(low: float, high: float, count: int = 4001) -> Tensor:
    return encoded(torch.linspace(low, high, count, dtype=torch.float64))


def series(x: Tensor, coefficients: list[float], period: float) -> Tensor:
    terms = (c * (2 * pi * (2 * i + 1) / period * x).sin() for i, c in enumerate(coefficients))
    return sum(terms, torch.zeros_like(x))


def error(found: Tensor, wanted: Tensor, bits: int = F) -> float:
    assert found.shape == wanted.shape
    return float((found.double() / 2**bits - wanted).abs().max())


# Pieces ------------------------------------------------------------------------------------------


@EVERYWHERE
@RINGS
def test_piecewise(protocol, by, ring):
    x = integers((67,), 5000, 1)
    hat = [Line(0, 7), Line(3, -2), Line(-1, 1 << 20), Line(0, 0)]
    steps = [Line(0, value) for value in (5, -(1 << 20), 9, 0)]
    thresholds = [-100, 0, 3000]

    def program(p: Any, x: Any) -> list[Any]:
        first, second = p.piecewise(x, thresholds, [hat, steps])
        [line] = p.piecewise(x, [], [[Line(-2, 5)]])
        [divided] = p.piecewise(p.mul(x, x, shift=8), [4], [[Line(0, 0), Line(1, 0)]])
        return [first, second, line, divided]

    found, _ = evaluate(program, x, protocol=protocol, by=by, ring=ring, limit=5000)
    piece = sum((x >= t).long() for t in thresholds)
    for a, lines in zip(found[:2], (hat, steps), strict=True):
        scale, offset = (torch.tensor(column)[piece] for column in zip(*lines, strict=True))
        assert torch.equal(a.long(), scale * x + offset)
    assert torch.equal(found[2].long(), 5 - 2 * x)
    square = (x * x).double() / 256
    close(found[3], torch.where(square < 4, 0, square), 4)
    away = (square - 4).abs() > 1
    close(found[3][away], torch.where(square < 4, 0, square)[away], 1)


@EVERYWHERE
@RINGS
def test_normalise(protocol, by, ring):
    low, high = 9, 21
    powers = [1 << e for e in range(low, high)]
    edges = torch.tensor([v for p in powers for v in (p, p + 1, 2 * p - 1)])
    exponent = edges.double().log2().floor().long()
    tables = [[e * e for e in range(low, high)], [-(1 << e) for e in range(low, high)]]

    def program(p: Any, x: Any) -> list[Any]:
        value, entries = p.normalise(x, low, high, tables)
        assert value.limit <= 1 << high
        return [value, *entries]

    found, rounds = evaluate(program, edges, protocol=protocol, by=by, ring=ring)
    assert rounds == 3 or protocol != "trio"
    wanted = [edges << (high - 1 - exponent), exponent * exponent, -(1 << exponent)]
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a.long(), b)
    assert (found[0] >= 1 << (high - 1)).all()


@EVERYWHERE
def test_normalise_over_a_wide_range(protocol, by):
    """Coefficients beyond the ring wrap like everything else."""
    x = torch.tensor([1, 2, 3, 1000, (1 << 39) - 1, 1 << 39, (1 << 40) - 1])

    def program(p: Any, x: Any) -> list[Any]:
        value, [entry] = p.normalise(x, 0, 40, [[1 << e for e in range(40)]])
        return [value, entry]

    [value, entry], _ = evaluate(program, x, protocol=protocol, by=by)
    power = 1 << x.double().log2().floor().long()
    power[-1] = 1 << 39  # the logarithm rounds up
    power[-3] = 1 << 38
    assert torch.equal(entry, power)
    assert torch.equal(value, x * ((1 << 39) // power))


def test_normalise_quotients():
    x = integers((50,), 1000, 3).abs() + 8

    def program(p: Any, x: Any) -> list[Any]:
        value, [entry] = p.normalise(p.mul(x, x, shift=4), 2, 16, [list(range(2, 16))])
        return [value, entry]

    [value, entry], rounds = evaluate(program, x, limit=1008)
    assert rounds == 1 + 3
    close(value, (x * x / 16) * 2.0 ** (15 - entry), float(2 ** (15 - int(entry.min()))))


# Series ------------------------------------------------------------------------------------------

RISES = {  # function, coefficients, log2 of the quarter, tails, offset, bound of the error
    "sigmoid": (torch.sigmoid, SIGMOID, 3, (0, ONE), ONE // 2, 3.4e-4),
    "tanh": (torch.tanh, TANH, 2, (-ONE, ONE), 0, 6.7e-4),
    "erf": (torch.erf, ERF, 2, (-ONE, ONE), 0, 1.8e-5),
}


@pytest.mark.parametrize("name", RISES)
@EVERYWHERE
def test_saturated(name, protocol, by):
    function, coefficients, quarter, tails, offset, bound = RISES[name]
    x = grid(-20, 20)

    def program(p: Any, x: Any) -> Any:
        return p.saturated(
            x,
            coefficients,
            period_bits=F + quarter + 2,
            fraction_bits=F,
            tails=tails,
            offset=offset,
        )

    [found], rounds = evaluate(program, x, protocol=protocol, by=by, limit=20 << F)
    without_dealer = functions.TOLERANCE if protocol != "trio" else 0
    assert error(found, function(x.double() / ONE)) <= 1.5 * bound + without_dealer
    assert rounds == 3 or protocol != "trio"


@pytest.mark.parametrize(
    ("ring", "bits", "largest"), [(64, 16, 1 << 20), (64, 20, 9), (32, 11, 600), (32, 11, 1 << 15)]
)
@pytest.mark.parametrize("name", RISES)
def test_saturated_of_few(name, ring, bits, largest):
    """Two rounds, whatever the range, with a division pending or not: both tails and their ends."""
    function, coefficients, quarter, tails, offset, bound = RISES[name]
    ends = torch.tensor([2.0**quarter, largest], dtype=torch.float64)
    ends = torch.cat([ends, -ends, ends - 2.0**-bits, 2.0**-bits - ends])
    x = encoded(torch.cat([torch.linspace(-9, 9, 900, dtype=torch.float64), ends]), bits)

    def program(p: Any, x: Any) -> list[Any]:
        def call(x: Any) -> Any:
            return p.saturated(
                x,
                coefficients,
                period_bits=bits + quarter + 2,
                fraction_bits=bits,
                tails=tuple(t >> F << bits for t in tails),
                offset=offset << bits >> F,
            )

        results = [call(x), call(p.mul_public(x, 1 << 3).divided(3))]
        assert not any(result.pending for result in results)
        return results

    found, rounds = evaluate(program, x, ring=ring, limit=largest << bits)
    assert rounds == 4
    for one in found:
        wanted = function(x.double() / 2**bits)
        assert error(one, wanted, bits) <= bound + 1.1 / 2**bits + (ring == 32) * 2**-11


@pytest.mark.parametrize("protocol", ["trio", "cleartext"])
@pytest.mark.parametrize("truncation", ["exact", "probabilistic"])
def test_fourier_times_a_factor(protocol, truncation):
    x = grid(-8, 8, 501)

    def program(p: Any, x: Any) -> Any:
        return p.fourier(x, SIGMOID, period_bits=F + 5, fraction_bits=F, factor=x.promise(8 << F))

    [found], rounds = evaluate(program, x, protocol=protocol, limit=8 << F, truncation=truncation)
    plain = x.double() / ONE
    wanted = plain * series(plain, SIGMOID, 32)
    slack = functions.TOLERANCE if protocol != "trio" else 0
    assert error(found, wanted, 2 * F) <= 8 * (slack + 1.1 / ONE)
    assert rounds == (1 if truncation == "exact" else 2) or protocol != "trio"


def test_saturated_without_tails():
    """If x is promised to lie inside, nothing is compared."""
    x = grid(-8, 8)

    def program(p: Any, x: Any) -> Any:
        return p.saturated(x, SIGMOID, period_bits=F + 5, fraction_bits=F, tails=(0, 9))

    [found], rounds = evaluate(program, x, limit=8 << F)
    assert rounds == 1
    assert error(found, series(x.double() / ONE, SIGMOID, 32)) <= 1.1 / ONE


@pytest.mark.parametrize(
    ("ring", "bits", "bound"), [(64, 16, 1.6e-5), (64, 24, 8e-8), (32, 11, 1e-3)]
)
def test_fourier(ring, bits, bound):
    """The error is one unit, and that of factors of 30 or 14 bits; over many periods."""
    x = encoded(torch.linspace(-100, 100, 4001, dtype=torch.float64), bits)

    def program(p: Any, x: Any) -> Any:
        return p.fourier(x, ERF, period_bits=bits + 4, fraction_bits=bits)

    [found], rounds = evaluate(program, x, ring=ring)
    assert rounds == 1
    assert error(found, series(x.double() / 2**bits, ERF, 16), bits) <= bound


def test_fourier_with_cosines():
    """Cosines of the same phases cost nothing more: the same message, also from the dealer."""
    x, sines, cosines = grid(-30, 30), [0.5, -2.0, 0.0], [3.0, 0.0, -0.25]

    def program(p: Any, x: Any) -> Any:
        return p.fourier(x, sines, cosines=cosines, period_bits=F + 3, fraction_bits=F)

    [found], rounds = evaluate(program, x, limit=30 << F)
    plain = x.double() / ONE
    assert rounds == 1
    # A cosine is a sine a quarter period later; harmonics 1 and 5 are even quarters apart.
    later = series(plain + 2, [3.0, 0.0, -0.25], 8)
    assert error(found, series(plain, sines, 8) + later) <= 1.1 / ONE


def test_fourier_of_a_quotient():
    """The phase of a pending product: its division costs no round and is not rounded."""
    x = grid(-3, 3)

    def program(p: Any, x: Any) -> Any:
        product = p.mul(x, x, shift=F)
        return p.fourier(product, [1.0], period_bits=F + 2, fraction_bits=F)

    [found], rounds = evaluate(program, x, limit=3 << F)
    assert rounds == 2
    assert error(found, ((x.double() / ONE) ** 2 * pi / 2).sin()) <= 1.1 / ONE


def test_other_roles():
    """A product that is pending under one dealer, used under another."""
    x = grid(-1, 0, 300)

    def program(p: Any, x: Any) -> list[Any]:
        product = p.mul(x, x, shift=F)
        other = p.rotated(1)
        with p.parallel():
            sine = other.fourier(product, [1.0], period_bits=F + 2, fraction_bits=F)
            power = other.exp_negative(p.neg(product), fraction_bits=F)
            p.relu(product)
        return [other.settled(sine), other.settled(power)]

    [sine, power], _ = evaluate(program, x, limit=ONE)
    square = (x.double() / ONE) ** 2
    assert error(sine, (square * pi / 2).sin()) <= 1.1 / ONE
    assert error(power, (-square).exp()) <= 1.1 / ONE


def test_sine_and_cosine():
    """A public factor of 2/pi with 6 more bits, then one harmonic; the cosine is a shift away."""
    x = grid(-100, 100)

    def program(p: Any, x: Any) -> list[Any]:
        turns = p.mul_public(x, round(2 / pi * 2 ** (F + 6))).divided(F)
        bits = F + 6 + 2
        shifted = p.add_public(turns, 1 << (bits - 2))
        with p.parallel():
            return [
                p.fourier(t, [1.0], period_bits=bits, fraction_bits=F) for t in (turns, shifted)
            ]

    [sine, cosine], rounds = evaluate(program, x, limit=100 << F)
    assert rounds == 1
    assert error(sine, (x.double() / ONE).sin()) <= 1.5 * 2.0e-5
    assert error(cosine, (x.double() / ONE).cos()) <= 1.5 * 2.0e-5


@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_fourier_without_a_dealer(protocol):
    """Folded from several periods, or not at all where the limit allows."""
    x = grid(-20, 20)

    def program(p: Any, x: Any) -> list[Any]:
        slow = slow_fourier.__get__(p)
        near = x.promise(8 << F)
        return [
            slow(x, ERF, period_bits=F + 4, fraction_bits=F),
            slow(near, SIGMOID, period_bits=F + 5, fraction_bits=F),
            slow(p.mul_public(x, 1 << 9).divided(9), [1.0], period_bits=F + 4, fraction_bits=F),
        ]

    found, _ = evaluate(program, x, protocol=protocol, limit=20 << F)
    plain = x.double() / ONE
    inside = plain.abs() <= 8
    bound = functions.TOLERANCE + 2 / ONE
    assert error(found[0], series(plain, ERF, 16)) <= bound
    assert error(found[1][inside], series(plain, SIGMOID, 32)[inside]) <= bound
    assert error(found[2], series(plain, [1.0], 16)) <= bound


# Exponentials ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ring", "bits", "extra", "end", "bound"),
    [
        (64, 16, 0, -22.1, 2.0e-5),
        (64, 22, 6, -22.1, 6.5e-7),
        (64, 22, 0, -33.2, 2.4e-7),
        (64, 24, 0, -38.7, 6e-8),
        (32, 12, 0, -33.2, 4e-4),
    ],
)
def test_exp_with_a_dealer(ring, bits, extra, end, bound):
    x = encoded(torch.linspace(end, 0.6, 8001, dtype=torch.float64), bits)

    def program(p: Any, x: Any) -> Any:
        return p.exp_negative(x, fraction_bits=bits, extra=extra)

    found, rounds = evaluate(program, x, ring=ring)
    assert rounds == 1
    assert error(found[0], (x.double() / 2**bits).exp(), bits) <= 1.5 * bound
    assert (found[0] >= 0).all()


@RINGS
def test_exp_of_a_quotient(ring):
    """In the ring of 64 bits the division is never made; that of 32 has no room for its bits."""
    bits = 16 if ring == 64 else 12
    x = encoded(torch.linspace(-3, 3, 1001, dtype=torch.float64), bits)

    def program(p: Any, x: Any) -> Any:
        return p.exp_negative(p.neg(p.mul(x, x, shift=bits)), fraction_bits=bits)

    [found], rounds = evaluate(program, x, ring=ring, limit=3 << bits)
    assert rounds == (2 if ring == 64 else 3)
    bound = 3e-5 if ring == 64 else 8e-4
    assert error(found, (-((x.double() / 2**bits) ** 2)).exp(), bits) <= bound


@pytest.mark.parametrize(
    ("ring", "bits", "bound"), [(64, 16, 4.5e-4), (64, 20, 1.2e-4), (32, 12, 5e-3)]
)
@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_exp_without_a_dealer(protocol, ring, bits, bound):
    x = encoded(torch.linspace(-50, 0, 4001, dtype=torch.float64), bits)

    def program(p: Any, x: Any) -> Any:
        return slow_exp.__get__(p)(x, fraction_bits=bits)

    [found], rounds = evaluate(program, x, ring=ring, protocol=protocol)
    assert error(found, (x.double() / 2**bits).exp(), bits) <= 1.5 * bound
    assert rounds == {64: 11, 32: 13}[ring] or protocol != "trio"


def test_probabilistic_division():
    """Factors are shorter, so that a division fails as rarely as that of any product."""
    x = grid(-8, 0, 501)

    def program(p: Any, x: Any) -> list[Any]:
        with p.parallel():
            sine = p.fourier(x, SIGMOID, period_bits=F + 5, fraction_bits=F)
            power = p.exp_negative(x, fraction_bits=F)
        assert not sine.pending
        slow = slow_fourier.__get__(p)(x, SIGMOID, period_bits=F + 5, fraction_bits=F)
        return [sine, power, slow_exp.__get__(p)(x, fraction_bits=F), slow]

    found, rounds = evaluate(program, x, limit=8 << F, truncation="probabilistic")
    plain = x.double() / ONE
    assert rounds == 1 + 6 + 5
    assert error(found[0], series(plain, SIGMOID, 32)) <= 4e-5
    assert error(found[1], plain.exp()) <= 1.5 * 2.0e-5
    assert error(found[2], plain.exp()) <= 1.5 * 4.5e-4
    assert error(found[3], series(plain, SIGMOID, 32)) <= functions.TOLERANCE + 4e-5


# Polynomials -------------------------------------------------------------------------------------


@EVERYWHERE
def test_chebyshev(protocol, by):
    logarithm = [-0.3166943676, 0.3431457505, -0.02943725152, 0.003367089256, -0.0004332758886]
    logarithm += [0.00005947071199, -0.000008502967541]
    y = grid(-1, 1, 501)

    def program(p: Any, y: Any) -> list[Any]:
        return [
            p.chebyshev(y, logarithm, argument_bits=F, fraction_bits=F),
            p.chebyshev(y, [0.5, -1.0], argument_bits=F, fraction_bits=F),
            p.chebyshev(y, [0, 0, 0, 0.25], argument_bits=F + 4, fraction_bits=F - 4),
        ]

    found, _ = evaluate(program, y, protocol=protocol, by=by, limit=ONE)
    plain = (y.double() / ONE).numpy()
    for a, coefficients, scale, bits in [
        (found[0], logarithm, 1, F),
        (found[1], [0.5, -1.0], 1, F),
        (found[2], [0, 0, 0, 0.25], 16, F - 4),
    ]:
        wanted = np.polynomial.chebyshev.chebval(plain / scale, coefficients)
        assert error(a, torch.from_numpy(wanted), bits) <= 2.5 / 2**bits


# What evaluators compute in floating point -------------------------------------------------------


@RINGS
def test_floats_do_not_depend_on_layout(ring):
    """Both evaluators must find the same factor, whatever their vectors and threads are."""
    dtype = torch.int32 if ring == 32 else torch.int64
    generator = torch.Generator().manual_seed(ring)
    x = torch.randint(-(2**31), 2**31, (40_001,), generator=generator).to(dtype)
    for i, [sine, cosine] in enumerate(odd_harmonics(x, 21, 8)):
        alone = list(odd_harmonics(x[7:20].clone(), 21, 8))[i]
        assert torch.equal(sine[7:20], alone[0])
        assert torch.equal(cosine[7:20], alone[1])
        assert (stacked_harmonics(x[7:20], 21, 8)[i] - torch.stack(alone)).abs().max() < 1e-12
        angle = (x.double() * (2 * i + 1)) % 2**21 * (2 * pi / 2**21)
        assert (sine - angle.sin()).abs().max() < 1e-12
        assert (cosine - angle.cos()).abs().max() < 1e-12
    fraction = x & 0xFFFF
    assert torch.equal(power_of_half(fraction, 16)[7:20], power_of_half(fraction[7:20], 16))
    wanted = torch.exp2(-fraction.double() / 2**16)
    assert (power_of_half(fraction, 16) - wanted).abs().max() < 1e-15


@RINGS
def test_whole_turns_of_the_ring(ring):
    """A period of all bits of the ring."""
    dtype = torch.int32 if ring == 32 else torch.int64
    x = torch.tensor([0, 1, -1, 2 ** (ring - 2), -(2 ** (ring - 1)), 2 ** (ring - 3)], dtype=dtype)
    [[sine, cosine]] = odd_harmonics(x, ring, 1)
    angle = x.double() * (2 * pi / 2.0**ring)
    assert (sine - angle.sin()).abs().max() < 1e-15
    assert (cosine - angle.cos()).abs().max() < 1e-15


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda p, x: p.normalise(x, 5, 5), "0 <= low < high"),
        (lambda p, x: p.piecewise(x, [0], [[Line(1, 0)]]), "1 thresholds need one line more"),
        (lambda p, x: p.normalise(x, 1, 5, [[1, 2]]), "4 are needed"),
        (lambda p, x: p.fourier(x, [1.0], period_bits=65, fraction_bits=8), "period_bits=65"),
        (
            lambda p, x: slow_fourier.__get__(p)(
                x, [1.0], period_bits=65, fraction_bits=8, cosines=[1.0]
            ),
            "protocols with a dealer",
        ),
        (
            lambda p, x: slow_fourier.__get__(p)(x, [1.0], period_bits=9, fraction_bits=8),
            "promise a smaller",
        ),
    ],
)
def test_what_is_refused(program, message):
    with pytest.raises(PartyFailed, match=message):
        evaluate(program, torch.arange(3))
