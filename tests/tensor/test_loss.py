"""Losses of secrets: labels public and secret, weights, reductions, ends of the domain."""

from __future__ import annotations

import pytest
import torch
from tests.tensor.module_comparison import agree
from torch import Tensor
from torch.nn import functional as F

import tacit
from tacit.errors import PartyFailed


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


SCORES, IMAGES = normal(4, 5), normal(2, 5, 3, 2)
LABELS = torch.tensor([1, 4, -100, 0])
PLACES = torch.randint(0, 5, (2, 3, 2), generator=torch.Generator().manual_seed(1))
WEIGHT = torch.tensor([1.0, 0.5, 2.0, 0.25, 3.0])
CLOSE = {"absolute": 1e-3, "relative": 1e-3}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
def test_public_labels(protocol, weighted, reduction):
    def loss(x):
        weight = WEIGHT.to(x.dtype) if weighted else None
        return F.cross_entropy(x, LABELS, weight, reduction=reduction)

    agree(loss, SCORES, protocol=protocol, **CLOSE)


def test_labels_of_images_and_of_one_score():
    agree(lambda x: F.nll_loss(x, PLACES), IMAGES, **CLOSE)
    agree(lambda x: F.nll_loss(x, torch.tensor(3)), normal(5), **CLOSE)


def test_an_ignored_class():
    agree(lambda x: F.nll_loss(x, torch.tensor([0, 1, 4, 0]), ignore_index=0), SCORES, **CLOSE)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
def test_secret_labels(protocol, weight):
    """Marked by an equality with every class; those to be ignored are, and nobody learns which."""

    def main(session):
        x = session.share(SCORES, owner=0).requires_grad_()
        loss = F.cross_entropy(x, session.share(LABELS, owner=0), weight)
        loss.backward()
        return session.reveal(loss), session.reveal(x.grad)

    x = SCORES.double().requires_grad_()
    wanted = F.cross_entropy(x, LABELS, None if weight is None else weight.double())
    wanted.backward()
    for loss, grad in tacit.run(
        main, protocol=protocol, parties=1 if protocol == "cleartext" else 3
    ):
        assert abs(loss - wanted) < 1e-3
        assert (grad - x.grad).abs().max() < 1e-3


def test_labels_out_of_range_and_none_at_all_are_refused():
    def main(session, labels):
        F.nll_loss(session.share(SCORES, owner=0), labels)

    for labels, why in ((torch.tensor([0, 5, 1, 1]), "classes"), (LABELS * 0 - 100, "no labels")):
        with pytest.raises(PartyFailed, match=why):
            tacit.run(main, labels, protocol="cleartext", parties=1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss]
)
def test_reductions(loss, reduction):
    target = normal(4, 5, seed=1).sign()
    agree(lambda x: loss(x * 2, target.to(x.dtype), reduction=reduction), SCORES, **CLOSE)


def test_class_probabilities_are_secret():
    chances = normal(4, 5, seed=2).softmax(1)
    agree(F.cross_entropy, SCORES * 3, chances, protocol="trio", **CLOSE)


def test_logits_with_weights_of_positives():
    def loss(x, t):
        return F.binary_cross_entropy_with_logits(x, t, pos_weight=WEIGHT.to(x.dtype))

    agree(loss, SCORES * 4, normal(4, 5, seed=1).sigmoid(), protocol="trio", **CLOSE)


def test_certain_logits_do_not_overflow():
    x = torch.tensor([-500.0, -40.0, 0.0, 40.0, 500.0])
    t = torch.tensor([0.0, 1.0, 0.5, 0.0, 1.0])
    agree(lambda x: F.binary_cross_entropy_with_logits(x, t.to(x.dtype)), x, **CLOSE)
    agree(lambda x: F.cross_entropy(x.view(1, 5), torch.tensor([3])), x, **CLOSE)


def test_probabilities_near_their_ends():
    p = torch.tensor([2.0**-8, 0.02, 0.5, 0.98, 1 - 2.0**-8])
    t = torch.tensor([0.0, 1.0, 0.25, 1.0, 0.0])
    agree(lambda p: F.binary_cross_entropy(p, t.to(p.dtype), reduction="none"), p, protocol="trio")


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf")])
def test_distances(order):
    agree(lambda x, y: torch.cdist(x, y, p=order), normal(3, 4), normal(5, 4, seed=1), **CLOSE)
    agree(lambda x: torch.pdist(x, p=order), normal(4, 3), **CLOSE)


def test_equal_rows_have_no_distance_and_no_gradient():
    x = torch.ones(2, 3)

    def main(session):
        a, b = (session.share(x, owner=0).requires_grad_() for _ in range(2))
        distances = torch.cdist(a, b)
        distances.sum().backward()
        return session.reveal(distances), session.reveal(a.grad)

    distances, grad = tacit.run(main, protocol="cleartext", parties=1)[0]
    assert distances.abs().max() < 2.0**-7
    assert not grad.any()


@pytest.mark.parametrize("labels", [torch.tensor([1, 4, 2, 0]), normal(4, 5, seed=4).softmax(1)])
def test_a_loss_that_nobody_reads_needs_no_logarithm(labels):
    """And one that is read is right, before the gradient or after."""

    def main(session):
        target = session.share(labels, owner=0) if labels.is_floating_point() else labels
        rounds, grads = [], []
        for when in ("before", "never", "after"):
            x = session.share(SCORES, owner=0).requires_grad_()
            with session.stats.scope(when) as cost:
                loss = F.cross_entropy(x, target)
                opened = session.reveal(loss) if when == "before" else None
                loss.backward()
            rounds.append(cost.rounds)
            grads.append(session.reveal(x.grad))
        return rounds, grads, opened, session.reveal(loss)

    x = SCORES.double().requires_grad_()
    wanted = F.cross_entropy(x, labels if labels.dtype == torch.int64 else labels.double())
    wanted.backward()
    (before, never, _), grads, _, after = tacit.run(main)[1]
    assert never <= before - 5
    assert abs(after - wanted) < 1e-3
    assert all((grad - x.grad).abs().max() < 1e-3 for grad in grads)
