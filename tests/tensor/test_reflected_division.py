"""c / x for numbers c of all sizes has the error of a division, not c times that of 1 / x."""

import pytest
import torch
from tests.tiers import FULL

import tacit

NUMBERS = [2.0**k for k in range(-10, 19, 4)] + [1000, 3.0, -7, 0.001, 1e-6, 1e9, 1, 0]
SEED = 4


def divisors(fraction_bits):
    """Of both signs, from 2^-8 to 2^17, that fixed point represents exactly."""
    generator = torch.Generator().manual_seed(SEED)
    sizes = 2 ** (torch.rand(200, generator=generator, dtype=torch.float64) * 25 - 8)
    signs = torch.where(torch.rand(200, generator=generator) < 0.5, -1.0, 1.0)
    return (sizes * signs * 2**fraction_bits).round() / 2**fraction_bits


def largest_errors(session, fraction_bits, numbers):
    """By number: relative to what is allowed, 2^-15 of the result and two units."""
    x, errors = divisors(fraction_bits), {}
    for number in numbers:
        some = x[(number / x).abs() < 2**18]
        found = session.reveal(number / session.share(some, owner=0))
        wanted = number / some
        allowed = 2.0**-15 * wanted.abs() + 2 * 2.0**-fraction_bits
        errors[number] = float(((found - wanted).abs() / allowed).max())
    return errors


@pytest.mark.filterwarnings("ignore:precision")
@pytest.mark.parametrize("fraction_bits", [16, 20])
@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"] if FULL else ["cleartext"])
def test_numbers_of_all_sizes(protocol, fraction_bits):
    settings = {"protocol": protocol, "fraction_bits": fraction_bits}
    for errors in tacit.run(largest_errors, fraction_bits, NUMBERS, **settings):
        assert {number: error for number, error in errors.items() if error > 1} == {}


def test_three_parties():
    for errors in tacit.run(largest_errors, 16, [1000, 0.001]):
        assert max(errors.values()) <= 1


def test_gradients_and_dtypes_are_torchs():
    x = torch.tensor([0.5, 3.0, -20.0])

    def both(x):
        [first] = torch.autograd.grad((1000 / x).sum(), x, create_graph=True)
        [second] = torch.autograd.grad(first.sum(), x)
        return first.detach(), second

    def main(session):
        whole = 2.5 / session.share(torch.arange(1, 4), owner=0)
        return session.reveal([*both(session.share(x, owner=0).requires_grad_()), whole])

    first, second, whole = tacit.run(main)[0]
    for found, wanted in zip((first, second), both(x.requires_grad_()), strict=True):
        assert ((found - wanted).abs() <= 1e-2 + 2e-3 * wanted.abs()).all()
    assert whole.dtype == torch.float32
    assert (whole - 2.5 / torch.arange(1, 4)).abs().max() < 1e-4


def test_a_number_costs_no_more_rounds_than_a_reciprocal():

    def rounds(session, number):
        x = session.share(torch.ones(4), owner=0)
        before = session.stats.snapshot()
        number / x
        return session.stats.snapshot().accumulate(before, -1).rounds

    assert 0 < tacit.run(rounds, 7.0)[1] <= tacit.run(rounds, 1)[1]
