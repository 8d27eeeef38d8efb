"""Vector norms over the whole range."""

import pytest
import torch

import tacit


@pytest.mark.parametrize("fraction_bits", [16, 20])
def test_norms_of_all_sizes(fraction_bits):
    largest = 2.0 ** (30 - fraction_bits)
    sizes = torch.tensor([0.0, 2.0**-12, 2.0**-9, 2.0**-6, 0.1, 1.0, 30.0, 900.0, largest * 0.98])
    directions = torch.tensor([[0.6, 0.8, 0.0], [1 / 3, -2 / 3, 2 / 3]], dtype=torch.float64)
    vectors = sizes.double()[:, None, None] * directions

    def main(session):
        x = session.share(vectors, owner=0)
        return session.reveal(torch.linalg.vector_norm(x, dim=-1))

    got = tacit.run(main, fraction_bits=fraction_bits)[0]
    want = vectors.norm(dim=-1)
    assert ((got - want).abs() <= 3 * 2.0**-fraction_bits + 1e-4 * want).all()


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_roots_of_small_sums_of_squares(protocol):
    """Magnitudes of a spectrum: the squares are below 2^-16, their root is not."""
    sides = torch.tensor(
        [[3e-4, 4e-4], [3e-3, -4e-3], [0.0, 1e-3], [6.0, 8.0]], dtype=torch.float64
    )

    def main(session):
        a, b = session.share(sides, owner=0).unbind(1)
        return session.reveal((a**2 + b**2).sqrt())

    want = sides.norm(dim=1)
    got = tacit.run(main, protocol=protocol)[0]
    assert ((got - want).abs() <= 3 * 2.0**-16 + 1e-4 * want).all()


def test_the_gradient_of_a_norm():
    vectors = torch.tensor([[3.0, 4.0], [0.0, -2.0]])

    def main(session):
        x = session.share(vectors, owner=0).requires_grad_()
        x.norm(dim=1).sum().backward()
        return session.reveal(x.grad)

    want = torch.tensor([[0.6, 0.8], [0.0, -1.0]])
    assert torch.allclose(tacit.run(main)[0], want, atol=1e-3)
