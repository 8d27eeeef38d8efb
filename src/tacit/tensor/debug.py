"""Debug mode: every operation is compared with floating point. For the cleartext protocol only.

RangeError is raised for: a result that in floating point is out of range, infinite or NaN; a share
beyond its promised limit; and a result far from the floating-point one, because an intermediate
value overflowed. Messages contain no values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..errors import RangeError
from ..fixedpoint import Numbers, Value
from ..fixedpoint.debug import check_range, cleartext, exceeds_range, out_of_range
from ..fixedpoint.encoding import BOUNDLESS, MASK, placed
from ..fixedpoint.extended.moments import ExtendedValue
from ..fixedpoint.format import largest_of, range_remedy
from ..fixedpoint.lazy import LazyValue
from .operand import require_indices
from .table import Rule
from .vanishing import warn_of_lost_gradients

# The allowed error, relative to the largest element or to 1. Overflows are far beyond it.
TOLERANCE = 2.0**-4

# The domains of functions, in words. Those of growing functions depend on the range.
DOMAINS = {
    "log": "x > 0",
    "log2": "x > 0",
    "log10": "x > 0",
    "log1p": "x > -1",
    "sqrt": "x >= 0",
    "rsqrt": "x > 0",
    "reciprocal": "x != 0",
    "div": "a divisor that is not 0",
    "addcdiv": "a divisor that is not 0",
    "fmod": "a divisor that is not 0",
    "remainder": "a divisor that is not 0",
    "floor_divide": "a divisor that is not 0",
    "pow": "x^y for x > 0, or whole y and x != 0",
    "tan": "x away from odd multiples of pi/2",
    "asin": "-1 <= x <= 1",
    "acos": "-1 <= x <= 1",
    "acosh": "x >= 1",
    "atanh": "-1 < x < 1",
    "logit": "0 < x < 1",
    "xlogy": "y > 0, or x = 0",
}
GROWING = {"exp": 1.0, "expm1": 1.0, "exp2": log(2), "sinh": 1.0, "cosh": 1.0}

# Operations whose further results serve only the gradient; torch has other numbers there. What
# stands beside equal keys comes in any order.
FIRST_ONLY = (
    *("_norm", "batch_norm", "log_sigmoid_forward", "nll_loss", "attention", "dropout"),
    "sort_by",
)
# Functions with steps: near a step a rounding error changes the result by the whole step.
STEPS = {
    *("floor", "ceil", "round", "trunc", "frac", "sign", "sgn", "heaviside", "copysign"),
    *("remainder", "fmod", "floor_divide", "div.Tensor_mode", "div.Scalar_mode", "hardshrink"),
    *(f"{name}_backward" for name in ("threshold", "leaky_relu", "hardtanh", "hardsigmoid")),
    *(f"{name}_backward" for name in ("hardswish", "hardshrink", "softshrink", "_prelu_kernel")),
}
# Operations that may overflow on integers: int64 would wrap like the ring, so doubles are used.
INTEGER = {"add", "sub", "rsub", "mul", "sum", "cumsum", "prod", "cumprod", "mm", "bmm", "pow"}
UNINITIALISED = ("empty", "new_empty")
RANDOM = torch.Tag.nondeterministic_seeded


def debugged(
    rule: Rule, func: OpOverload, n: Numbers, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Returns the result of the rule; raises a RangeError that names the operation."""
    try:
        if name_of(func).startswith("nll_loss"):
            _check_labels(n, *args)
        wanted = _wanted(n, func, args, kwargs)
        try:
            result = rule.apply(n, *args, **kwargs)
        except RangeError:
            judge(n, func, wanted)  # a more precise message, if this is the cause
            raise
        judge(n, func, wanted)
        found = list(_leaves(result))
        for value in found[:1] if first_only(func) else found:
            if isinstance(value, Value) and not _unread(value):
                check_range(n, value, "a result")
        _compare(n, func, found, wanted)
        warn_of_lost_gradients(n, func, list(_leaves([*args, *kwargs.values()])), wanted)
    except RangeError as error:
        error.op = str(func)
        raise
    return result


def _check_labels(n: Numbers, *args: Any) -> None:
    """Raises for a secret label that is no class: on secrets it counts like an ignored one."""
    scores, target, _, _, ignored, *_ = args if len(args) == 5 else args[1:]
    if isinstance(target, Value):
        classes = scores.shape[min(1, len(scores.shape) - 1)]
        require_indices(cleartext(n, target), classes, "a label", ignored=ignored)


def name_of(func: OpOverload) -> str:
    """Returns the name of an operation without its overload."""
    return func._schema.name.removeprefix("aten::")


def _wanted(n: Numbers, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The results in floating point; empty if they cannot be compared."""
    every = [x for one in (args, list(kwargs.values())) for x in _leaves(one)]
    name = name_of(func)
    random = RANDOM in func.tags and "attention" not in name
    if random or name.startswith(UNINITIALISED) or any(map(_unread, every)):
        return []
    if any(isinstance(x, ExtendedValue) for x in every):
        return []
    wanted = _in_floating_point(n, func, args, kwargs)
    if any(map(may_hide, every)) and not all(_holds(n, x) for x in wanted):
        return _in_floating_point(
            n, func, args, kwargs, masks=True
        )  # with infinities replaced as on secrets
    return wanted


def _in_floating_point(
    n: Numbers, func: OpOverload, args: Any, kwargs: dict[str, Any], *, masks: bool = False
) -> list[Any]:
    wide = name_of(func) in INTEGER and not any(map(_is_real, _leaves([*args, *kwargs.values()])))

    def plain(x: Any) -> Any:
        if isinstance(x, Value):
            numbers = cleartext(n, x)
            return numbers.double() if wide and not x.is_bit else numbers
        if isinstance(x, Tensor) and x.is_floating_point():
            return (placed(n, x) if masks else x).double()
        if isinstance(x, float) and masks:
            return placed(n, x)
        if isinstance(x, torch.dtype) and (x.is_floating_point or wide):
            return torch.float64
        return [plain(one) for one in x] if isinstance(x, list | tuple) else x

    try:
        made = func(*(plain(x) for x in args), **{name: plain(x) for name, x in kwargs.items()})
    except IndexError:
        return [IndexError]
    except (RuntimeError, TypeError, ValueError):  # not available here, or not in float64
        return []
    results = list(_leaves(made))
    if wide:
        if any(exceeds_range(n, x, real=False) for x in results if _number(x)):
            return [OverflowError]
        results = [x.to(torch.int64) for x in results]
    return results[:1] if first_only(func) else results


def first_only(func: OpOverload) -> bool:
    """Returns whether only the first result is comparable with that of torch."""
    return any(part in name_of(func) for part in FIRST_ONLY)


def has_steps(func: OpOverload) -> bool:
    """Returns whether a rounding error may change the result by a whole step."""
    return name_of(func) in STEPS or str(func).removeprefix("aten.") in STEPS


def _leaves(nest: Any) -> Iterator[Any]:
    if isinstance(nest, list | tuple):
        for one in nest:
            yield from _leaves(one)
    else:
        yield nest


def _unread(x: Any) -> bool:
    """Whether this is a value that is not computed yet, and perhaps never will be."""
    return isinstance(x, LazyValue) and x.unread


def may_hide(x: Any) -> bool:
    """Whether a public operand may have masks; see NOTE [masks] in fixedpoint/encoding.py."""
    if isinstance(x, Tensor):
        return x.is_floating_point() and not largest_of(x) < -MASK
    return isinstance(x, float) and not MASK < x < BOUNDLESS


def _holds(n: Numbers, x: Any) -> bool:
    return not _number(x) or not exceeds_range(n, x, real=x.is_floating_point())


def _is_real(x: Any) -> bool:
    if isinstance(x, Value):
        return x.is_real
    return isinstance(x, float) or (isinstance(x, Tensor | torch.dtype) and _floating(x))


def _floating(x: Tensor | torch.dtype) -> bool:
    return x.is_floating_point() if isinstance(x, Tensor) else x.is_floating_point


def _real(x: Any) -> bool:
    return isinstance(x, Value) and x.is_real and not _unread(x)


def _number(x: Any) -> bool:
    numeric = isinstance(x, Tensor) and not x.dtype.is_complex and x.dtype != torch.bool
    return numeric and bool(x.numel())


def judge(n: Numbers, func: OpOverload, wanted: Sequence[Any]) -> None:
    """Raises for floating-point results that no secret can hold."""
    first = wanted[0] if wanted else None
    if first is OverflowError:
        raise out_of_range(n, "a result", real=False)
    if first is IndexError:
        raise RangeError("an index is outside of its dimension", remedy="clamp it")
    numbers, name = [x for x in wanted if _number(x)], name_of(func)
    if all(_holds(n, x) for x in numbers):
        return
    if name in GROWING:
        domain = f"x <= {n.range_bits * log(2) / GROWING[name]:.2f}"
        raise RangeError(
            "an argument is outside of its domain", limit=domain, remedy=range_remedy(n)
        )
    if not all(bool(torch.isfinite(x).all()) for x in numbers):
        domain = DOMAINS.get(name, "where its result is finite")
        way = "clamp it before, or select with torch.where before"
        raise RangeError("an argument is outside of its domain", limit=domain, remedy=way)
    for x in numbers:
        if exceeds_range(n, x, real=x.is_floating_point()):
            raise out_of_range(n, "a result", real=x.is_floating_point())


def _compare(n: Numbers, func: OpOverload, found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Raises for results that are far from the floating-point ones."""
    if has_steps(func) or any(isinstance(x, ExtendedValue) for x in found):
        return
    for one, want in zip(found, wanted, strict=False):
        if _real(one) and _number(want) and one.shape == want.shape:
            allowed = max(TOLERANCE, 4 * 2.0 ** (-n.fraction_bits / 2))
            off = (cleartext(n, one) - want.double()).abs().max()
            if float(off) > allowed * (1 + largest_of(want.double())):
                raise RangeError(
                    "the result is far from that of floating point: something on the way to it is "
                    "beyond the range",
                    limit=f"2^{n.range_bits} in magnitude, 2^-{n.fraction_bits} at least",
                    remedy=range_remedy(n),
                )
