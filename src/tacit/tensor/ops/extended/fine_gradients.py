"""Rules for gradients with extra fraction bits: see fixedpoint/extended/fine_gradients.py.

Each rule is the ordinary one, or that of another kind of operand, with a gradient 2^s times larger
in a range that is 2^s times larger. An operation without a rule here reads the gradient as an
ordinary value, and so do sums of a gradient and a secret that is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ....errors import RangeError
from ....fixedpoint import Numbers, Value
from ....fixedpoint.extended.fine_gradients import FineGradient, Seed, gradient_bits, is_fine, seed
from ...table import RULES, Rule, implements, rule_of
from ...vanishing import warn_of_first_gradient
from .. import creation, elementwise, linalg, nn, reductions, shape  # noqa: F401  their rules

aten = torch.ops.aten

ROOM_OF_GRADIENTS = 8  # with the largest scale of a GradScaler, gradients are below 2^8

# Operations that are linear in these arguments together.
TOGETHER: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys(
        (aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar), ("self", "other")
    ),
    aten.where.self: ("self", "other"),
    **dict.fromkeys((aten.masked_fill.Scalar, aten.masked_fill.Tensor), ("self", "value")),
    **dict.fromkeys((aten.cat.default, aten.stack.default), ("tensors",)),
    aten.constant_pad_nd.default: ("self", "value"),
    **dict.fromkeys((aten.index_put.default, aten._unsafe_index_put.default), ("self", "values")),
    aten.index_add.default: ("self", "source"),
    **dict.fromkeys(
        (
            *(aten.scatter.src, aten.scatter_add.default, aten.select_scatter.default),
            *(aten.slice_scatter.default, aten.diagonal_scatter.default),
            aten.as_strided_scatter.default,
        ),
        ("self", "src"),
    ),
    **dict.fromkeys(
        (
            *(aten.neg.default, aten.div.Tensor, aten.div.Scalar, aten.cumsum.default),
            *(aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim),
            *(aten.flip.default, aten.roll.default, aten.rot90.default, aten.repeat.default),
            *(aten.tril.default, aten.triu.default, aten.diag_embed.default, aten.trace.default),
            *(aten._unsafe_view.default, aten.unsafe_split.Tensor),
            *(aten.unsafe_split_with_sizes.default, aten.pixel_shuffle.default),
            *(aten.pixel_unshuffle.default, aten.channel_shuffle.default),
            *(aten.im2col.default, aten.col2im.default, aten.index.Tensor),
            *(aten._unsafe_index.Tensor, aten.index_select.default, aten.gather.default),
            aten.take.default,
        ),
        ("self",),
    ),
}

# Operations that are linear in each of these arguments.
EACH: dict[Any, tuple[str, str]] = {
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), ("self", "other")),
    **dict.fromkeys((aten.mm.default, aten.bmm.default), ("self", "mat2")),
    aten.mv.default: ("self", "vec"),
    aten.dot.default: ("self", "tensor"),
    aten.vdot.default: ("self", "other"),
}


def _is_gradient(x: Any) -> bool:
    return is_fine(x) or type(x) is Seed


def _is_secret(x: Any) -> bool:
    """Whether x is a secret without extra bits."""
    return isinstance(x, Value) and x.known is None and not is_fine(x)


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, list | tuple):
        for one in x:
            yield from _leaves(one)
    else:
        yield x


def _mapped(x: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(x, list | tuple):
        return type(x)([_mapped(one, change) for one in x])
    return change(x)


class LinearRule:
    """The rule of an operation that is linear in some of its arguments.

    each: it is linear in each of them alone; otherwise, in all of them together.
    """

    def __init__(self, overload: OpOverload, names: Sequence[str], *, each: bool = False) -> None:
        self.overload, self.each = overload, each
        self.__name__ = overload._schema.name.removeprefix("aten::")
        order = [argument.name for argument in overload._schema.arguments]
        self.places = {place for place, name in enumerate(order) if name in names}
        self.names = set(names)

    def __call__(self, n: Numbers, *args: Any, **kwargs: Any) -> Any:
        """Returns the result with extra bits, or that of the ordinary rule."""
        given: dict[Any, Any] = dict(enumerate(args))
        given.update(kwargs)
        chosen = [key for key in given if key in self.places or key in self.names]
        if self.each:
            chosen = _one_of(given, chosen)
        operands = list(_leaves([given[key] for key in chosen]))
        if not any(map(_is_gradient, operands)) or any(map(_is_secret, operands)):
            return self._applied(n, {key: _mapped(x, _known) for key, x in given.items()})
        factor = 1 << gradient_bits(n)
        rest = _leaves([x for key, x in given.items() if key not in chosen])
        alone = not any(isinstance(x, Value) and x.known is None for x in (*operands, *rest))

        def larger(x: Any) -> Any:
            if is_fine(x):
                return x.raw
            if isinstance(x, Value):
                assert x.known is not None
                return n.public(x.known * factor) if alone else x.known * factor
            return x * factor if isinstance(x, Tensor | float | int) else x

        raised = {key: _mapped(x, larger if key in chosen else _known) for key, x in given.items()}
        made = self._applied(n.widened(gradient_bits(n)), raised)
        seeds = [x.known for x in operands if type(x) is Seed and x.known is not None]
        if seeds and any(isinstance(x, Value) for x in _leaves(made)):
            warn_of_first_gradient(n, seeds)
        return _mapped(made, lambda x: _as_gradient(n, x, factor))

    def _applied(self, n: Numbers, given: dict[Any, Any]) -> Any:
        args = [x for key, x in given.items() if isinstance(key, int)]
        kwargs = {key: x for key, x in given.items() if isinstance(key, str)}
        return self._rule(_leaves([*given.values()])).apply(n, *args, **kwargs)

    def _rule(self, operands: Iterator[Any]) -> Rule:
        """The rule of the first kind of operand that has one."""
        for kind in map(type, operands):
            if kind not in (Value, FineGradient, Seed) and (self.overload, kind) in RULES:
                return RULES[self.overload, kind]
        rule = rule_of(self.overload)
        assert rule is not None
        return rule


def _one_of(given: dict[Any, Any], chosen: Sequence[Any]) -> list[Any]:
    """The factor that is the gradient; none if both are."""
    fine = [key for key in chosen if is_fine(given[key])]
    if len(fine) > 1:
        return []
    return fine or [key for key in chosen if type(given[key]) is Seed][:1]


def _known(x: Any) -> Any:
    """The numbers of a public gradient."""
    return x.known if type(x) is Seed else x


def _as_gradient(n: Numbers, x: Any, factor: int) -> Any:
    if isinstance(x, Value) and x.is_real:
        return FineGradient(n, x)
    if isinstance(x, Tensor) and x.is_floating_point():
        return seed(n.public(x / factor))
    return x


@implements(aten._amp_foreach_non_finite_check_and_unscale_.default, writes=("self",))
def unscale(n: Numbers, self: list[Value], found_inf: Tensor, inv_scale: Tensor) -> tuple[Any]:
    """The gradients divided by the scale of a torch.amp.GradScaler.

    Fixed point has no infinities, so none is found. A scale that leaves gradients little room in
    the range is refused: nothing would tell that they leave it, and the scaler raises its scale.
    """
    largest = 2.0 ** (n.range_bits - ROOM_OF_GRADIENTS)
    if not isinstance(inv_scale, Tensor) or float(inv_scale) * largest < 1:
        raise RangeError(
            "a GradScaler whose scale is too large for fixed point",
            limit=f"a public scale of {largest:.0f} at most",
            remedy='torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1 << 30)',
        )
    return ([_times(n, x, float(inv_scale)) for x in self],)


def _times(n: Numbers, x: Value, factor: float) -> Value:
    rule = RULES.get((aten.mul.Tensor, type(x)), rule_of(aten.mul.Tensor))
    assert rule is not None
    made: Value = rule.apply(n, x, factor)
    return made


def _register() -> None:
    kinds = (FineGradient, Seed)
    backward = {
        overload: tuple(
            argument.name
            for argument in overload._schema.arguments
            if argument.name.startswith("grad") and "Tensor" in str(argument.type)
        )
        for overload, kind in [*RULES]
        if kind is Value and "backward" in overload._schema.name
    }
    for overload, names in {**backward, **TOGETHER}.items():
        implements(overload, kind=kinds)(LinearRule(overload, names))
    for overload, names in EACH.items():
        implements(overload, kind=kinds)(LinearRule(overload, names, each=True))


_register()
