"""The accountant says what Opacus's says."""

import pytest

from tacit.errors import ConfigError
from tacit.privacy import Accountant, noise_multiplier_for

# noise multiplier, sample rate, steps, delta, and epsilon by opacus 1.6.0:
# a = opacus.accountants.RDPAccountant(); a.history = [(s, q, n)]; a.get_epsilon(delta)
OPACUS = [
    (1.1, 256 / 60000, 14063, 1e-5, 2.596655528688),
    (1.0, 0.01, 1000, 1e-5, 2.101365271643),
    (0.5, 0.01, 500, 1e-5, 12.120448392703),
    (4, 0.1, 200, 1e-6, 1.755047973297),
    (2, 1, 10, 1e-5, 8.07940622242),
    (0.3, 0.001, 100, 1e-5, 14.236016518089),
    (10, 0.5, 1000, 1e-7, 9.601072966461),
    (1.3, 0.02, 5000, 1e-6, 7.085934011611),
    (0.7, 0.05, 50, 1e-5, 7.251938772728),
]


@pytest.mark.parametrize(("noise", "rate", "steps", "delta", "epsilon"), OPACUS)
def test_epsilon_is_that_of_opacus(noise, rate, steps, delta, epsilon):
    accountant = Accountant()
    accountant.step(noise, rate, count=steps - 1)
    accountant.step(noise, rate)
    assert accountant.epsilon(delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(("noise", "rate", "steps", "delta", "epsilon"), OPACUS)
def test_the_noise_for_an_epsilon_is_found(noise, rate, steps, delta, epsilon):
    found = noise_multiplier_for(epsilon, delta, sample_rate=rate, steps=steps)
    assert found == pytest.approx(noise, rel=2e-3)


def test_steps_of_two_kinds_add_up():
    both, first, second = Accountant(), Accountant(), Accountant()
    for accountant in (both, first):
        accountant.step(1.0, 0.01, count=100)
    for accountant in (both, second):
        accountant.step(2.0, 0.1, count=100)
    assert Accountant().epsilon(1e-5) == 0
    assert max(first.epsilon(1e-5), second.epsilon(1e-5)) < both.epsilon(1e-5)
    assert both.epsilon(1e-5) < first.epsilon(1e-5) + second.epsilon(1e-5)


def test_what_makes_no_sense_is_refused():
    for settings in ((0.0, 0.1), (1.0, 0.0), (1.0, 1.5)):
        with pytest.raises(ConfigError):
            Accountant().step(*settings)
    with pytest.raises(ConfigError, match="delta"):
        Accountant().epsilon(0)
    with pytest.raises(ConfigError, match="no noise"):
        noise_multiplier_for(1e-9, 1e-9)
