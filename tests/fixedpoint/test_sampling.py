"""Random secrets have the distributions that they are said to have."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy
import pytest
import torch
from scipy import stats

import tacit
from tacit.errors import ConfigError, RangeError, RevealForbidden, UnsupportedOp
from tacit.fixedpoint import sampling
from tacit.fixedpoint.sampling import normal_grid
from tacit.fixedpoint.shuffle import distances, switches
from tacit.kernels import pack_bits
from tacit.ring import RING64
from tacit.tensor import SecretTensor

FALSE_ALARM = 1e-9  # of each statistical check
GRID = SimpleNamespace(ring=RING64)  # what a grid depends on


def revealed(draw, *, protocol="trio", parties=3, **settings):
    """What a function of the session draws, as all parties see it."""

    def main(session):
        return session.reveal(draw(session))

    first, *others = tacit.run(main, protocol=protocol, parties=parties, **settings)
    assert all(torch.equal(first, other) for other in others)
    return first


def all_words(bits):
    """Planes of every word of so many bits, one a column."""
    words = torch.arange(1 << bits)
    return torch.stack([pack_bits(words >> i & 1) for i in range(bits)])


@pytest.mark.parametrize("bits", range(1, 9))
def test_a_biased_bit_is_one_for_as_many_words_as_its_probability_says(bits, monkeypatch):
    """Over all uniform words instead of random ones: exact."""
    monkeypatch.setattr(sampling, "PROBABILITY_BITS", bits)
    words = 1 << bits

    def main(session):
        n, p, counts = session.numbers, session.protocol, []

        def every_word(shape, width):
            # A probability with fewer digits needs fewer bits: the highest ones.
            planes = all_words(bits)[bits - width :]
            return p.public_bits(planes, shape)

        monkeypatch.setattr(p, "random_bits", every_word)
        for numerator in range(words + 1):
            counts.append([])
            for p_one in (numerator / words, torch.tensor(numerator / words)):
                truths = SecretTensor(n.random_truths((words,), p_one), n)
                counts[-1].append(int(session.reveal(truths).sum()))
        return counts

    [counts] = tacit.run(main, protocol="cleartext", parties=1)
    assert counts == [[count, count] for count in range(words + 1)]


def test_digits_of_a_geometric_number_are_independent():
    """The product of the probabilities of its digits is that of the number, as fractions."""
    q, digits = Fraction(7, 8), 6
    ones = [q ** (1 << j) / (1 + q ** (1 << j)) for j in range(digits)]
    total = sum(q**g for g in range(1 << digits))
    for g in range(1 << digits):
        product = math.prod(ones[j] if g >> j & 1 else 1 - ones[j] for j in range(digits))
        assert product == q**g / total


@pytest.mark.parametrize("deviation", [0.25, 1.0, 2.5, 100.0, 65536.0])
def test_kept_draws_have_the_law_of_the_normal_grid(deviation):
    """Probability of a draw times that of keeping it, over e^(-y^2 / (2 v)), is one constant."""
    grid = normal_grid(GRID, deviation)
    t, s, m = grid
    assert 1 <= grid.deviation / deviation < 1 + 2**-12
    places = sorted({round(k * deviation / 4) for k in range(25)})
    logs = [
        Fraction(-y, t) - Fraction((m * y - s) ** 2, 2 * s * t * m) + Fraction(y**2 * m, 2 * s * t)
        for y in places
    ]
    assert len(set(logs)) == 1


class DiscreteNormal:
    """The law in the form of scipy's, whose own discrete laws are slow for many values."""

    def __init__(self, deviation):
        variance = normal_grid(GRID, deviation).deviation ** 2
        most = math.ceil(9 * deviation)
        self.places = numpy.arange(-most, most + 1)
        weights = numpy.exp(-(self.places**2) / (2 * variance))
        self.probabilities, self.dist = weights / weights.sum(), self

    def stats(self, _):
        second, fourth = (self.probabilities @ self.places**k for k in (2, 4))
        return 0.0, second, fourth / second**2 - 3

    def pmf(self, k):
        return numpy.interp(k, self.places, self.probabilities, left=0, right=0)

    def ppf(self, probability):
        return self.places[numpy.searchsorted(self.probabilities.cumsum(), probability)]


PROTOCOLS = [("trio", 3), ("replicated", 3), ("additive", 2), ("additive", 4), ("quad", 4)]
# The law of each: a frozen distribution of scipy, and whether it is one of integers.
LAWS = {
    "integers": (lambda r, n: r.integers(n, 5), stats.randint(0, 32)),
    "below": (lambda r, n: r.below(n, 10), stats.randint(0, 10)),
    "uniform": (lambda r, n: r.uniform(n), stats.uniform()),
    "uniform from -2 to 6": (lambda r, n: r.uniform(n, -2, 6), stats.uniform(-2, 8)),
    "bernoulli": (lambda r, n: r.bernoulli(0.3, n), stats.bernoulli(0.3)),
    "normal": (lambda r, n: r.normal(n), stats.norm()),
    "normal of 3 and 0.5": (lambda r, n: r.normal(n, 3, 0.5), stats.norm(3, 0.5)),
    "exponential": (lambda r, n: r.exponential(n, 2.0), stats.expon(scale=2)),
    "laplace": (lambda r, n: r.laplace(n, 0.5), stats.laplace(scale=0.5)),
    "discrete_laplace": (lambda r, n: r.discrete_laplace(n, 3.0), stats.dlaplace(1 / 3)),
    "discrete_normal": (lambda r, n: r.discrete_normal(n, 2.5), DiscreteNormal(2.5)),
    "discrete_normal of 300": (lambda r, n: r.discrete_normal(n, 300), DiscreteNormal(300)),
    "geometric": (lambda r, n: r.geometric(n, 0.2), stats.geom(0.2, loc=-1)),
}


def check_law(samples, law):
    """Chi-square for integers, Kolmogorov and Smirnov's test for reals, and moments of both."""
    count = len(samples)
    mean, variance, kurtosis = law.stats("mvk")
    assert abs(samples.mean() - mean) < 6.2 * math.sqrt(variance / count)
    spread = math.sqrt((float(kurtosis) + 2) / count)
    assert abs(samples.var() / variance - 1) < 6.2 * spread + 2 / count
    if not hasattr(law.dist, "pmf"):
        assert stats.kstest(samples, law.cdf).pvalue > FALSE_ALARM
        return
    low, high = (int(law.ppf(p)) for p in (100 / count, 1 - 100 / count))
    places = range(low, high + 1)
    seen = [(samples == place).sum() for place in places]
    expected = [count * law.pmf(place) for place in places]
    seen, expected = [*seen, count - sum(seen)], [*expected, count - sum(expected)]
    kept = [(s, e) for s, e in zip(seen, expected, strict=True) if e > 1e-6]
    assert sum(s for s, _ in kept) == count
    if len(kept) > 1:
        assert stats.chisquare(*zip(*kept, strict=True)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", LAWS)
def test_law(name):
    draw, law = LAWS[name]
    check_law(revealed(lambda session: draw(session.random, 20_000)).double().numpy(), law)


@pytest.mark.full("test_law draws fewer")
@pytest.mark.parametrize("name", LAWS)
def test_law_of_a_million(name):
    draw, law = LAWS[name]
    parts = [
        revealed(lambda session: draw(session.random, 250_000), protocol="cleartext", parties=1)
        for _ in range(4)
    ]
    check_law(torch.cat(parts).double().numpy(), law)


@pytest.mark.parametrize(("protocol", "parties"), PROTOCOLS)
def test_every_protocol_draws(protocol, parties):
    def draw(session):
        r = session.random
        whole = r.discrete_normal(3000, 2.5).float()
        return torch.stack([r.normal(3000), r.laplace(3000), r.uniform(3000), whole])

    drawn = revealed(draw, protocol=protocol, parties=parties).double().numpy()
    laws = (stats.norm(), stats.laplace(), stats.uniform(), DiscreteNormal(2.5))
    for samples, law in zip(drawn, laws, strict=True):
        check_law(samples, law)


def test_in_a_small_ring():
    settings = {"ring": 32, "fraction_bits": 8}
    drawn = revealed(lambda session: session.random.exponential(20_000), **settings)
    units = stats.geom(1 - math.exp(-(2.0**-8)), loc=-1)
    check_law((drawn.double() * 2**8).numpy(), units)
    drawn = revealed(lambda session: session.random.normal(20_000), **settings).double()
    assert stats.kstest(drawn + torch.rand(20_000) * 2**-8, stats.norm().cdf).statistic < 0.03


def test_coins_are_recorded_and_need_no_permission():
    def main(session):
        noise = session.random.discrete_normal(5, 4.0)
        kinds = {one.purpose for one in session.reveals}
        return kinds, session.reveal(noise, to=1)

    _, (kinds, noise), _ = tacit.run(main, reveals=[1])
    assert kinds == {"coin"}
    assert noise.dtype == torch.int64


def test_only_a_coin_needs_no_permission():
    """Not what is computed from it, and not what another call of a map reveals meanwhile."""

    def main(session):
        p, bits = session.protocol, session.protocol.random_bits((4,))
        bits.is_coin = True
        p.reveal(bits, dtype=torch.bool)
        with pytest.raises(RevealForbidden):
            p.reveal(p.bit_not(bits), dtype=torch.bool)

        def noisy(x):
            noise = session.random.discrete_normal(3, 4.0)
            with pytest.raises(RevealForbidden):
                session.reveal(x)
            return x + noise

        x = session.share(torch.ones(6, 3), owner=0)
        list(session.map(noisy, x.split(1)))

    tacit.run(main, reveals=[1])


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: r.discrete_laplace(3, 1e18),
        lambda r: r.geometric(3, 1e-18),
        lambda r: r.exponential(3, 1e6),
        lambda r: r.laplace(3, 1e6),
        lambda r: r.uniform(3).exponential_(1e-6),
    ],
)
def test_draws_that_may_leave_the_range_are_refused(draw):
    def main(session):
        with pytest.raises(RangeError, match="a random number of scale"):
            draw(session.random)

    tacit.run(main, protocol="cleartext", parties=1)


def test_a_small_ring_has_no_discrete_normal_numbers():
    def main(session):
        with pytest.raises(ConfigError, match="with ring=64"):
            session.random.discrete_normal(3, 4.0)

    tacit.run(main, protocol="cleartext", parties=1, ring=32, fraction_bits=8)


def test_two_draws_differ():
    def draw(session):
        return torch.stack([session.random.uniform(1000), session.random.uniform(1000)])

    one, other = revealed(draw)
    assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.2


def test_secret_and_different_probabilities():
    p = torch.tensor([0.0, 0.1, 0.5, 1.0]).repeat(5000)

    def draw(session):
        secret = session.share(p, owner=0)
        return torch.stack([session.random.bernoulli(p), session.random.bernoulli(secret)])

    for row in revealed(draw):
        means = row.double().view(5000, 4).mean(0)
        assert torch.allclose(means, p[:4].double(), atol=0.045)
        assert (means[0], means[3]) == (0, 1)


def test_weighted_index():
    weights = torch.tensor([[1.0, 0.0, 3.0], [2.0, 2.0, 4.0]])

    def draw(session):
        return session.random.weighted_index(session.share(weights, owner=1), 4000)

    for row, expected in zip(revealed(draw), weights, strict=True):
        counts = torch.bincount(row, minlength=3)
        used = expected > 0
        assert bool((counts[~used] == 0).all())
        wanted = 4000 * expected[used] / expected.sum()
        assert stats.chisquare(counts[used].numpy(), wanted.numpy()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("protocol", ["trio", "additive", "quad", "enclave"])
def test_a_weight_of_zero_is_never_drawn(protocol):
    """Few units of weight: chosen numbers are often within a unit of a sum."""
    zeros = [0, 2, 4, 6]
    weights = torch.ones(7).index_fill(0, torch.tensor(zeros), 0) * 2.0**-11
    parties = {"additive": 2, "quad": 4}.get(protocol, 3)
    settings = {"outsourcing": "none"} if protocol == "enclave" else {}

    def draw(session):
        halves = session.share(2 * weights, owner=0) * session.share(torch.tensor(0.5), owner=1)
        again = session.random.weighted_index(halves, 20000)
        once = halves.expand(10000, 7).multinomial(3)
        return torch.cat([again, once.flatten()])

    drawn = revealed(draw, protocol=protocol, parties=parties, **settings)
    assert not torch.isin(drawn, torch.tensor(zeros)).any()
    rows = drawn[20000:].view(-1, 3).sort(1).values
    assert torch.equal(rows, torch.tensor([[1, 3, 5]]).expand_as(rows))


@pytest.mark.parametrize("protocol", ["trio", "enclave"])
def test_multinomial_without_replacement(protocol):
    """Each set of places is drawn as often as torch's way of drawing says; no place twice."""
    weights = torch.tensor([0.5, 0.0, 1.5, 2.0, 0.0])
    settings = {"outsourcing": "none"} if protocol == "enclave" else {}

    def draw(session):
        return session.share(weights.expand(3000, 5), owner=0).multinomial(2)

    pairs = Counter(map(tuple, revealed(draw, protocol=protocol, **settings).tolist()))
    chances = weights.double() / weights.double().sum()
    wanted = {
        (i, j): float(chances[i] * chances[j] / (1 - chances[i]))
        for i, j in itertools.permutations((0, 2, 3), 2)
    }
    assert set(pairs) <= set(wanted)
    expected = [3000 * wanted[pair] for pair in wanted]
    assert stats.chisquare([pairs[pair] for pair in wanted], expected).pvalue > FALSE_ALARM


def test_multinomial_with_replacement_and_what_is_refused():
    weights = torch.tensor([1e-3, 0.0, 3e-3, 0.0])

    def draw(session):
        secret = session.share(weights, owner=0)
        for refused in (
            lambda: torch.multinomial(secret, 5),
            lambda: torch.multinomial(secret, 0),
            lambda: torch.multinomial(secret.view(1, 1, 4), 2),
            lambda: session.random.weighted_sample(secret.view(2, 2), secret),
        ):
            with pytest.raises(ConfigError):
                refused()
        with pytest.raises(UnsupportedOp):
            torch.multinomial(secret, 2, generator=torch.Generator())
        return torch.multinomial(secret, 4000, replacement=True)

    counts = torch.bincount(revealed(draw), minlength=4)
    assert counts[1] == counts[3] == 0
    assert stats.binomtest(int(counts[0]), 4000, 66 / 263).pvalue > FALSE_ALARM


@pytest.mark.parametrize("replacement", [True, False])
def test_weighted_sample_returns_rows_by_their_weights(replacement):
    rows = torch.tensor([[[1.5, -2.0]], [[0.25, 7.0]], [[100.0, 3.0]]])
    weights = torch.tensor([1.0, 0.0, 3.0])

    def draw(session):
        secret = session.share([rows, weights], owner=0)
        return session.random.weighted_sample(*secret, count=2, replacement=replacement)

    drawn = revealed(draw)
    assert drawn.shape == (2, 1, 2)
    found = [int((rows == one).all(2).all(1).nonzero()) for one in drawn]
    assert set(found) == {0, 2} if not replacement else set(found) <= {0, 2}


def moved(order):
    """The places 0, 1, ... after Benes' network with the switches of this order."""
    rows = torch.arange(len(order))
    depth = (len(order) - 1).bit_length()
    for bits, distance in zip(switches(order), distances(depth), strict=True):
        pairs = rows.view(-1, 2, distance)
        crossed = torch.tensor(bits, dtype=torch.bool).view(-1, 1, distance)
        rows = torch.where(crossed, pairs.flip(1), pairs).flatten()
    return tuple(rows.tolist())


def test_switches_make_every_permutation():
    for size in (2, 4):
        for order in itertools.permutations(range(size)):
            assert moved(order) == order
    rng = random.Random(7)
    for size in (8, 32, 256):
        order = tuple(rng.sample(range(size), size))
        assert moved(order) == order


@pytest.mark.parametrize(("protocol", "parties"), PROTOCOLS)
def test_shuffled_rows_stay_whole(protocol, parties):
    table = torch.arange(39.0).view(13, 3) - 7.5

    def draw(session):
        r = session.random
        return torch.cat([r.shuffle(session.share(table, owner=0)), r.shuffle(table)])

    for rows in revealed(draw, protocol=protocol, parties=parties).split(13):
        assert not torch.equal(rows, table)  # but for one in 13! draws
        assert torch.equal(rows[rows[:, 0].argsort()], table)


def test_all_orders_are_as_likely():
    def main(session):
        orders = [session.random.permutation(3) for _ in range(600)]
        return session.reveal(torch.stack(orders))

    [orders] = tacit.run(main, protocol="cleartext", parties=1)
    seen = Counter(tuple(order.tolist()) for order in orders)
    assert sorted(seen) == sorted(itertools.permutations(range(3)))
    assert stats.chisquare([*seen.values()]).pvalue > FALSE_ALARM


def test_truth_values_and_few_rows_are_shuffled():
    def draw(session):
        bits = session.share(torch.tensor([True, False, True, True, False]), owner=0)
        one = session.share(torch.tensor([3.0]), owner=0)
        assert session.reveal(session.random.shuffle(one)).tolist() == [3.0]
        return session.random.shuffle(bits)

    assert sorted(revealed(draw).tolist()) == [False, False, True, True, True]


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: r.shuffle(torch.tensor(1.0)),
        lambda r: r.integers(3, 60),
        lambda r: r.integers(3, 0),
        lambda r: r.below(3, 0),
        lambda r: r.bernoulli(1.5, 3),
        lambda r: r.bernoulli(torch.tensor([0.5, float("nan")])),
        lambda r: r.exponential(3, -1.0),
        lambda r: r.geometric(3, 1.0),
        lambda r: r.uniform(3).exponential_(0.0),
        lambda r: r.uniform(3).uniform_(2, 1),
        lambda r: r.uniform(3).normal_(0, -1),
        lambda r: r.uniform(3).bernoulli_(torch.tensor(1.5)),
        lambda r: torch.randint_like(r.uniform(3), 5, 5),
        lambda r: r.discrete_normal(3, 0.0),
        lambda r: r.discrete_normal(3, 2.0**40),
        lambda r: r.discrete_laplace(3, math.nan),
    ],
)
def test_bad_arguments(draw):
    def main(session):
        with pytest.raises(ConfigError, match=r"allowed|from|above|most|needed"):
            draw(session.random)

    tacit.run(main, protocol="cleartext", parties=1)


@pytest.mark.parametrize("enclaves", [1, 2])
def test_in_an_enclave(enclaves):
    def draw(session):
        r = session.random
        many = [r.normal(3000), r.laplace(3000), r.uniform(3000), r.exponential(3000)]
        whole = [r.integers(3000, 5), r.below(3000, 10), r.discrete_laplace(3000, 3.0)]
        whole.append(r.discrete_normal(3000, 2.5))
        assert sorted(session.reveal(r.permutation(9)).tolist()) == [*range(9)]
        return torch.stack([*many, *(x.float() for x in whole), r.bernoulli(0.3, 3000).float()])

    drawn = revealed(
        draw, protocol="enclave", parties=2, enclaves=enclaves, allow_simulated=True
    ).double()
    names = ("normal", "laplace of 1", "uniform", "exponential of 1")
    names += ("integers", "below", "discrete_laplace", "discrete_normal", "bernoulli")
    more = {"laplace of 1": stats.laplace(), "exponential of 1": stats.expon()}
    laws = {name: law for name, (_, law) in LAWS.items()} | more
    for samples, name in zip(drawn.numpy(), names, strict=True):
        check_law(samples, laws[name])


TORCH = {
    "rand_like": (torch.rand_like, stats.uniform()),
    "randn_like": (torch.randn_like, stats.norm()),
    "randint_like": (lambda x: torch.randint_like(x, -3, 7), stats.randint(-3, 7)),
    "uniform_": (lambda x: x.clone().uniform_(1, 3), stats.uniform(1, 2)),
    "normal_": (lambda x: x.clone().normal_(2, 0.5), stats.norm(2, 0.5)),
    "exponential_": (lambda x: x.clone().exponential_(2), stats.expon(scale=0.5)),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.7), stats.bernoulli(0.7)),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.25), stats.bernoulli(0.25)),
}


@pytest.mark.parametrize("name", TORCH)
def test_names_of_torch_draw_secrets(name):
    function, law = TORCH[name]

    def draw(session):
        made = function(session.share(torch.zeros(5000), owner=0))
        assert made.value.known is None  # no party knows it
        return made

    check_law(revealed(draw).double().numpy(), law)
