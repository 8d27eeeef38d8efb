"""Normalisation of secrets: statistics, small variances, what is kept, what is refused."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.tensor.module_comparison import agree
from torch import nn

import tacit
from tacit.errors import PartyFailed


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def trained_norm() -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(3)
    norm(normal(8, 3, 4, 4) * 2 + 1)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([0.5, 2.0, -1.0]))
        norm.bias.copy_(torch.tensor([0.3, -1.0, 4.0]))
    return norm


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(training, protocol):
    agree(trained_norm().train(training), normal(4, 3, 5, 5) * 2, protocol=protocol)


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
def test_evaluation_with_large_variances(protocol):
    """Of networks that take pixels from 0 to 255, the first ones are beyond 10^4."""
    norm = trained_norm().eval()
    norm.running_var.copy_(torch.tensor([9e5, 83614.0, 8200.0]))
    x = normal(4, 3, 5, 5) * norm.running_var.sqrt().reshape(3, 1, 1)
    agree(norm, x, protocol=protocol)


def test_public_batch_norm_is_local():
    agree(trained_norm().eval(), normal(4, 3, 5, 5), protocol="trio", shared=False, absolute=5e-3)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics(momentum):
    norm = nn.BatchNorm2d(3, momentum=momentum)
    batches = [normal(4, 3, 5, 5, seed=seed) * 3 + seed for seed in range(3)]

    def main(session):
        own = session.share(copy.deepcopy(norm), owner=0)
        for batch in batches:
            own(session.share(batch, owner=1))
        plain = session.reveal(own)
        return plain.running_mean, plain.running_var, plain.num_batches_tracked

    plain = copy.deepcopy(norm).double()
    for batch in batches:
        plain(batch.double())
    for mean, var, count in tacit.run(main):
        assert (mean - plain.running_mean).abs().max() < 1e-3
        assert ((var - plain.running_var).abs() / plain.running_var).max() < 1e-3
        assert count == 3


def test_evaluation_is_one_product_after_the_first_time():
    """Scale and shift are kept with the variance, and made again when a statistic changes."""

    def main(session):
        norm = session.share(trained_norm().eval(), owner=0)
        x = session.share(normal(2, 3, 4, 4), owner=1)
        rounds = []
        for _ in range(2):
            with session.stats.scope("norm") as cost:
                norm(x)
            rounds.append(cost.rounds)
        with torch.no_grad():
            norm.running_var.mul_(4.0)
            norm.bias.add_(1.0)
        return rounds, session.reveal(norm(x))

    plain = trained_norm().eval()
    with torch.no_grad():
        plain.running_var.mul_(4.0)
        plain.bias.add_(1.0)
    (_, second), got = tacit.run(main)[1]
    assert second == 1
    assert (got - plain(normal(2, 3, 4, 4))).abs().max() < 1e-3


@pytest.mark.parametrize("size", [0.02, 0.1, 1.0, 30.0])
def test_layer_norm_of_small_and_large_values(size):
    """Relative precision is that of values of this size."""
    x = normal(4, 32) * size
    norm = nn.LayerNorm(32)

    def main(session):
        return session.reveal(norm(session.share(x, owner=0)))

    with torch.no_grad():
        wanted = norm.double()(x.double())
    norm.float()
    assert (tacit.run(main)[0] - wanted).abs().max() < max(1e-3, 2e-4 / size)


@pytest.mark.parametrize("protocol", ["cleartext", "trio", "replicated"])
def test_squares_may_add_up_beyond_the_range(protocol):
    """One value of 193 among 384, as inside a trained language model, and a variance of 900."""
    spiked = normal(3, 384)
    spiked[0, 7] = 193.0
    spiked[1] *= 30.0
    agree(nn.LayerNorm(384), spiked, protocol=protocol)


def test_many_values_have_a_variance():
    x = normal(64, 2, 32, 32) * 3
    agree(nn.BatchNorm2d(2), x, protocol="cleartext")


def test_training_with_public_statistics_is_refused():
    norm = nn.BatchNorm2d(3)

    def main(session):
        norm(session.share(normal(2, 3, 2, 2), owner=0))

    with pytest.raises(PartyFailed, match="share the module"):
        tacit.run(main, protocol="cleartext", parties=1)


def test_groups_and_instances_of_three_parties():
    agree(nn.GroupNorm(2, 4), normal(2, 4, 3, 3), protocol="trio")
    agree(nn.InstanceNorm1d(3, affine=True), normal(2, 3, 6), protocol="trio")
