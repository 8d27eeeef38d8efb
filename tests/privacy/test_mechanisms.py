"""Mechanisms add the noise that they say, to sums whose rows cannot be larger than they say."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from scipy import stats

import tacit
from tacit.errors import ConfigError, PrivacyBudgetExceeded
from tacit.privacy import (
    Gaussian,
    Laplace,
    RandomisedResponse,
    clipped_rows,
    clipped_sum,
    noise_multiplier_for,
)
from tacit.privacy.clipping import norm_bound
from tacit.protocols import PrivacySpent
from tacit.protocols.reveals import RevealPolicy

FALSE_ALARM = 1e-9  # of each statistical check
UNIT = 2.0**-16
MANY = 20_000


def revealed(x, mechanism, **settings):
    """What all parties see of a party's tensor."""

    def main(session):
        return session.reveal(session.share(x, owner=0), dp=mechanism)

    return tacit.run(main, **settings)[0]


def discrete_laplace_steps(found, scale):
    """The law of floor(x / width) for a chi-square test of integers x."""
    width = max(round(scale / 4), 1)
    edges = torch.arange(-8, 9) * width
    law = stats.dlaplace(1 / scale)
    chances = [law.cdf(b - 1) - law.cdf(a - 1) for a, b in pairwise(edges)]
    chances = [law.cdf(int(edges[0]) - 1), *chances, law.sf(int(edges[-1]) - 1)]
    bins = torch.bucketize(found, edges, right=True).bincount(minlength=len(chances))
    return stats.chisquare(bins.numpy(), [len(found) * float(one) for one in chances]).pvalue


@pytest.mark.parametrize("protocol", ["trio", "enclave"])
def test_noise_on_reals_is_discrete_laplace_noise_in_units(protocol):
    settings = {"outsourcing": "none"} if protocol == "enclave" else {}
    mechanism = Laplace(epsilon=0.5, sensitivity=1.0)
    x = torch.full((MANY,), 3.25, dtype=torch.float64)
    got = (revealed(x, mechanism, protocol=protocol, **settings) - x) / UNIT
    units = got.round()
    assert torch.equal(got, units), "noise is off the grid"
    scale = 2 / UNIT
    assert discrete_laplace_steps(units.long(), scale) > FALSE_ALARM
    assert len(units.remainder(16).unique()) == 16, "low bits are not used"


def test_noise_on_counts_is_discrete_laplace_noise():
    got = revealed(torch.full((MANY,), 7), Laplace(epsilon=0.25, sensitivity=1.0)) - 7
    assert got.dtype == torch.int64
    assert discrete_laplace_steps(got, 4.0) > FALSE_ALARM


@pytest.mark.parametrize("sensitivity", [0.5, 300.0])
def test_gaussian_noise_has_the_deviation_that_epsilon_and_delta_need(sensitivity):
    """300 needs more than 2^24 units, so that a coarser grid is used."""
    mechanism = Gaussian(epsilon=1.0, delta=1e-5, sensitivity=sensitivity)
    x = torch.full((MANY,), -2.5, dtype=torch.float64)
    got = revealed(x, mechanism) + 2.5
    deviation = sensitivity * noise_multiplier_for(1.0, 1e-5)
    assert stats.kstest(got.numpy(), stats.norm(scale=deviation).cdf).pvalue > FALSE_ALARM
    spread = 6.5 * deviation / math.sqrt(2 * MANY)
    assert deviation - spread < got.std() < deviation * 1.001 + spread + 2 * UNIT * sensitivity
    assert torch.equal(got / UNIT, (got / UNIT).round())


def test_gaussian_noise_on_counts_is_whole():
    mechanism = Gaussian(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    got = revealed(torch.full((4000,), 7), mechanism) - 7
    scale = noise_multiplier_for(1.0, 1e-5)
    assert got.dtype == torch.int64
    assert abs(float(got.double().std()) / scale - 1) < 6.5 / math.sqrt(8000)
    assert abs(float(got.double().mean())) < 6.5 * scale / math.sqrt(4000)


def test_randomised_response_flips_as_often_as_epsilon_says():
    truth = torch.arange(MANY) % 4 == 0
    mechanism = RandomisedResponse(epsilon=1.5)
    answers = revealed(truth, mechanism)
    for value in (True, False):
        flipped = int((answers != truth)[truth == value].sum())
        chance = stats.binomtest(flipped, int((truth == value).sum()), 1 / (1 + math.exp(1.5)))
        assert chance.pvalue > FALSE_ALARM
    assert abs(float(mechanism.true_share(answers)) - 0.25) < 0.05


def extreme_rows(size, seed):
    """Rows of many norms and kinds: dense, one large number, equal numbers, zeros."""
    print(f"seed {seed}")
    draw = torch.Generator().manual_seed(seed)
    dense = torch.randn(40, size, generator=draw, dtype=torch.float64)
    dense *= torch.logspace(-5, 2, 40, dtype=torch.float64)[:, None]
    spikes = torch.zeros(20, size, dtype=torch.float64)
    spikes[:, 0] = torch.logspace(-4, 5.9, 20, dtype=torch.float64)
    equal = torch.ones(20, size, dtype=torch.float64)
    equal *= torch.logspace(-4, 5.5, 20, dtype=torch.float64)[:, None]
    return torch.cat([dense, spikes, -equal, torch.zeros(1, size, dtype=torch.float64)])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("size", [1, 3, 300])
@pytest.mark.parametrize("bound", [0.05, 1.0, 7.5])
def test_no_clipped_row_exceeds_its_bound(order, size, bound):
    rows = extreme_rows(size, seed=size)

    def main(session):
        x = session.share(rows, owner=0)
        clipped = session.reveal(clipped_rows(x, bound, order=order))
        return clipped, norm_bound(session.numbers, bound, size, order)

    got, most = tacit.run(main)[0]
    norms = got.norm(p=order, dim=1)
    assert bound <= most <= bound + size * UNIT
    assert float(norms.max()) <= most + 1e-12
    true = rows.norm(p=order, dim=1)
    small = true < 0.9 * bound
    assert torch.allclose(got[small], rows[small], rtol=1e-3 * (1 + bound), atol=4 * UNIT)
    moderate = (true > bound) & (true < 50 * bound)
    assert (norms[moderate] > 0.9 * bound - size * UNIT).all()


def test_a_sum_of_clipped_rows_is_that_of_torch():
    rows = torch.randn(64, 5, generator=torch.Generator().manual_seed(4))

    def main(session):
        return session.reveal(clipped_sum(session.share(rows, owner=1), 2.0))

    factors = (2.0 / rows.norm(dim=1, keepdim=True)).clamp_max(1)
    assert torch.allclose(tacit.run(main)[0], (rows * factors).sum(0), atol=0.02)


def test_one_person_changes_a_revealed_sum_by_no_more_than_the_clip():
    """An outlier of 10^5 moves a sum of ages by as much as 100."""
    ages = torch.tensor([40.0, 50.0, 1e5])
    got = revealed(ages, Laplace(epsilon=1000.0, clip=100.0))
    assert abs(float(got) - 190) < 10


def test_the_record_and_the_sum_of_reveals_say_what_was_spent():
    def main(session):
        x = session.share(torch.rand(50, 3), owner=0)
        session.reveal(x, to=1, dp=Gaussian(epsilon=0.5, delta=1e-6, clip=1.0))
        session.reveal(x.sum(), dp=Laplace(epsilon=0.25, sensitivity=3.0))
        session.reveal(x > 0.5, dp=RandomisedResponse(epsilon=1.0))
        program = [one for one in session.reveals if one.purpose == "program"]
        return [one.privacy for one in program], session.privacy_spent

    everybody = tacit.run(main)
    assert everybody[0] == everybody[1] == everybody[2]
    costs, total = everybody[0]
    assert [one.mechanism for one in costs] == [
        "Gaussian noise, rows clipped to 1",
        "Laplace noise, sensitivity 3 as the program states",
        "randomised response",
    ]
    assert [one.epsilon for one in costs] == [0.5, 0.25, 1.0]
    assert total.epsilon == 1.75
    assert 1e-6 < total.delta < 1.001e-6


def test_a_budget_refuses_what_is_beyond_it_before_anything_is_sent():
    def main(session):
        x = session.share(torch.rand(50, 3), owner=0)
        session.limit_privacy(epsilon=1.0, delta=1e-6)
        for _ in range(10):
            session.reveal(x, dp=Laplace(epsilon=0.1, clip=1.0))
        refused = {}
        for name, dp in (("more", Laplace(epsilon=0.1, clip=1.0)), ("no noise", None)):
            sent = session.stats.messages
            with pytest.raises(PrivacyBudgetExceeded) as error:
                session.reveal(x, dp=dp)
            assert session.stats.messages == sent
            refused[name] = str(error.value)
        with pytest.raises(ConfigError, match="set already"):
            session.limit_privacy(epsilon=5.0)
        return refused, session.privacy_spent.epsilon

    for refused, epsilon in tacit.run(main):
        assert "epsilon 1.1" in refused["more"]
        assert "dp=" in refused["no noise"]
        assert epsilon == pytest.approx(1.0)


def test_several_tensors_of_one_reveal_are_paid_once():
    def main(session):
        spent = Gaussian(epsilon=0.5, delta=1e-6, clip=1.0).cost(session.share(torch.ones(2), 0))
        model = session.share(torch.nn.Linear(3, 2), owner=0)
        session.reveal([model, model, model.weight.detach()], dp=spent)
        return session.privacy_spent.epsilon, len(session.reveals)

    assert tacit.run(main)[0] == (0.5, 5)


def test_a_reveal_in_a_repeated_function_costs_each_time():
    def main(session):
        x = session.share(torch.rand(50), owner=0)
        noisy = session.repeated(lambda x: session.reveal(x, dp=Laplace(epsilon=0.1, clip=1.0)))
        values = {float(noisy(x)) for _ in range(8)}
        return len(values), session.privacy_spent.epsilon

    count, epsilon = tacit.run(main)[0]
    assert count == 8, "noise is drawn anew"
    assert epsilon == pytest.approx(0.8)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 1.0},
        {"epsilon": 1.0, "clip": 1.0, "sensitivity": 1.0},
        {"epsilon": 0.0, "clip": 1.0},
        {"epsilon": 1.0, "clip": -1.0},
    ],
)
def test_a_mechanism_without_a_bound_is_refused(settings):
    with pytest.raises(ConfigError):
        Laplace(**settings)
    with pytest.raises(ConfigError):
        Gaussian(delta=1e-5, **settings)


def test_what_cannot_be_given_noise_is_refused():
    def main(session):
        x = session.share(torch.rand(5), owner=0)
        for secret, dp in (
            ([x], Laplace(epsilon=1.0, clip=1.0)),
            (x.sum(), Laplace(epsilon=1.0, clip=1.0)),
            (x, RandomisedResponse(epsilon=1.0)),
            (x.view(1, 5), Laplace(epsilon=1.0, clip=1e-5)),
            (x.view(1, 5), Laplace(epsilon=1.0, clip=1e5)),
        ):
            with pytest.raises(ConfigError):
                session.reveal(secret, dp=dp)

    tacit.run(main)


@pytest.mark.parametrize("cost", [(-1.0, 0.0), (math.nan, 0.0), (1.0, -0.1), (1.0, math.nan)])
def test_a_cost_or_budget_that_is_none_is_refused(cost):
    """No budget would ever be spent that is not a number, and no reveal gives privacy back."""
    with pytest.raises(ConfigError, match="epsilon is 0 or more"):
        PrivacySpent("a mechanism", *cost)
    with pytest.raises(ConfigError, match="epsilon is 0 or more"):
        RevealPolicy(["a", "b"]).limit_privacy(*cost)
