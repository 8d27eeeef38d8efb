"""Rounding is exact, whatever the truncation does."""

import pytest
import torch

import tacit

UNIT = 2.0**-16
EDGES = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 100.5, 1000.0, 16000.5]
VALUES = torch.tensor([s * (e + d) for e in EDGES for s in (1, -1) for d in (-UNIT, 0.0, UNIT)])


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "frac", "long", "int"])
def test_as_torch(protocol, name):
    values = VALUES.double()

    def main(session):
        return session.reveal(getattr(session.share(values, owner=0), name)())

    got = tacit.run(main, protocol=protocol)[0]
    assert torch.equal(got, getattr(values, name)())


@pytest.mark.parametrize("decimals", [-2, 0, 1])
def test_decimals(decimals):
    values = torch.tensor([1234.56, -1250.3, 0.75, 0.3, -0.1], dtype=torch.float64)

    def main(session):
        return session.reveal(torch.round(session.share(values, owner=0), decimals=decimals))

    got = tacit.run(main)[0]
    assert torch.allclose(got, torch.round(values, decimals=decimals), atol=2e-4)
