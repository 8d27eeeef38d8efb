"""Sums, extrema and draws over dimensions of CrypTen's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .initialization import current_session
from .wrapping import Wrapped, same, same_of_reals


class Reductions(Wrapped):
    """Methods that make one number of several.

    Where CrypTen returns a place as a one-hot tensor by default, so do these. Of equal extrema
    they take the first.
    """

    sum, cumsum, prod = same("sum"), same("cumsum"), same("prod")
    mean, var = same_of_reals("mean"), same_of_reals("var")

    def norm(self, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Any:
        """Returns the p-norm, of all elements or along a dimension."""
        order = 2 if p == "fro" else p
        return self.wrapped(torch.linalg.vector_norm(self.real, order, dim, keepdim))

    def max(self, dim: int | None = None, keepdim: bool = False, one_hot: bool = True) -> Any:
        """Returns the maximum; along a dimension also its place."""
        return self._extremum(torch.max, dim, keepdim, one_hot)

    def min(self, dim: int | None = None, keepdim: bool = False, one_hot: bool = True) -> Any:
        """Returns the minimum; along a dimension also its place."""
        return self._extremum(torch.min, dim, keepdim, one_hot)

    def argmax(self, dim: int | None = None, keepdim: bool = False, one_hot: bool = True) -> Any:
        """Returns the place of the maximum."""
        return self._place(torch.argmax, dim, keepdim, one_hot)

    def argmin(self, dim: int | None = None, keepdim: bool = False, one_hot: bool = True) -> Any:
        """Returns the place of the minimum."""
        return self._place(torch.argmin, dim, keepdim, one_hot)

    def _extremum(self, function: Any, dim: int | None, keepdim: bool, one_hot: bool) -> Any:
        if dim is None:
            return self.wrapped(function(self.secret))
        values, places = function(self.secret, dim, True)
        if one_hot:
            places = one_hot_places(places, dim, self.secret.shape)
        elif not keepdim:
            places = places.squeeze(dim)
        return self.wrapped((values if keepdim else values.squeeze(dim), places))

    def _place(self, function: Any, dim: int | None, keepdim: bool, one_hot: bool) -> Any:
        shape = self.secret.shape
        if dim is None:
            flat = self.secret.reshape(-1)
            place = function(flat, 0, True)
            if one_hot:
                return self.wrapped(one_hot_places(place, 0, flat.shape).reshape(shape))
            return self.wrapped(place.reshape(()))
        place = function(self.secret, dim, True)
        if one_hot:
            return self.wrapped(one_hot_places(place, dim, shape))
        return self.wrapped(place if keepdim else place.squeeze(dim))

    def weighted_index(self, dim: int | None = None) -> Any:
        """Returns a one-hot tensor along a dimension: each place as likely as its weight says."""
        if dim is None:
            flat = self.of(self.secret.reshape(-1))
            return self.wrapped(flat.weighted_index(0).secret.reshape(self.secret.shape))
        weights = self.real.detach().movedim(dim, -1)
        place = current_session().random.weighted_index(weights).movedim(-1, dim)
        return self.wrapped(one_hot_places(place, dim, self.secret.shape))

    def weighted_sample(self, dim: int | None = None) -> tuple[Any, Any]:
        """Returns a number drawn along a dimension, as likely as it is large, and its place."""
        place = self.weighted_index(dim)
        chosen = self.secret * place.secret
        return self.wrapped(chosen.sum() if dim is None else chosen.sum(dim)), place

    @classmethod
    def rand(cls, *sizes: Any, device: Any = None) -> Any:
        """Returns uniform numbers from 0 to 1 that nobody knows."""
        return cls.of(current_session().random.uniform(_sizes(sizes)))

    @classmethod
    def randn(cls, *sizes: Any, device: Any = None) -> Any:
        """Returns standard normal numbers that nobody knows."""
        return cls.of(current_session().random.normal(_sizes(sizes)))

    def bernoulli(self) -> Any:
        """Returns 1 with the probability that this tensor says, and else 0. Nobody knows which."""
        return self.wrapped(current_session().random.bernoulli(self.real.detach()))


def _sizes(sizes: Sequence[Any]) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else tuple(sizes)


def one_hot_places(places: Tensor, dim: int, shape: torch.Size) -> Tensor:
    """Returns secret places along a dimension, which they keep with size 1, as 1 among 0s."""
    if not shape:
        return places == 0
    sizes = [1] * len(shape)
    sizes[dim] = shape[dim]
    return places == torch.arange(shape[dim]).view(sizes)
