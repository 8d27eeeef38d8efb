"""Rounding to integers and division with a remainder are exact, whatever the truncation does."""

import pytest
import torch

import tacit

UNIT = 2.0**-16
EDGES = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 100.5, 1000.0, 16000.5]
VALUES = torch.tensor([s * (e + d) for e in EDGES for s in (1, -1) for d in (-UNIT, 0.0, UNIT)])


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "frac", "long", "int"])
def test_rounding_as_torch(protocol, name):
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


A = torch.tensor([7.0, -7.0, 7.5, -7.5, 6.0, -6.0, 0.0, 1000.0, -12345.25, 0.5, 16000.0, -3.0])
B = torch.tensor([2.0, 3.0, -2.5, 0.25, -3.0, 1.5, 4.0, -7.0, 1.25, 0.75, 1.5, 3.0])
OPERATIONS = {
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("public", [False, True])
def test_quotients_and_remainders_as_torch(name, public):
    operation = OPERATIONS[name]

    def main(session):
        a = session.share(A, owner=0)
        b = B if public else session.share(B, owner=1)
        return session.reveal(operation(a, b))

    assert torch.equal(tacit.run(main)[0], operation(A, B))


def test_quotients_of_integers():
    a, b = torch.tensor([7, -7, 9, -8]), torch.tensor([2, 2, -3, -3])

    def main(session):
        return session.reveal(session.share(a, owner=0) // session.share(b, owner=1))

    assert torch.equal(tacit.run(main)[0], a // b)
