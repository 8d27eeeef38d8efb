"""Division with a remainder is exact."""

import pytest
import torch

import tacit

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
def test_as_torch(name, public):
    operation = OPERATIONS[name]

    def main(session):
        a = session.share(A, owner=0)
        b = B if public else session.share(B, owner=1)
        return session.reveal(operation(a, b))

    assert torch.equal(tacit.run(main)[0], operation(A, B))


def test_integers():
    a, b = torch.tensor([7, -7, 9, -8]), torch.tensor([2, 2, -3, -3])

    def main(session):
        return session.reveal(session.share(a, owner=0) // session.share(b, owner=1))

    assert torch.equal(tacit.run(main)[0], a // b)
