"""Many numbers are normalised in blocks of exponents: their entries, precision, edges and bytes."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tacit
from tacit import Session
from tacit.fixedpoint.extended.lazy_roots import divided_by_root
from tacit.fixedpoint.functions.mantissa import BLOCKS, Table, _blocks
from tacit.fixedpoint.functions.share_functions import run

COUNT = 1 << 14
UNIT = 2.0**-16
DOUBLE = torch.float64


def powers(rate: int, bits: int) -> Table:
    """2^(bits + rate e / 2), rounded: exact for even rates."""

    def power(e: int) -> int:
        exponent = 2 * bits + rate * e
        assert exponent >= 0, "beyond the table"
        return isqrt(1 << exponent)

    return power


@given(
    low=st.integers(0, 20),
    count=st.integers(10, 38),
    octaves=st.integers(1, 2),
    rate=st.sampled_from([-2, -1, 1, 2]),
    spare=st.integers(0, 12),
)
def test_entries_of_blocks_are_those_of_the_table(low, count, octaves, rate, spare):
    exponents = range(low, low + count)
    least = -rate * exponents[-1] if rate < 0 else 0  # the smallest entry is 1 at least
    table = powers(rate, (least + 1) // 2 + spare)
    blocks = _blocks(table, exponents, octaves, rate)
    assert blocks is not None
    assert blocks.correction is None
    assert blocks.high >= exponents.stop
    assert len(blocks.starts) == BLOCKS
    for e in exponents:
        block = max(b for b, start in enumerate(blocks.starts) if start <= e)
        moved = e + blocks.shifts[block]
        assert blocks.starts[-1] <= moved < blocks.high
        whole = blocks.factors[block] * blocks.entry(moved)
        assert abs(whole / 2**blocks.pending - table(e)) <= 1 + table(e) * 2.0**-17
        assert whole <= blocks.largest


def test_a_table_that_is_no_power_of_two_has_no_blocks():
    assert _blocks(lambda e: 1000 * (e + 1), range(30), 1, 1) is None


def around_powers(least: int, most: int) -> Tensor:
    """Numbers within few units of each power of two, and between; the same count in each octave."""
    tops = 2.0 ** torch.arange(least, most + 1, dtype=DOUBLE)
    near = tops.unsqueeze(1) + torch.arange(-3, 4, dtype=DOUBLE) * UNIT
    close = tops.unsqueeze(1) * (1 + torch.linspace(-(2.0**-6), 2.0**-6, 65, dtype=DOUBLE))
    spread = torch.logspace(least, most, COUNT, base=2, dtype=DOUBLE)
    found = torch.cat([near.flatten(), close.flatten(), spread])
    return found[(found >= 2.0**least) & (found < 2.0**most)].mul(2**16).round().div(2**16)


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], int]] = {
    "sqrt": (torch.sqrt, torch.sqrt, -16),
    "rsqrt": (torch.rsqrt, torch.rsqrt, -16),
    "reciprocal": (torch.reciprocal, torch.reciprocal, -16),
    "negative reciprocal": (lambda x: torch.reciprocal(-x), lambda x: -1 / x, -16),
    "quotient": (lambda x: (x * 3) / x, lambda x: x * 0 + 3, -16),
    "quotient of -x": (lambda x: x / -x, lambda x: x * 0 - 1, -16),
    "public numerator": (lambda x: 3000.0 / x, lambda x: 3000 / x, -8),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_do_not_grow(name):
    """Relative 2^-15, and two units, as for few elements."""
    secret, plain, least = FUNCTIONS[name]
    x = around_powers(least, 14)
    found = tacit.run(lambda s: s.reveal(secret(s.share(x, owner=0))))[0].double()
    wanted = plain(x)
    assert ((found - wanted).abs() <= 2.0**-15 * wanted.abs() + 2.5 * UNIT).all()


@pytest.mark.parametrize("settings", [("additive", 2), ("quad", 4)], ids=lambda pair: pair[0])
@pytest.mark.parametrize("name", ["sqrt", "quotient of -x"])
def test_other_protocols_with_a_dealer(name, settings):
    secret, plain, least = FUNCTIONS[name]
    x, (protocol, parties) = around_powers(least, 14), settings

    def main(session: Session) -> Tensor:
        return session.reveal(secret(session.share(x, owner=0)))

    found, wanted = tacit.run(main, protocol=protocol, parties=parties)[0].double(), plain(x)
    assert ((found - wanted).abs() <= 2.0**-15 * wanted.abs() + 2.5 * UNIT).all()


def test_roots_of_zero_and_of_negative_numbers():
    x = -torch.logspace(-16, 19.9, COUNT, base=2, dtype=DOUBLE)
    x[::2] = 0
    assert not tacit.run(lambda s: s.reveal(s.share(x, owner=0).sqrt()))[0].any()


@pytest.mark.parametrize("summand", [0.0, 1e-8])
def test_steps_of_optimizers(summand):
    """Quotients by roots: a root just below 2^-16 may count as itself, smaller ones as 2^-16."""
    roots = torch.logspace(-6, 1.5, COUNT, dtype=DOUBLE)
    largest = torch.linspace(-12, 12, COUNT, dtype=DOUBLE)  # quotients of up to 2^12
    above = (roots * largest.sign() * largest.abs().exp2()).clamp(-32, 32)

    def main(session: Session) -> Tensor:
        p, n = session.protocol, session.numbers
        a = p.share((above * 2**26).round().long(), 0, limit=1 << 31)
        v = p.share((roots**2 * 2**40).round().long(), 1, limit=1 << 50)
        made = run(n, divided_by_root, a, v, bits=26, square_bits=40, summand=summand)
        return p.reveal(p.settled(made))

    found = tacit.run(main)[0].double() * UNIT
    root = ((roots**2 * 2**40).round() / 2**40).sqrt()
    wanted = (above * 2**26).round() / 2**26 / (root.clamp(min=UNIT) + summand)
    edge = (root < UNIT) & (root > UNIT * (1 - 2.0**-7))
    size = wanted.abs()
    allowed = 2.0**-14 * size + 2.5 * UNIT + size * summand / root.clamp(min=UNIT) / 4
    allowed = torch.where(edge, allowed + 2.0**-7 * size, allowed)
    assert ((found - wanted).abs() <= allowed).all()


@pytest.mark.parametrize(
    ("function", "dealt", "opened"),
    [(torch.sqrt, 385, 125), (torch.rsqrt, 420, 125), (torch.reciprocal, 560, 155)],
)
def test_bytes_of_many(function, dealt, opened):
    """Without blocks, the dealer would send 600 bytes for a root, 1,000 for a reciprocal."""

    def main(session: Session) -> float:
        x = session.share(torch.linspace(0.01, 9000, 1 << 15), owner=0)
        with session.stats.scope("many") as spent:
            function(x)
        return spent.bytes_sent / x.numel()

    dealer, *evaluators = tacit.run(main)
    assert dealer < dealt
    assert max(evaluators) < opened


@pytest.mark.filterwarnings("ignore:precision")
@pytest.mark.parametrize(("eps", "dealt", "opened"), [(1e-3, 850, 280), (1e-8, 570, 215)])
def test_a_step_of_adam(eps, dealt, opened):
    """Steps of plain torch, for gradients from 2^-9 to 2^5, and bytes for a parameter."""
    size = torch.logspace(-9, 4.9, 1 << 15, base=2)
    slopes = size * torch.tensor([1.0, -1.0]).repeat(len(size) // 2)

    def trained(x: Tensor, slopes: Tensor, session: Session | None = None) -> tuple[Tensor, float]:
        x = torch.nn.Parameter(x)
        optimizer, spent = torch.optim.Adam([x], lr=0.5, eps=eps), 0.0
        for step in range(3):
            optimizer.zero_grad()
            (x * slopes * (0.5 if step % 2 else 1.0)).sum().backward()
            if session is None:
                optimizer.step()
            else:
                with session.stats.scope("step") as scope:
                    optimizer.step()
                spent = scope.bytes_sent / len(x)
        return x.detach(), spent

    def main(session: Session) -> tuple[Tensor, float]:
        zero = session.share(torch.zeros(len(slopes)), owner=0)
        found, spent = trained(zero, session.share(slopes, owner=1), session)
        return session.reveal(found), spent

    (found, sent), *evaluators = tacit.run(main)
    wanted, _ = trained(torch.zeros(len(slopes)), slopes)
    assert (found - wanted).abs().max() < 0.02
    assert sent < dealt
    assert max(spent for _, spent in evaluators) < opened
