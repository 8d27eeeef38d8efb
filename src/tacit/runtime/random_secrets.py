"""`session.random`: secrets of public distributions, whose values no party knows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ConfigError
from ..fixedpoint import Numbers, Value
from ..tensor import SecretTensor
from ..tensor.weighted_draws import weighted_places, weighted_rows

Shape = Sequence[int] | int


class RandomSecrets:
    """Draws secrets. All parties call the same functions in the same order; nothing is opened.

    dtype: torch's default dtype for reals, int64 for integers, bool for truth values.
    """

    def __init__(self, numbers: Numbers) -> None:
        self._n = numbers

    def integers(self, shape: Shape, bits: int) -> Tensor:
        """Returns uniform integers from 0 to 2^bits - 1. 1 round."""
        most = self._n.fraction_bits + self._n.range_bits
        if type(bits) is not int or not 0 < bits <= most:
            raise ConfigError(f"bits={bits!r}", limit=f"from 1 to {most} in this session")
        return self._secret(self._n.random_integers(_sizes(shape), bits))

    def below(self, shape: Shape, count: int) -> Tensor:
        """Returns integers from 0 to count - 1, all as likely."""
        return self._secret(self._n.random_below(_sizes(shape), count))

    def uniform(self, shape: Shape, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Returns reals from low to high, of at most as many digits as a secret has. 1 round."""
        drawn = self._secret(self._n.random_uniform(_sizes(shape), torch.get_default_dtype()))
        return drawn if (low, high) == (0.0, 1.0) else drawn * (high - low) + low

    def bernoulli(self, probability: Tensor | float, shape: Shape | None = None) -> Tensor:
        """Returns truth values that are true with a probability, public or secret.

        A public one is a multiple of 2^-48, and a secret one of a unit. `shape` is by default that
        of the probabilities.
        """
        if isinstance(probability, SecretTensor):
            chosen = probability.shape if shape is None else torch.Size(_sizes(shape))
            return self.uniform(chosen).to(probability.dtype) < probability
        wanted = torch.as_tensor(probability)
        form = wanted.shape if shape is None else _sizes(shape)
        return self._secret(self._n.random_truths(form, wanted if wanted.dim() else float(wanted)))

    def normal(self, shape: Shape, mean: float = 0.0, std: float = 1.0) -> Tensor:
        """Returns reals of a normal distribution, at most 8.2 deviations from the mean."""
        drawn = self._secret(self._n.random_normal(_sizes(shape), torch.get_default_dtype()))
        return drawn if (mean, std) == (0.0, 1.0) else drawn * std + mean

    def exponential(self, shape: Shape, scale: float = 1.0) -> Tensor:
        """Returns reals with density e^(-x / scale) / scale, rounded down to units."""
        dtype = torch.get_default_dtype()
        return self._secret(self._n.random_exponential(_sizes(shape), _positive(scale), dtype))

    def laplace(self, shape: Shape, scale: float = 1.0) -> Tensor:
        """Returns reals x with probability proportional to e^(-|x| / scale), in units."""
        dtype = torch.get_default_dtype()
        return self._secret(self._n.random_laplace(_sizes(shape), _positive(scale), dtype))

    def discrete_laplace(self, shape: Shape, scale: float = 1.0) -> Tensor:
        """Returns integers x with probability proportional to e^(-|x| / scale)."""
        return self._secret(self._n.random_discrete_laplace(_sizes(shape), _positive(scale)))

    def discrete_normal(self, shape: Shape, std: float = 1.0) -> Tensor:
        """Returns integers x with probability proportional to e^(-x^2 / (2 std^2)).

        `std` is rounded up by a factor of at most 1 + 2^-12. Draws are rejected until enough are
        left; which ones is public, and recorded as a coin among the reveals.
        """
        return self._secret(self._n.random_discrete_normal(_sizes(shape), std))

    def geometric(self, shape: Shape, probability: float) -> Tensor:
        """Returns the failures before the first success of this probability, as integers."""
        if not 0 < probability < 1:
            raise ConfigError(f"probability={probability!r}", limit="above 0 and below 1")
        rate = -math.log1p(-probability)
        return self._secret(self._n.random_geometric(_sizes(shape), rate))

    def weighted_index(self, weights: Tensor, count: int = 1) -> Tensor:
        """Returns `count` places along the last dimension, each as likely as its weight says.

        Weights are secret, 0 or more, and need no sum of 1, but one well above a unit: each sum of
        weights is compared to within one. A place may come several times;
        `weights.multinomial(count)` draws without replacement.
        """
        return weighted_places(weights, count, replacement=True)

    def weighted_sample(
        self, rows: Tensor, weights: Tensor, count: int = 1, *, replacement: bool = True
    ) -> Tensor:
        """Returns `count` of the rows, each as likely as its weight says; nobody knows which.

        Without replacement the draws follow each other, and `count` weights are above 0.
        """
        if weights.dim() != 1 or rows.shape[:1] != weights.shape:
            raise ConfigError(
                f"rows of shape {tuple(rows.shape)} and weights of {tuple(weights.shape)}",
                limit="one weight for each row",
            )
        drawn = weighted_rows(rows.flatten(1), weights, count, replacement=replacement)
        return drawn.reshape(count, *rows.shape[1:])

    def permutation(self, count: int) -> Tensor:
        """Returns the numbers from 0 to count - 1 in an order that nobody knows."""
        return self.shuffle(torch.arange(count))

    def shuffle(self, x: Tensor) -> Tensor:
        """Returns the rows of x, public or secret, in an order that nobody knows.

        Each party moves them by a permutation of its own, in 2 log2(rows) rounds.
        """
        if not x.dim():
            raise ConfigError("a tensor without dimensions", limit="rows are needed to shuffle")
        secret = x.value if isinstance(x, SecretTensor) else self._n.public(x)
        return self._secret(self._n.shuffle(secret))

    def _secret(self, value: Value) -> Tensor:
        return SecretTensor(value, self._n)


def _sizes(shape: Shape) -> Sequence[int]:
    return (shape,) if isinstance(shape, int) else shape


def _positive(scale: float) -> float:
    if not 0 < scale < math.inf:
        raise ConfigError(f"scale={scale!r}", limit="a number above 0")
    return scale
