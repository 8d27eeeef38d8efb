"""Functions of secret reals against float64: errors over the whole domain, edges, rounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import tacit
from tacit.fixedpoint import Numbers, Value

Function = Callable[..., Any]

DOUBLE = torch.float64
# Dense, and log-spaced over all magnitudes that are promised.
WIDE = torch.logspace(-12, 14, 313, base=2, dtype=DOUBLE)
POSITIVE = torch.cat([WIDE, torch.linspace(0.01, 100, 200, dtype=DOUBLE)])
SIGNED = torch.cat([POSITIVE, -POSITIVE])
REALS = torch.cat([SIGNED, torch.linspace(-20, 20, 401, dtype=DOUBLE)])
EXPONENTS = torch.cat([SIGNED, torch.linspace(-20, 13.8, 500, dtype=DOUBLE)])
LOGITS = torch.linspace(-1, 3, 12, dtype=DOUBLE).exp2().unsqueeze(1) * torch.sin(
    torch.arange(120, dtype=DOUBLE).reshape(12, 10) * 7
)
LONG = 4 * torch.sin(torch.arange(2000, dtype=DOUBLE).reshape(2, 1000) * 7)

TOP = 2.0**20


def tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


# name: (on secrets, plain, argument)
CASES: dict[str, tuple[Function, Function, Tensor]] = {
    "exp": (Numbers.exp, lambda x: x.exp().clamp(max=TOP), EXPONENTS),
    "log": (Numbers.log, torch.log, POSITIVE),
    "log2": (lambda n, x: n.log(x, "2"), torch.log2, POSITIVE),
    "log10": (lambda n, x: n.log(x, "10"), torch.log10, POSITIVE),
    "sqrt": (Numbers.sqrt, torch.sqrt, torch.cat([POSITIVE, torch.zeros(1, dtype=DOUBLE)])),
    "rsqrt": (Numbers.rsqrt, torch.rsqrt, POSITIVE),
    "reciprocal": (Numbers.reciprocal, torch.reciprocal, SIGNED),
    "div": (lambda n, x: n.div(n.mul(x, 3), x), lambda x: x * 0 + 3, SIGNED),
    "inverse": (lambda n, x: n.div(3000.0, x), lambda x: 3000 / x, SIGNED[SIGNED.abs() > 2**-8]),
    "third": (lambda n, x: n.div(x, 3), lambda x: x / 3, SIGNED),
    "little": (lambda n, x: n.div(x, 1e5), lambda x: x / 1e5, SIGNED),
    "eighth": (lambda n, x: n.div(x, -8.0), lambda x: x / -8, SIGNED),
    "sigmoid": (Numbers.sigmoid, torch.sigmoid, REALS),
    "tanh": (Numbers.tanh, torch.tanh, REALS),
    "erf": (Numbers.erf, torch.erf, REALS),
    "gelu": (Numbers.gelu, F.gelu, REALS),
    "gelu_tanh": (Numbers.gelu_tanh, tanh_gelu, REALS),
    "silu": (Numbers.silu, F.silu, REALS),
    "mish": (Numbers.mish, F.mish, REALS),
    "softplus": (Numbers.softplus, F.softplus, REALS),
    "logsigmoid": (Numbers.logsigmoid, F.logsigmoid, REALS),
    "elu": (lambda n, x: n.add(*n.elu_parts(x)[:2]), F.elu, REALS),
    "sin": (Numbers.sin, torch.sin, REALS),
    "cos": (Numbers.cos, torch.cos, REALS),
    "tan": (Numbers.tan, torch.tan, torch.linspace(-1.5, 1.5, 99, dtype=DOUBLE)),
    "cube": (lambda n, x: n.pow(x, 3), lambda x: x**3, REALS[REALS.abs() < 100]),
    "pow-2": (lambda n, x: n.pow(x, -2), lambda x: x**-2.0, SIGNED[SIGNED.abs() > 2**-4]),
    "pow-1.5": (lambda n, x: n.pow(x, -1.5), lambda x: x**-1.5, POSITIVE[POSITIVE > 2**-4]),
    "pow0.3": (lambda n, x: n.pow(x, 0.3), lambda x: x**0.3, POSITIVE),
    "3^x": (lambda n, x: n.pow(3.0, x), lambda x: 3**x, torch.linspace(-9, 12, 99, dtype=DOUBLE)),
    "softmax": (lambda n, x: n.softmax(x, 1), lambda x: x.softmax(1), LOGITS),
    "softmax of 1000": (lambda n, x: n.softmax(x, 1), lambda x: x.softmax(1), LONG),
    "log_softmax": (lambda n, x: n.log_softmax(x, 1), lambda x: x.log_softmax(1), LOGITS * 40),
    "logsumexp": (lambda n, x: n.logsumexp(x, 0), lambda x: x.logsumexp(0, True), LOGITS * 40),
}
# Rounds that trio needs for these few elements: of a comparison and a choice, 3.
CHOSEN = ("exp", "sigmoid", "tanh", "erf", "gelu", "gelu_tanh", "silu", "mish", "softplus", "elu")
ROUNDS = dict.fromkeys((*CHOSEN, "sqrt", "rsqrt", "log"), 3)
ROUNDS |= {"sin": 2, "cos": 2, "reciprocal": 7, "eighth": 0, "third": 0, "little": 1}
ROUNDS |= {"softmax": 15, "log_softmax": 10}
# protocols.md 11.2: what is allowed within (low, high), with 16 and 20 fraction bits.
BOUNDS = {
    "exp": (-43, 0, 2.0e-5, 1.2e-6),
    "reciprocal": (1, 1024, 3.0e-5, 8.6e-6),
    "rsqrt": (2**-6, 2**12, 1.6e-4, 2.3e-5),
    "sqrt": (2**-6, 16, 1.2e-4, 1.1e-5),
    "log": (2**-8, 2**12, 5.6e-5, 4.0e-6),
    "sigmoid": (-TOP, TOP, 3.4e-4, 3.3e-5),
    "tanh": (-TOP, TOP, 6.7e-4, 2.2e-4),
    "erf": (-TOP, TOP, 1.8e-5, 2.1e-6),
    "gelu": (-TOP, TOP, 1.3e-4, 4.2e-5),
    "silu": (-TOP, TOP, 7.3e-4, 5.5e-4),
    "sin": (-100, 100, 2.0e-5, 1.5e-6),
    "cos": (-100, 100, 2.0e-5, 1.5e-6),
    "softmax": (-TOP, TOP, 1.3e-4, 6e-5),
    "softmax of 1000": (-TOP, TOP, 2.6e-4, 4e-5),
    "log_softmax": (-TOP, TOP, 1e-4, 1e-5),
}
# Relative errors beside two units, with 16 and 20 fraction bits.
RELATIVE = {
    "exp": (2**-14, 2**-14),
    "reciprocal": (2**-15, 2**-18),
    "div": (2**-15, 2**-18),
    "inverse": (2**-15, 2**-18),
    "third": (2**-16, 2**-16),
    "little": (2**-16, 2**-16),
    "sqrt": (2**-15, 2**-18),
    "rsqrt": (2**-15, 2**-18),
    "elu": (0, 0),
}
PENDING = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "gelu", "softplus", "sin")
SETTINGS = [("cleartext", 16), ("cleartext", 20), ("trio", 16), ("trio", 20), ("replicated", 16)]


def rounded(x: Tensor, bits: int) -> Tensor:
    return (x * 2.0**bits).round() / 2.0**bits


def compute(
    programs: dict[str, tuple[Function, Tensor]],
    protocol: str = "trio",
    bits: int = 16,
    **more: Any,
) -> dict[str, tuple[Tensor, int]]:
    """What each function gives of its argument, and in how many rounds."""

    def main(session: tacit.Session) -> dict[str, tuple[Tensor, int]]:
        n, found = session.numbers, {}
        for name, (function, x) in programs.items():
            secret = n.settled(n.share(x, 0, x.shape, x.dtype))
            with session.stats.scope(name) as cost:
                value: Value = function(n, secret)
            found[name] = n.reveal(value), cost.rounds
        return found

    parties = 1 if protocol == "cleartext" else 3
    outcomes = tacit.run(main, protocol=protocol, parties=parties, fraction_bits=bits, **more)
    return {
        name: (value, max(outcome[name][1] for outcome in outcomes))
        for name, (value, _) in outcomes[0].items()
    }


@cache
def results(protocol: str, bits: int) -> dict[str, tuple[Tensor, int]]:
    return compute({name: (f, x) for name, (f, _, x) in CASES.items()}, protocol, bits)


def error(name: str, protocol: str, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """The argument, what is wanted, and the absolute error."""
    _, plain, argument = CASES[name]
    x = rounded(argument, bits)
    wanted = plain(x)
    return x, wanted, (results(protocol, bits)[name][0] - wanted).abs()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("protocol", "bits"), SETTINGS)
def test_right_over_the_whole_domain(protocol, bits, name):
    """Relative error below 2^-9, or absolute below 2^-11."""
    _, wanted, absolute = error(name, protocol, bits)
    assert (absolute < torch.maximum(wanted.abs() * 2**-9, torch.tensor(2.0**-11))).all()


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("bits", [16, 20])
def test_within_the_bounds_of_the_methods(bits, name):
    low, high, *bounds = BOUNDS[name]
    x, _, absolute = error(name, "trio", bits)
    inside = (x >= low) & (x <= high)
    assert absolute[inside].max() < 1.5 * bounds[bits > 16]


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("bits", [16, 20])
def test_relative_errors(bits, name):
    _, wanted, absolute = error(name, "trio", bits)
    allowed = 2 * 2.0**-bits + RELATIVE[name][bits > 16] * wanted.abs()
    assert (absolute <= allowed).all()


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds(name):
    assert results("trio", 16)[name][1] <= ROUNDS[name]


def test_of_pending_products_and_public_operands():
    """An argument may be a product that is not divided yet, by a public number too."""
    x = torch.linspace(0.5, 3.7, 50, dtype=DOUBLE)
    y = torch.linspace(-4, 5, 10, dtype=DOUBLE).reshape(10, 1) + 0.3
    programs: dict[str, tuple[Function, Tensor]] = {
        name: (lambda n, v, f=f: f(n, n.mul(n.square(v), 0.7)), x)
        for name, (f, _, _) in CASES.items()
        if name in PENDING
    }
    programs["table"] = (lambda n, v: n.div(v, n.add(y, n.mul(v, 0))), x)
    programs["small sum"] = (
        lambda n, v: n.add(n.mul(n.mul(n.sigmoid(v), n.sigmoid(v)), 0.3), n.mul(v, 5000.0)),
        x,
    )
    for bits in (16, 20):
        found = compute(programs, "trio", bits)
        r = rounded(x, bits)
        for name in programs.keys() - {"table", "small sum"}:
            wanted = CASES[name][1](r * r * 0.7)
            torch.testing.assert_close(found[name][0], wanted, rtol=2**-9, atol=2**-10)
        torch.testing.assert_close(found["table"][0], r / y, rtol=2**-9, atol=2**-10)
        wanted = r.sigmoid() ** 2 * 0.3 + r * 5000
        torch.testing.assert_close(found["small sum"][0], wanted, rtol=0, atol=2**-9)


def test_many_divisors_find_their_sign_first():
    x = torch.linspace(-9, 9, 9000, dtype=DOUBLE)
    programs: dict[str, tuple[Function, Tensor]] = {
        "reciprocal": (Numbers.reciprocal, x),
        "div": (lambda n, v: n.div(n.add(v, 1.0), v), x),
    }
    found = compute(programs, "trio")
    r = rounded(x, 16)
    for name, wanted in (("reciprocal", 1 / r), ("div", (r + 1) / r)):
        torch.testing.assert_close(found[name][0], wanted, rtol=2**-11, atol=2**-11)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalars_and_nothing(shape):
    x = torch.full(shape, 1.5, dtype=DOUBLE)
    names = ["exp", "log", "sqrt", "reciprocal", "sigmoid", "gelu", "sin", "elu", "pow0.3"]
    programs = {name: (CASES[name][0], x) for name in names}
    programs["softmax"] = (lambda n, v: n.softmax(v, -1)), x
    programs["log_softmax"] = (lambda n, v: n.log_softmax(v, -1)), x
    found = compute(programs, "trio")
    for name in names:
        torch.testing.assert_close(found[name][0], CASES[name][1](x), rtol=2**-9, atol=2**-10)
    torch.testing.assert_close(found["softmax"][0], x.softmax(-1))
    torch.testing.assert_close(found["log_softmax"][0], x.log_softmax(-1))


def test_a_ring_of_32_bits():
    x = torch.linspace(0.3, 5, 60, dtype=DOUBLE)
    names = ["exp", "log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "gelu", "softplus"]
    found = compute({name: (CASES[name][0], x) for name in names}, "trio", 10, ring=32)
    for name in names:
        wanted = CASES[name][1](rounded(x, 10)).clamp(max=2.0**9)
        torch.testing.assert_close(found[name][0], wanted, rtol=2**-5, atol=2**-6)


def test_probabilistic_divisions():
    """Functions fill the ring, and must not leave the divisions of large numbers to chance.

    Products of 40 bits within a polynomial are divided so. With them about one of 2^18 elements is
    wrong, as truncation="probabilistic" allows: one of these 18,000 may be.
    """
    x, wrong = torch.linspace(0.01, 60, 3000, dtype=DOUBLE), 0
    names = ["log", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh"]
    programs = {name: (CASES[name][0], x) for name in names}
    found = compute(programs, "trio", truncation="probabilistic")
    for name in names:
        wanted = CASES[name][1](rounded(x, 16))
        wrong += int((~torch.isclose(found[name][0], wanted, rtol=2**-9, atol=2**-10)).sum())
    assert wrong <= 1


def near_poles(bits: int) -> Tensor:
    """Multiples of 2^-bits from 1 to 2^-bits away from poles of the tangent, and between them."""
    poles = (torch.arange(-3, 4, dtype=DOUBLE) + 0.5) * torch.pi
    away = torch.logspace(0, -bits, bits + 1, base=2, dtype=DOUBLE)
    around = torch.stack([poles.unsqueeze(1) + away, poles.unsqueeze(1) - away]).flatten()
    return rounded(torch.cat([around, torch.linspace(-20, 20, 200, dtype=DOUBLE)]), bits)


@pytest.mark.parametrize("bits", [16, 20])
@pytest.mark.parametrize(("protocol", "lost"), [("trio", -26), ("replicated", -18)])
def test_tangent_up_to_its_poles(protocol, lost, bits):
    lost = lost if protocol == "trio" else lost + bits - 16
    x = near_poles(bits)
    x = x[x.tan().abs() < 2.0 ** min(16, -6 - lost)]  # from there on, nothing is left of it
    found = compute({"tan": (Numbers.tan, x)}, protocol, bits)["tan"][0]
    want = x.tan()
    allowed = 2.0**-14 * want.abs() + (1 + want**2) * 2.0**lost + 2 * 2.0**-bits
    off = (found - want).abs() / allowed
    assert float(off.max()) <= 1, f"at {float(x[off.argmax()])}"
