"""What Gaussian noise on sampled batches costs: Rényi differential privacy, added up.

Mironov, Talwar and Zhang (Rényi Differential Privacy of the Sampled Gaussian Mechanism, 2019): if a
row is in a batch with probability q, and the noise is s times the largest norm of a row, the Rényi
divergence of order a is log(A) / (a - 1) with

    A = E[((1 - q) + q e^((2 z - 1) / (2 s^2)))^a]  for a normal z of deviation s.

The divergences of steps add up. The expectation is a sum over a grid, of which z is a multiple:
for noise on a grid that is what it is, and for whole orders a grid of deviation s / 32 changes it
by less than e^-20000 (Poisson's summation formula).
Canonne, Kamath and Steinke (2020), proposition 12: orders become epsilon at a given delta.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

import torch
from torch import Tensor

from ..errors import ConfigError

ORDERS = (*(1 + i / 10 for i in range(1, 100)), *map(float, range(12, 64)))
STEPS_OF_DEVIATION = 32
TAIL = 14  # deviations; what lies further out has a probability below e^-95


@lru_cache(maxsize=256)
def divergences(noise_multiplier: float, sample_rate: float) -> Tensor:
    """Returns the Rényi divergence of one step for each of ORDERS."""
    s, q = noise_multiplier, sample_rate
    orders = torch.tensor(ORDERS, dtype=torch.float64)
    if q == 1:
        return orders / (2 * s**2)
    step = s / STEPS_OF_DEVIATION
    z = torch.arange(-TAIL * s, ORDERS[-1] + TAIL * s, step, dtype=torch.float64)
    density = -(z**2) / (2 * s**2) - math.log(math.sqrt(2 * math.pi) * STEPS_OF_DEVIATION)
    exponent = (2 * z - 1) / (2 * s**2)
    ratio = torch.logaddexp(torch.full_like(z, math.log1p(-q)), exponent + math.log(q))
    log_moments = [torch.logsumexp(density + order * ratio, 0) for order in orders]
    return torch.stack(log_moments).clamp_min(0) / (orders - 1)


class Accountant:
    """Adds up the steps of a training."""

    def __init__(self) -> None:
        self.steps: Counter[tuple[float, float]] = Counter()

    def step(self, noise_multiplier: float, sample_rate: float = 1.0, *, count: int = 1) -> None:
        """Notes steps in which each row was in the batch with probability `sample_rate`.

        noise_multiplier: the deviation of the noise, in multiples of the largest norm of a row.
        """
        if not noise_multiplier > 0:
            raise ConfigError(f"{noise_multiplier=}", limit="above 0")
        if not 0 < sample_rate <= 1:
            raise ConfigError(f"{sample_rate=}", limit="above 0 and at most 1")
        self.steps[noise_multiplier, sample_rate] += count

    def epsilon(self, delta: float) -> float:
        """Returns the smallest epsilon that is proved for this delta, over all orders."""
        if not 0 < delta < 1:
            raise ConfigError(f"{delta=}", limit="above 0 and below 1")
        if not self.steps:
            return 0.0
        parts = [divergences(*about) * count for about, count in self.steps.items()]
        total = torch.stack(parts).sum(0)
        orders = torch.tensor(ORDERS, dtype=torch.float64)
        slack = (math.log(delta) + orders.log()) / (orders - 1)
        return max(float((total - slack + ((orders - 1) / orders).log()).min()), 0.0)


def noise_multiplier_for(
    epsilon: float, delta: float, *, sample_rate: float = 1.0, steps: int = 1
) -> float:
    """Returns the smallest noise multiplier, to 0.1 %, whose steps cost at most `epsilon`."""
    if not 0 < epsilon < math.inf:
        raise ConfigError(f"{epsilon=}", limit="a number above 0")

    def costs(multiplier: float) -> float:
        accountant = Accountant()
        accountant.step(multiplier, sample_rate, count=steps)
        return accountant.epsilon(delta)

    low, high = 0.0, 0.5
    while costs(high) > epsilon:
        low, high = high, 2 * high
        if high > MOST_NOISE:
            raise ConfigError(
                f"epsilon={epsilon:g} at delta={delta:g}",
                limit=f"no noise multiplier up to {MOST_NOISE:g} reaches it",
                remedy="choose a larger epsilon or delta",
            )
    while high - low > high / 1000:
        middle = (low + high) / 2
        low, high = (middle, high) if costs(middle) > epsilon else (low, middle)
    return high


MOST_NOISE = 1e6
