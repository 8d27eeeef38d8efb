"""Reductions and running sums and products, against torch."""

import pytest
import torch
from tests.tensor.comparison import check, tensor

import tacit

BOTH = pytest.mark.parametrize(
    "settings", [{}, {"protocol": "trio", "parties": 3}], ids=["cleartext", "trio"]
)


@BOTH
def test_sums_and_products(settings):
    def program(x):
        return (
            [x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.sum(0, dtype=torch.float64)],
            [x.mean(), x.mean(1), x.mean((0, 1)), x.prod(), x.prod(2), x.cumsum(1), x.cumprod(2)],
            [x.var(), x.var(1, unbiased=False), x.std(2), *torch.var_mean(x, (0, 1))],
            [x.norm(), x.norm(1), x.norm(2, dim=1), x.norm(float("inf"), dim=0)],
        )

    check(program, tensor(2, 3, 5), absolute=2**-8, relative=2**-8, **settings)


@BOTH
def test_bits_and_integers(settings):
    def program(x):
        bits, whole = x > 0, (x * 4).long()
        return (
            [bits.sum(), bits.sum(1), bits.any(), bits.all(0), bits.any(2, keepdim=True)],
            [whole.sum(1), whole.prod(2), whole.cumsum(0), torch.count_nonzero(whole, 1)],
            [x.any(), x.all(), torch.count_nonzero(bits), bits.float().mean()],
        )

    check(program, tensor(2, 3, 4), **settings)


def test_means_of_many_keep_their_precision():
    def program(x):
        return x.mean(), x.view(100, -1).mean(0), x.var()

    check(program, tensor(100_000, scale=0.1) + 0.5, absolute=2**-13)


def test_means_of_what_adds_up_beyond_the_range():
    """A mean is no larger than what it is of: what compares it may rely on that."""
    x = torch.rand(50_000, generator=torch.Generator().manual_seed(2)) * 255

    def main(session):
        secret = session.share(x, owner=0)
        return session.reveal([secret.mean().sqrt(), (secret * secret).mean().sqrt()])

    wanted = [x.mean().sqrt(), (x * x).mean().sqrt()]
    for got, want in zip(tacit.run(main)[0], wanted, strict=True):
        assert (got - want).abs() < 1e-3 * want


def test_shapes_without_elements_or_dimensions():
    def program(x, one):
        none = x[:0]
        return (
            none.sum(0),
            none.prod(),
            one.sum(),
            one.mean(0),
            one.cumsum(0),
            one.prod(0),
            none.cumsum(0),
        )

    check(program, tensor(2, 3), torch.tensor(2.5))


def test_gradients():
    def program(x):
        loss = x.sum(1).prod() + x.mean(0).sum() + x.cumsum(1)[:, 1].sum() + x.var(1).sum()
        loss = loss + x.prod(1).sum() + x.cumprod(1).sum() + (x.norm(dim=1) * 2).sum()
        loss.backward()
        return x.grad

    check(program, (tensor(3, 4) * 0.5 + 1).requires_grad_(), absolute=2**-7, relative=2**-7)
