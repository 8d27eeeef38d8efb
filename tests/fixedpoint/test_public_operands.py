"""Public operands: infinities, of which masks are made, and the bits of factors."""

import math

import pytest
import torch

import tacit
from tacit.errors import PartyFailed

MASKS = [-math.inf, torch.finfo(torch.float32).min, -1e9]


def run(main):
    return tacit.run(main, parties=1, protocol="cleartext")[0]


@pytest.mark.parametrize("low", MASKS)
def test_what_is_masked_loses_every_comparison(low):
    values = torch.tensor([[3.0, -2.0, 5.0], [7.0, 100.0, -100.0]])
    mask = torch.tensor([[False, False, True], [True, False, True]])

    def main(session):
        x = session.share(values, owner=0)
        added = x + torch.where(mask, low, 0.0)
        filled = x.masked_fill(mask, low)
        twice = added + torch.where(mask, low, 0.0)
        return [session.reveal(y > -1000.0) for y in (added, filled, twice)]

    for kept in run(main):
        assert torch.equal(kept, ~mask)


def test_infinite_bounds_are_none():
    def main(session):
        x = session.share(torch.tensor([-3.0, 3.0]), owner=0)
        return session.reveal(x.clamp(-math.inf, 1.0)), session.reveal(x < math.inf)

    clamped, less = run(main)
    assert clamped.tolist() == [-3.0, 1.0]
    assert less.all()


def test_a_product_with_infinity_is_refused():
    def main(session):
        return session.share(torch.ones(2), owner=0) * math.inf

    with pytest.raises(PartyFailed, match="a public factor is infinite"):
        run(main)


def test_a_single_public_factor_in_a_product_of_matrices():
    secret = torch.tensor([[1.5, -3.0]])

    def main(session):
        x = session.share(secret, owner=0)
        half, slope = torch.tensor([[0.5]]), torch.tensor([[0.3]])
        return session.reveal(half @ x), session.reveal(x.T @ slope)

    half, slope = tacit.run(main)[0]
    assert torch.equal(half, secret / 2)
    assert torch.allclose(slope, secret.T * 0.3, atol=1e-4)
