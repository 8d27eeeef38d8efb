"""New tensors like a secret one, whose contents are public at first; copies and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import ConfigError, UnsupportedOp
from ...fixedpoint import Numbers, Operand, Value
from ...fixedpoint.extended.fine_gradients import seed
from ..table import implements

aten = torch.ops.aten


def _register_creation(overload: Any) -> None:
    """Registers a creation that uses only the shape and dtype of its prototype."""

    def create(n: Numbers, self: Value, *args: Any, **kwargs: Any) -> Value:
        return n.public(overload(torch.empty(self.shape, dtype=self.dtype), *args, **kwargs))

    create.__name__ = overload._schema.name.removeprefix("aten::")
    implements(overload)(create)


for each in (
    aten.zeros_like.default,
    aten.full_like.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
):
    _register_creation(each)


@implements(aten.ones_like.default)
def ones_like(n: Numbers, self: Value, **kwargs: Any) -> Value:
    """Public ones. With preserve_format, torch.autograd asks for the first gradient of a loss."""
    made = n.public(aten.ones_like(torch.empty(self.shape, dtype=self.dtype), **kwargs))
    first = kwargs.get("memory_format") is torch.preserve_format and self.shape.numel() == 1
    return seed(made) if first and made.is_real else made


@implements(aten.empty_like.default)
def empty_like(n: Numbers, self: Value, *, dtype: torch.dtype | None = None, **_: Any) -> Value:
    """Zeros: uninitialised memory would differ between parties."""
    return n.public(torch.zeros(self.shape, dtype=dtype or self.dtype))


@implements(aten.new_empty.default, aten.new_empty_strided.default)
def new_empty(
    n: Numbers,
    self: Value,
    size: Sequence[int],
    stride: Any = None,
    *,
    dtype: torch.dtype | None = None,
    **_: Any,
) -> Value:
    """Zeros of another shape: uninitialised memory would differ between parties."""
    return n.public(torch.zeros(tuple(size), dtype=dtype or self.dtype))


def _no_generator(generator: Any) -> None:
    if generator is not None:
        raise UnsupportedOp(
            "a generator of one party",
            limit="all parties draw the same random numbers on secrets",
            remedy="leave generator= out",
        )


@implements(aten.rand_like.default)
def rand_like(n: Numbers, self: Value, *, dtype: torch.dtype | None = None, **_: Any) -> Value:
    """Uniform numbers from 0 to 1 that no party knows."""
    return n.random_uniform(self.shape, dtype or self.dtype)


@implements(aten.randn_like.default)
def randn_like(n: Numbers, self: Value, *, dtype: torch.dtype | None = None, **_: Any) -> Value:
    """Normal numbers that no party knows."""
    return n.random_normal(self.shape, dtype or self.dtype)


@implements(aten.randint_like.default)
def randint_like(
    n: Numbers, self: Value, high: int, *, dtype: torch.dtype | None = None, **_: Any
) -> Value:
    """Integers from 0 to high - 1 that no party knows."""
    return randint_like_low(n, self, 0, high, dtype=dtype)


@implements(aten.randint_like.low_dtype)
def randint_like_low(
    n: Numbers, self: Value, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any
) -> Value:
    """Integers from low to high - 1 that no party knows."""
    drawn = n.random_below(self.shape, high - low)
    return n.convert(n.add(drawn, low) if low else drawn, dtype or self.dtype)


@implements(aten.uniform.default)
def uniform(
    n: Numbers, self: Value, from_: float = 0.0, to: float = 1.0, *, generator: Any = None
) -> Value:
    """Uniform numbers between two ends that no party knows."""
    _no_generator(generator)
    if not from_ <= to:
        raise ConfigError(f"from={from_!r}, to={to!r}", limit="to must not be below from")
    drawn = n.random_uniform(self.shape, self.dtype)
    return n.add(n.mul(drawn, to - from_), from_)


@implements(aten.exponential.default)
def exponential(n: Numbers, self: Value, lambd: float = 1.0, *, generator: Any = None) -> Value:
    """Exponential numbers that no party knows."""
    _no_generator(generator)
    if not lambd > 0:
        raise ConfigError(f"lambd={lambd!r}", limit="a rate above 0")
    return n.random_exponential(self.shape, 1 / lambd, self.dtype)


@implements(aten.normal_functional.default)
def normal_functional(
    n: Numbers, self: Value, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Value:
    """Normal numbers of this mean and deviation that no party knows."""
    _no_generator(generator)
    if not std >= 0:
        raise ConfigError(f"std={std!r}", limit="a deviation of 0 or more is needed")
    return n.add(n.mul(n.random_normal(self.shape, self.dtype), std), mean)


@implements(aten.bernoulli.p)
def bernoulli_p(n: Numbers, self: Value, p: float = 0.5, *, generator: Any = None) -> Value:
    """Ones with probability p that no party knows."""
    _no_generator(generator)
    return n.convert(n.random_truths(self.shape, p), self.dtype)


@implements(aten.bernoulli.default)
def bernoulli(n: Numbers, self: Value, *, generator: Any = None) -> Value:
    """Ones with secret probabilities: a uniform number that no party knows is below each."""
    return bernoulli_tensor(n, self, self, generator=generator)


@implements(aten.bernoulli.Tensor)
def bernoulli_tensor(n: Numbers, self: Value, p: Operand, *, generator: Any = None) -> Value:
    """Ones with probabilities p, secret or public, that no party knows."""
    _no_generator(generator)
    if isinstance(p, Value):
        drawn = n.less(n.random_uniform(self.shape, p.dtype), p)
    else:
        drawn = n.random_truths(self.shape, torch.as_tensor(p))
    return n.convert(drawn, self.dtype)


# Copies and conversions ---------------------------------------------------------------------------


@implements(aten.clone.default)
def clone(n: Numbers, self: Value, *, memory_format: Any = None) -> Value:
    """The same value: values never change, writing gives a tensor a new one."""
    return self


@implements(aten.lift_fresh.default, aten.lift_fresh_copy.default)
def lift_fresh(n: Numbers, self: Value) -> Value:
    """The same value."""
    return self


@implements(aten._to_copy.default)
def to_copy(n: Numbers, self: Value, *, dtype: torch.dtype | None = None, **options: Any) -> Value:
    """The value in another dtype; a real number loses its fraction as an integer."""
    return self if dtype is None else n.convert(self, dtype)


@implements(aten.copy.default)
def copy(n: Numbers, self: Operand, src: Operand, non_blocking: bool = False) -> Value:
    """src in the dtype and shape of self, which it overwrites."""
    assert isinstance(self, Value | torch.Tensor)
    value, shape = n.convert(n.operand(src), self.dtype), self.shape
    return value if value.shape == shape else value.map(lambda part: part.expand(shape))


@implements(aten.fill.Scalar, aten.fill.Tensor)
def fill(n: Numbers, self: Operand, value: Operand) -> Value:
    """One number in the shape and dtype of self."""
    return copy(n, self, value)


@implements(aten.zero.default)
def zero(n: Numbers, self: Value) -> Value:
    """Zeros in the shape and dtype of self."""
    return fill(n, self, 0)
