"""Public factors keep the bits that they need."""

import torch

import tacit


def test_a_single_public_factor_in_a_product_of_matrices():
    secret = torch.tensor([[1.5, -3.0]])

    def main(session):
        x = session.share(secret, owner=0)
        half, slope = torch.tensor([[0.5]]), torch.tensor([[0.3]])
        return session.reveal(half @ x), session.reveal(x.T @ slope)

    half, slope = tacit.run(main)[0]
    assert torch.equal(half, secret / 2)
    assert torch.allclose(slope, secret.T * 0.3, atol=1e-4)
