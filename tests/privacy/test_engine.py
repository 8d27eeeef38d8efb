"""Private training: gradients of rows, clipping, noise, batches and what an attacker learns."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import tacit
from tacit.errors import ConfigError, UnsupportedModule
from tacit.privacy import PrivacyEngine
from tacit.privacy.batches import OVERFLOW, SampledBatches, places
from tacit.privacy.row_gradients import RowGradients

UNIT = 2.0**-16


class Encoder(nn.Module):
    """Looks words up, mixes them, and classifies: an embedding and a linear layer of sequences."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4, padding_idx=0)
        self.mixed = nn.Linear(4, 6)
        self.norm = nn.LayerNorm(6)
        self.classes = nn.Linear(6, 3)

    def forward(self, x):
        return self.classes(self.norm(F.relu(self.mixed(self.words(x)))).mean(1))


def pictures():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, stride=2, groups=2),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36, 3),
    )


def signals():
    conv = nn.Conv1d(2, 3, 3, dilation=2, bias=False)
    return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(18, 3))


CASES = {
    "pictures": (pictures, lambda draw: torch.randn(5, 2, 6, 6, generator=draw)),
    "signals": (signals, lambda draw: torch.randn(5, 2, 10, generator=draw)),
    "words": (Encoder, lambda draw: torch.randint(0, 7, (5, 4), generator=draw)),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_rows_are_those_of_each_row_alone(case):
    make, draw = CASES[case]
    x = draw(torch.Generator().manual_seed(1))
    y = F.one_hot(torch.arange(5) % 3, 3).float()
    with torch.random.fork_rng():
        torch.manual_seed(2)
        plain = make()
    want = []
    for i in range(5):
        plain.zero_grad()
        F.cross_entropy(plain(x[i : i + 1]), y[i : i + 1]).backward()
        want.append(torch.cat([p.grad.reshape(-1) for p in plain.parameters()]))

    def main(session):
        module = make()
        module.load_state_dict(plain.state_dict())
        module = session.share(module, owner=0)
        gradients = RowGradients(module)
        inputs = session.share(x, owner=1)
        F.cross_entropy(module(inputs), session.share(y, owner=2), reduction="sum").backward()
        assert all(p.grad is None for p in module.parameters()), "unclipped sums exist"
        return session.reveal(gradients.take(5))

    assert torch.allclose(tacit.run(main)[0], torch.stack(want), atol=2e-3)


def loader_of(session, x, y, size):
    tensors = session.share([x, y], owner=0)
    return DataLoader(TensorDataset(*tensors), batch_size=size)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_step_adds_clipped_gradients_and_noise_of_the_right_size(reduction):
    """All rows are in the batch, and are the gradients of a linear model whose loss is a sum."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(8, 400, generator=draw) * torch.tensor([0.01, 1.0] * 4)[:, None]
    clipped = x * (0.5 / x.norm(dim=1, keepdim=True)).clamp_max(1)

    def main(session):
        module = session.share(nn.Linear(400, 1, bias=False), owner=0)
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        engine = PrivacyEngine()
        module, optimizer, loader = engine.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader_of(session, x, torch.zeros(8, 1), 8),
            noise_multiplier=0.2,
            max_grad_norm=0.5,
            loss_reduction=reduction,
        )
        [(rows, _)] = loader
        before = session.reveal(module.weight)
        getattr(module(rows).flatten(), reduction)().backward()
        optimizer.step()
        with pytest.raises(ConfigError, match="batch of its own"):
            optimizer.step()
        return before - session.reveal(module.weight), engine.get_epsilon(1e-5)

    got, epsilon = tacit.run(main)[0]
    got = got.flatten() * (8 if reduction == "mean" else 1)
    noise = got - clipped.sum(0)
    deviation = 0.2 * (0.5 + 20 * UNIT)
    assert stats.kstest(noise.numpy(), stats.norm(scale=deviation).cdf).pvalue > 1e-6
    assert epsilon == pytest.approx(35.0818, rel=0.01)  # opacus 1.6.0, as in test_accountant.py


@pytest.mark.parametrize(("rows", "rate"), [(1000, 0.01), (64, 0.25), (50_000, 0.005), (10, 1.0)])
def test_batches_have_room_for_all_but_the_most_unlikely_numbers_of_rows(rows, rate):
    size = places(rows, rate)
    assert rate * rows <= size <= rows
    assert stats.binom(rows, rate).sf(size) <= OVERFLOW
    assert size < rate * rows + 12 * math.sqrt(rate * rows) + 30


@pytest.mark.parametrize("is_secret", [True, False])
def test_every_row_is_in_a_batch_with_the_same_probability_independently(is_secret):
    """The number of rows in a batch varies as that of coins does."""
    count, batches = 40, 24

    def main(session):
        x = session.share(torch.arange(float(count)).unsqueeze(1), owner=0)
        y = session.share(torch.arange(count), owner=0)
        loader = SampledBatches(session.numbers, [x, y], 1 / 4, is_secret=is_secret)
        found = []
        for _ in range(batches // 4):
            for rows, labels in loader:
                kept = loader.take_kept()
                kept = session.reveal(kept) if is_secret else kept
                values, places = session.reveal([rows[:, 0], labels])
                assert torch.equal(values.long(), places)
                found.append(places[kept].bincount(minlength=count))
        return torch.stack(found)

    found = tacit.run(main)[0]
    assert found.max() == 1
    sizes = found.sum(1).double()
    chance = stats.binomtest(int(sizes.sum()), count * batches, 1 / 4)
    assert chance.pvalue > 1e-7
    spread = (batches - 1) * float(sizes.var()) / (count * 3 / 16)
    law = stats.chi2(batches - 1)
    assert law.ppf(1e-7) < spread < law.isf(1e-7)
    assert stats.chisquare(found.sum(0).numpy()).pvalue > 1e-7


def test_what_cannot_be_made_private_is_refused():
    def main(session):
        engine = PrivacyEngine()
        data = loader_of(session, torch.rand(6, 3), torch.rand(6, 2), 2)

        def attempt(module, loader=data, **options):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            engine.make_private(
                module=module,
                optimizer=optimizer,
                data_loader=loader,
                noise_multiplier=1.0,
                max_grad_norm=1.0,
                **options,
            )

        def shared(module):
            return session.share(module, owner=0)

        with pytest.raises(UnsupportedModule, match=r"1 \(BatchNorm1d\).*GroupNorm"):
            attempt(shared(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))))
        with pytest.raises(ConfigError, match="secret parameters"):
            attempt(nn.Linear(3, 2))
        with pytest.raises(ConfigError, match="data_loader"):
            attempt(shared(nn.Linear(3, 2)), loader=[1, 2])
        with pytest.raises(ConfigError, match="loss_reduction"):
            attempt(shared(nn.Linear(3, 2)), loss_reduction="none")
        with pytest.raises(ConfigError, match="batches"):
            attempt(shared(nn.Linear(3, 2)), batches="some")

    tacit.run(main)


def test_a_training_costs_what_opacus_says_and_its_reveal_says_so():
    def main(session):
        session.limit_privacy(epsilon=7.0, delta=1.1e-5)
        module = session.share(nn.Linear(3, 1), owner=0)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        engine = PrivacyEngine()
        module, optimizer, loader = engine.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader_of(session, torch.rand(12, 3), torch.rand(12, 1), 3),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        for _ in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(module(x), y).backward()
                optimizer.step()
        plain = session.reveal(module, dp=engine.spent(1e-5))
        assert isinstance(plain, nn.Linear)
        return engine.get_epsilon(1e-5), session.privacy_spent

    epsilon, spent = tacit.run(main)[0]
    assert epsilon == spent.epsilon == pytest.approx(6.2531, rel=0.01)  # opacus 1.6.0
    assert 1e-5 < spent.delta < 1.01e-5


class Attack:
    """Takes rows with a small loss for members of the training set.

    Features are random numbers, and 30 % of the labels are wrong: a model that tells those of the
    members right remembers them. The attacker knows the median loss of rows that are no members.
    There are many of those, so that the error of the measurement is that of the members, 0.4 points
    of 100.
    """

    def __init__(self, seed):
        print(f"seed {seed}")
        self._draw = torch.Generator().manual_seed(seed)
        self.members, self.others = self._rows(4000), self._rows(40_000)

    def _rows(self, count):
        x = torch.randn(count, 60, generator=self._draw)
        wrong = torch.rand(count, generator=self._draw) < 0.3
        return x, ((x[:, :4].sum(1) > 0) ^ wrong).float().unsqueeze(1)

    def points(self, model):
        """How far it is above chance, in points of 100: at most 25."""
        with torch.no_grad():
            members, others = (
                F.binary_cross_entropy_with_logits(model(x), y, reduction="none")
                for x, y in (self.members, self.others)
            )
        return 50 * (float((members <= others.median()).float().mean()) - 0.5)


def attacked_model():
    return nn.Sequential(nn.Linear(60, 64), nn.Tanh(), nn.Linear(64, 1))


@pytest.mark.full("clipping, noise and accounting of steps are tested in the quick tier")
def test_an_attack_on_membership_fails_with_epsilon_1():
    """Trains in the arithmetic of a session without shares: the numbers are the same."""
    attack = Attack(seed=5)
    x, y = attack.members
    with torch.random.fork_rng():
        torch.manual_seed(0)
        plain = attacked_model()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(plain(x), y).backward()
        optimizer.step()

    def main(session):
        module = session.share(attacked_model(), owner=0)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.02)
        engine = PrivacyEngine()
        module, optimizer, loader = engine.make_private_with_epsilon(
            module=module,
            optimizer=optimizer,
            data_loader=loader_of(session, x, y, 100),
            target_epsilon=1.0,
            target_delta=1e-5,
            epochs=1,
            max_grad_norm=1.0,
            loss_reduction="sum",
            batches="public",
        )
        for rows, labels in loader:
            F.binary_cross_entropy_with_logits(module(rows), labels, reduction="sum").backward()
            optimizer.step()
        return session.reveal(module, dp=engine.spent(1e-5)), engine.get_epsilon(1e-5)

    private, epsilon = tacit.run(main, protocol="cleartext")[0]
    assert 0.95 < epsilon <= 1
    with torch.no_grad():
        right = ((private(attack.others[0]) > 0) == (attack.others[1] > 0)).float().mean()
    print(f"without {attack.points(plain):.1f}, with {attack.points(private):.1f} points, {right}")
    assert attack.points(plain) > 15
    assert attack.points(private) <= 2
    assert right > 0.56, "it has learnt nothing"
