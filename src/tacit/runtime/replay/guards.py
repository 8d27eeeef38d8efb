"""What a plan decided by public numbers that may differ, looked at before each replay.

A rule looks at public numbers: whether an index is in its range, how large a factor is. With other
arguments it may decide differently, and then a replay would not do what the function does. So each
such decision is a guard. Before a replay, the steps that guards depend on run by themselves, on the
arguments of that call. They are public and use no message, so all parties find the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import frexp

import torch
from torch import Tensor

from ...fixedpoint.format import largest_of
from ...ring.drawn_numbers import Drawn
from .memory_use import MemoryUse, StepUse
from .plan import Guard, Step, Work
from .public_state import PublicState

MOST_EXPONENT = 1023  # of a float
NOT_PUBLIC = "it decides by numbers that are known in the middle of a call only"


def bound(x: Tensor, before: Drawn | None) -> Drawn | None:
    """Returns what is assumed of numbers from now on; None of NaN.

    Their magnitude is at most the next power of two, by which fraction bits are chosen. before:
    what was assumed of the numbers of an earlier call, which holds for these too.
    """
    if x.dtype == torch.bool:
        return Drawn(1.0, has_integers=True)
    largest, has_integers = _form(x)
    if math.isnan(largest):
        return None
    found = _next_power(largest)
    if before is None:
        return Drawn(found, has_integers=has_integers)
    whole = has_integers and before.has_integers
    return Drawn(max(found, before.largest), has_integers=whole)


def _next_power(x: float) -> float:
    """Returns the smallest power of two that is not below x; of 0 and infinity, themselves."""
    mantissa, exponent = frexp(x)
    exponent -= mantissa == 0.5
    if not x or exponent > MOST_EXPONENT or math.isinf(x):
        return x and math.inf
    return 2.0**exponent


def is_within(x: Tensor, known: Drawn) -> bool:
    """Whether a bound holds for numbers."""
    largest, has_integers = _form(x)
    return largest <= known.largest and (has_integers or not known.has_integers)


def _form(x: Tensor) -> tuple[float, bool]:
    """Returns the largest magnitude, and whether all numbers are integers."""
    x = x.detach()
    return largest_of(x), not x.is_floating_point() or bool((x == x.round()).all())


def guarded(memory: MemoryUse, public: Sequence[Tensor]) -> list[StepUse] | None:
    """Returns the guards, and the steps that they depend on, in order; None if they are not public.

    public: memory whose contents may differ before a call, and which all parties know.
    """
    uses, before = memory.uses, memory.predecessors()
    waiting = [i for i, use in enumerate(uses) if isinstance(use.step, Guard)]
    needed = set(waiting)
    while waiting:
        new = set(before[waiting.pop()]) - needed
        needed |= new
        waiting += new
    found = [uses[i] for i in sorted(needed)]
    if any(
        not isinstance(use.step, Work | Guard)
        or use.is_kernel
        or use.ordered
        or memory.may_change(use, public)
        for use in found
    ):
        return None
    return found


def hold(steps: Sequence[Step], state: Sequence[Tensor]) -> bool:
    """Whether all guards among these steps would be decided as recorded; does the others.

    state: public tensors that the steps may write, which stay as they are.
    """
    before = PublicState(state)
    try:
        with torch.no_grad():
            return all(map(_passes, steps))
    finally:
        before.restore()


def _passes(step: Step) -> bool:
    """Does a step; False for a guard that does not hold."""
    if isinstance(step, Guard):
        return step.holds()
    step(0)
    return True
