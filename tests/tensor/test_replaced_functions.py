"""Losses and norms that torch computes by looking at values, or by powers that leave the range."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit.errors import PartyFailed

INF = float("inf")
ORDERS = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 10.0, INF, -INF, -0.5, -1.0, -2.0, -3.0]
DRAWN = torch.randn(8, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = ((DRAWN * torch.tensor([0.05, 1, 30, 300]).repeat(2).view(8, 1)) * 2**16).round() / 2**16
WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0, 1.5, 0.5, 1.0, 2.0, 0.75, 1.0, 1.25])
COUNTS = torch.tensor([1, 2, 1, 1, 3, 1, 2, 1, 1, 4, 1, 1])


def with_gradient(compute, *operands: Tensor) -> tuple[Tensor, Tensor]:
    first = operands[0].detach().requires_grad_()
    made = compute(first, *operands[1:])
    made.sum().backward()
    return made.detach(), first.grad


CLEARTEXT = pytest.param("cleartext", marks=pytest.mark.full("three parties run"))


@pytest.mark.parametrize("protocol", ["trio", CLEARTEXT])
def test_norms_of_any_order(protocol):
    """Numbers from 0.05 to 300: their cubes leave the range, and so do those of their norms."""

    def main(session):
        found = []
        for order in ORDERS:
            x = session.share(ROWS, owner=0)
            found.append(with_gradient(lambda x, p=order: torch.linalg.vector_norm(x, p, 1), x))
        return session.reveal(found)

    for order, (got, slope) in zip(
        ORDERS[1:], tacit.run(main, protocol=protocol)[0][1:], strict=True
    ):
        want, wanted = with_gradient(lambda x, p=order: torch.linalg.vector_norm(x, p, 1), ROWS)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=2**-14, msg=f"order {order}")
        largest = wanted.abs().amax(1, keepdim=True)
        bound = 2**-5 if order == -0.5 else 2**-8  # its slopes are small: ratios to the power 3/2
        assert float(((slope - wanted).abs() / largest).max()) < bound, f"order {order}"


def test_zeros_have_norms():
    def main(session):
        x = session.share(torch.tensor([[0.0, 0.0], [0.0, 3.0]]), owner=0)
        norms = [torch.linalg.vector_norm(x, order, dim=1) for order in (0.5, 3.0, 4.0, -2.0)]
        return session.reveal([*norms, x.norm(4), torch.linalg.norm(x[1], 5)])

    found = tacit.run(main, protocol="cleartext", parties=1)[0]
    for got in found[:3]:
        torch.testing.assert_close(got, torch.tensor([0.0, 3.0]), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found[3], torch.tensor([0.0, 0.0]))
    torch.testing.assert_close(torch.stack(found[4:]), torch.tensor([3.0, 3.0]))


LOSSES = {
    "module": nn.GaussianNLLLoss(full=True),
    "sum": lambda x, y, v: F.gaussian_nll_loss(x, y, v, reduction="sum"),
    "none": lambda x, y, v: F.gaussian_nll_loss(x, y, v, reduction="none", eps=0.6),
    "one for a row": lambda x, y, v: F.gaussian_nll_loss(x, y, v[:, 0]),
}


def test_gaussian_loss_does_not_look():
    x, y, v = DRAWN[:4].float(), DRAWN[4:].float(), DRAWN[:4].float().abs() + 0.3

    def main(session):
        secrets = [session.share(one, owner=0) for one in (v, x, y)]
        return [
            session.reveal(with_gradient(lambda v, x, y, f=f: f(x, y, v), *secrets))
            for f in LOSSES.values()
        ]

    for (name, f), found in zip(LOSSES.items(), tacit.run(main)[0], strict=True):
        want = with_gradient(lambda v, x, y, f=f: f(x, y, v), v.double(), x.double(), y.double())
        for got, right in zip(found, want, strict=True):
            torch.testing.assert_close(got.double(), right, rtol=2e-3, atol=2e-3, msg=name)


def test_covariance_with_secret_weights():
    x = DRAWN[:3].float() * 3

    def covariances(x, counts, weights):
        both = {"fweights": counts, "aweights": weights}
        few = [torch.cov(x, fweights=counts), x.cov(aweights=weights), torch.cov(x, **both)]
        return [*few, torch.cov(x[0], correction=0, **both)]

    def main(session):
        secrets = [session.share(one, owner=0) for one in (x, COUNTS, WEIGHTS)]
        return session.reveal(covariances(*secrets) + covariances(secrets[0], COUNTS, WEIGHTS))

    want = covariances(x, COUNTS, WEIGHTS) * 2
    for got, right in zip(tacit.run(main)[0], want, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-3, atol=1e-3)


def test_debug_mode_looks():
    def loss(session):
        x, v = session.share(torch.ones(2), owner=0), session.share(-torch.ones(2), owner=0)
        return F.gaussian_nll_loss(x, x, v)

    with pytest.raises(PartyFailed, match="var has negative entries"):
        tacit.run(loss, protocol="cleartext", parties=1, debug=True)


def test_plain_tensors_get_torchs_own():
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(torch.ones(2), torch.ones(2), -torch.ones(2))
    with pytest.raises(RuntimeError, match="cannot be negative"):
        torch.cov(torch.ones(2, 3), aweights=-torch.ones(3))
    assert torch.linalg.vector_norm(torch.tensor([3.0, 4.0])) == 5
