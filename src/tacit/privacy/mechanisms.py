"""Mechanisms of differential privacy: what `session.reveal(x, dp=...)` does to x before it opens.

Noise is drawn on shares, on the grid of the numbers that it is added to, from discrete
distributions (`fixedpoint/sampling.py`). Every result is then possible for every true value. Noise
of floating-point numbers leaves gaps that tell the true value from its neighbours (Mironov, On
Significance of the Least Significant Bits for Differential Privacy, CCS 2012).

NOTE [draws]: probabilities of random bits are multiples of 2^-48. A draw has up to 6 bits of
probability below 2^-16, each off by 2^-49 at most, 3 that are left out, and up to 120 others, whose
relative entropy is below 2^-81 each. With draws that are rejected more often than not, `count`
draws differ from their laws by a total variation below count 2^-43 + sqrt(count) 2^-36, and the
mechanism has (1 + e^epsilon) times as much in its delta.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..errors import ConfigError
from ..fixedpoint import LARGEST_DEVIATION, Numbers
from ..protocols import PrivacySpent
from ..tensor import SecretTensor
from .accountant import noise_multiplier_for
from .clipping import clipped_sum, norm_bound, unit_of


def delta_of_draws(count: int, epsilon: float) -> float:
    """Returns what `count` draws add to delta; see NOTE [draws]."""
    variation = count * 2.0**-43 + math.sqrt(count) * 2.0**-36
    return min((1 + math.exp(min(epsilon, 100.0))) * variation, 1.0)


class Mechanism(ABC):
    """A way to make a secret differentially private before it is revealed."""

    @abstractmethod
    def cost(self, x: Any) -> PrivacySpent:
        """Returns what revealing x costs; raises ConfigError if it is nothing for this."""

    @abstractmethod
    def noisy(self, x: SecretTensor) -> Tensor:
        """Returns the secret that may be revealed."""


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse(Mechanism):
    """Every answer of a bool tensor, one for each person, is flipped with 1 / (1 + e^epsilon).

    What is opened says of nobody for sure what the true answer is.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    @property
    def flipped(self) -> float:
        """The probability that an answer is flipped."""
        return 1 / (1 + math.exp(self.epsilon))

    def cost(self, x: Any) -> PrivacySpent:
        """Returns the cost for the person with one answer."""
        if _secret(x).dtype != torch.bool:
            raise ConfigError(f"randomised response of {x.dtype}", limit="truth values are needed")
        return PrivacySpent("randomised response", self.epsilon, delta_of_draws(1, self.epsilon))

    def noisy(self, x: SecretTensor) -> Tensor:
        """Returns the answers, some of them flipped."""
        n = x.numbers
        return x ^ SecretTensor(n.random_truths(x.shape, self.flipped), n)

    def true_share(self, answers: Tensor) -> Tensor:
        """Returns an unbiased estimate of the share of true answers, from the revealed ones."""
        return (answers.double().mean() - self.flipped) / (1 - 2 * self.flipped)


@dataclass(frozen=True, kw_only=True)
class _Additive(Mechanism):
    """Noise that fits what one person can change. Exactly one of two numbers bounds that.

    clip: x has a row for each person (its first dimension). The rows are scaled to this norm where
    they are larger, inside of the computation, and their sum is revealed.
    sensitivity: x is revealed as it is. That one person changes it by no more is the program's
    statement, which nothing checks; the record of reveals says so.
    A person is present or not: a row is there, or zeros.
    """

    epsilon: float
    clip: float | None = None
    sensitivity: float | None = None
    order: ClassVar[int]
    name: ClassVar[str]

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        given = [one for one in (self.clip, self.sensitivity) if one is not None]
        if len(given) != 1 or not 0 < given[0] < math.inf:
            raise ConfigError(
                f"clip={self.clip!r}, sensitivity={self.sensitivity!r}",
                limit="exactly one of them, a number above 0, bounds what a person can change",
                remedy="clip=C bounds each row inside of the computation",
            )

    def cost(self, x: Any) -> PrivacySpent:
        """Returns the cost for each person."""
        shape = _secret(x).shape
        if self.clip is not None and not shape:
            raise ConfigError("clip= and a secret without rows", limit="one row for each person")
        if self.clip is None:
            bound = f"sensitivity {self.sensitivity:g} as the program states"
        else:
            bound = f"rows clipped to {self.clip:g}"
        count = (shape[1:] if self.clip else shape).numel()
        delta = self._delta + delta_of_draws(count, self.epsilon)
        return PrivacySpent(f"{self.name}, {bound}", self.epsilon, delta)

    @property
    def _delta(self) -> float:
        return 0.0

    def noisy(self, x: SecretTensor) -> Tensor:
        """Returns x, or the sum of its clipped rows, and noise."""
        n = x.numbers
        if self.clip is None:
            assert self.sensitivity is not None
            return self._added(n, on_grid(x), self.sensitivity)
        rows = x if x.is_floating_point() else x.to(torch.get_default_dtype())
        total = on_grid(clipped_sum(rows, self.clip, order=self.order))
        return self._added(n, total, norm_bound(n, self.clip, total.numel(), self.order))

    @abstractmethod
    def _added(self, n: Numbers, x: Tensor, sensitivity: float) -> Tensor:
        """Returns x, on the grid, and noise for what one person can change."""


@dataclass(frozen=True, kw_only=True)
class Laplace(_Additive):
    """Discrete Laplace noise of scale norm / epsilon; norms are sums of magnitudes."""

    order: ClassVar[int] = 1
    name: ClassVar[str] = "Laplace noise"

    def _added(self, n: Numbers, x: Tensor, sensitivity: float) -> Tensor:
        scale = sensitivity / self.epsilon
        if x.is_floating_point():
            return x + SecretTensor(n.random_laplace(x.shape, scale, x.dtype), n)
        return x + SecretTensor(n.random_discrete_laplace(x.shape, scale), n).to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class Gaussian(_Additive):
    """Discrete Gaussian noise for epsilon and delta; norms are Euclidean."""

    delta: float
    order: ClassVar[int] = 2
    name: ClassVar[str] = "Gaussian noise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            raise ConfigError(f"delta={self.delta!r}", limit="above 0 and below 1")

    @property
    def _delta(self) -> float:
        return self.delta

    @property
    def noise_multiplier(self) -> float:
        """The deviation of the noise, in multiples of what one person can change."""
        return noise_multiplier_for(self.epsilon, self.delta)

    def _added(self, n: Numbers, x: Tensor, sensitivity: float) -> Tensor:
        return with_normal_noise(n, x, sensitivity, self.noise_multiplier)


def with_normal_noise(n: Numbers, x: Tensor, sensitivity: float, multiplier: float) -> Tensor:
    """Returns x, on the grid, and discrete Gaussian noise of `multiplier` times `sensitivity`.

    Noise of more than 2^24 units is drawn on a grid of 2^k units. x is rounded to it, which changes
    the difference of two neighbours by less than two steps of that grid for each number.
    """
    if not x.is_floating_point():
        deviation = sensitivity * multiplier
        return x + SecretTensor(n.random_discrete_normal(x.shape, deviation), n).to(x.dtype)
    unit = unit_of(n)
    k = max(math.ceil(math.log2(sensitivity * multiplier / unit / LARGEST_DEVIATION * 1.001)), 0)
    if k:
        x = on_grid(x * 2.0**-k)
        sensitivity = sensitivity * 2.0**-k + 2 * unit * math.sqrt(x.numel())
    noise = n.random_normal_units(x.shape, sensitivity * multiplier, x.dtype)
    made = x + SecretTensor(noise, n)
    return made * 2.0**k if k else made


def on_grid(x: Tensor) -> Tensor:
    """Returns x as multiples of a unit; secrets that are shares are that already.

    Numbers of an enclave are floats. In float64, sums of multiples of a unit are exact.
    """
    n: Numbers = x.numbers  # type: ignore[attr-defined]
    if not n.is_plain or not x.is_floating_point():
        return x
    return (x.double() * 2.0**n.fraction_bits).round() / 2.0**n.fraction_bits


def _secret(x: Any) -> SecretTensor:
    if isinstance(x, SecretTensor):
        return x
    raise ConfigError(f"dp= and {type(x).__name__}", limit="one secret tensor can be given noise")


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < math.inf:
        raise ConfigError(f"epsilon={epsilon!r}", limit="a number above 0")
