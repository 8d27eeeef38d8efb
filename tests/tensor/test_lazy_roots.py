"""Quotients by roots of squares in one normalisation: precision, rounds, and other readers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, optim

import tacit
from tacit import Session
from tacit.fixedpoint.extended.lazy_roots import divided_by_root
from tacit.fixedpoint.functions.share_functions import run

COUNT = 600
BITS, SQUARE_BITS = 26, 40


@pytest.mark.parametrize("summand", [0.0, 1e-8, 1e-6])
def test_quotients_from_small_to_large(summand):
    """From the root that counts as 2^-16, and below it, to 2^5; numerators of both signs."""
    roots = torch.logspace(-6, 1.5, COUNT, dtype=torch.float64)
    above = roots * torch.linspace(-3, 3, COUNT, dtype=torch.float64)

    def main(session: Session) -> Tensor:
        p, n = session.protocol, session.numbers
        a = p.share((above * 2**BITS).round().long(), 0, limit=1 << (BITS + 5))
        v = p.share((roots**2 * 2**SQUARE_BITS).round().long(), 1, limit=1 << (SQUARE_BITS + 10))
        made = run(n, divided_by_root, a, v, bits=BITS, square_bits=SQUARE_BITS, summand=summand)
        return p.reveal(p.settled(made))

    found = tacit.run(main)[0].double() / 2**16
    rounded = (roots**2 * 2**SQUARE_BITS).round() / 2**SQUARE_BITS
    below = rounded.sqrt().clamp(min=2.0**-16) + summand
    wanted = (above * 2**BITS).round() / 2**BITS / below
    allowed = 2.0**-14 * wanted.abs() + 2.5 * 2.0**-16 + wanted.abs() * summand / below / 4
    assert ((found - wanted).abs() <= allowed).all()


def parameter(session: Session) -> Tensor:
    given = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(64))])
    return next(session.share(given, owner=0).parameters())


def gradients(steps: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(64, generator=generator) * 0.1 for _ in range(steps)]


@pytest.mark.filterwarnings("ignore:precision")
def test_rounds_of_adam():
    def main(session: Session) -> list[int]:
        x = parameter(session)
        optimizer, rounds = optim.Adam([x]), []
        for grad in gradients(3):
            optimizer.zero_grad()
            (x * session.share(grad, owner=1)).sum().backward()
            with session.stats.scope("step") as spent:
                optimizer.step()
            rounds.append(spent.rounds)
        return rounds

    assert tacit.run(main)[1] == [14, 15, 15]


class Reader(optim.Adam):
    """Reads the root that it divides by, and keeps it."""

    def step(self, closure=None):
        for group in self.param_groups:
            for x in group["params"]:
                square = torch.zeros_like(x).addcmul_(x.grad, x.grad, value=0.5)
                self.seen = square.sqrt() * 2 + 1e-8
                x.data.addcdiv_(x.grad, self.seen, value=-0.1)


@pytest.mark.filterwarnings("ignore:precision")
def test_a_root_can_be_read_as_well():
    def main(session: Session) -> list[Tensor]:
        x = parameter(session)
        optimizer = Reader([x])
        (x * session.share(gradients(1)[0], owner=1)).sum().backward()
        optimizer.step()
        return session.reveal([x.detach(), optimizer.seen])

    moved, root = tacit.run(main)[0]
    size = gradients(1)[0].abs() * 2**0.5
    assert (root - size).abs().max() < 1e-3
    assert (moved + 0.1 * gradients(1)[0] / size).abs().max() < 1e-3
