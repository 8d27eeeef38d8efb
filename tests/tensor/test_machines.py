"""Parties on machines that round otherwise still agree on what is public."""

import threading

import pytest
import torch
import torch.nn.functional as F

import tacit
from tacit.ring import deterministic

HERE = threading.local()  # other: whether this thread is the other machine
SEED = torch.Generator().manual_seed(5)
A, B = torch.randn(4, 40, generator=SEED), torch.randn(40, 6, generator=SEED)
SOFT = torch.rand(4, 40, generator=SEED).softmax(-1)
WEIGHTS = torch.rand(40, generator=SEED) + 0.1
MEAN, VARIANCE = A.mean(1), A.var(1)
LABELS = torch.randint(0, 40, (4,), generator=SEED)


def other_machine(function):
    """A function of a library, whose results are others at the other machine.

    By more than a last bit, so that few elements show it. Sums in float64 of shorter floats are
    the same everywhere.
    """

    def called(*args, **kwargs):
        made = function(*args, **kwargs)
        exact = kwargs.get("dtype") == torch.float64
        plain = type(made) is torch.Tensor and made.is_floating_point() and not exact
        if plain and getattr(HERE, "other", False):
            return made + made * 2.0**-14
        return made

    return called


@pytest.fixture
def machines(monkeypatch):
    for name in ("matmul", "einsum", "log", "rsqrt", "exp", "sum", "mean"):
        monkeypatch.setattr(torch, name, other_machine(getattr(torch, name)))
    for name in ("matmul", "log", "rsqrt", "exp", "sum", "mean"):
        monkeypatch.setattr(torch.Tensor, name, other_machine(getattr(torch.Tensor, name)))


def public_product(session):
    return torch.addmm(session.share(torch.ones(4, 6), owner=0), A, B)


def public_contraction(session):
    x = session.share(torch.ones(2, 3), owner=1)
    return torch._trilinear(A[:2, :3], B[:2, :3], x, [], [], [], [1])


def soft_targets(session):
    x = session.share(A, owner=1).requires_grad_()
    (F.log_softmax(x, -1) * -SOFT).sum().backward()
    return x.grad


def weighted_labels(session):
    x = session.share(A, owner=1).requires_grad_()
    F.cross_entropy(x, LABELS, WEIGHTS).backward()
    return x.grad


def public_statistics(session):
    x = session.share(A.t(), owner=2)
    return F.batch_norm(x, MEAN, VARIANCE, None, None)


def public_base(session):
    return torch.pow(WEIGHTS, session.share(A / 4, owner=1))


def public_logarithm(session):
    return torch.xlogy(session.share(A, owner=1), WEIGHTS)


CASES = [
    public_product,
    public_contraction,
    soft_targets,
    weighted_labels,
    public_statistics,
    public_base,
    public_logarithm,
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_what_is_public_is_computed_alike(case, protocol, machines):
    def main(session, other):
        HERE.other = session.rank == other
        made = case(session)
        return session.reveal(made * session.share(torch.ones(made.shape), owner=0))

    for other in range(1, 3):
        alike_, found = (tacit.run(main, who, protocol=protocol) for who in (None, other))
        for got in found:
            torch.testing.assert_close(got, alike_[0], atol=2e-3, rtol=2e-3)


def test_the_logarithm():
    x = torch.logspace(-300, 300, 4001, base=10, dtype=torch.float64)
    torch.testing.assert_close(deterministic.logarithm(x), x.log(), atol=1e-15, rtol=4e-16)


def test_sums_in_any_order():
    x = torch.rand(1 << 12, generator=SEED)
    assert torch.equal(deterministic.total(x), deterministic.total(x.flip(0)))
    assert deterministic.total(x.view(64, 64), (1,), keepdim=True).shape == (64, 1)
    assert deterministic.total(torch.arange(5)).item() == 10
