"""Marks the gradients of secret parameters while an optimizer steps.

torch calls the global hooks below around every `Optimizer.step`. Between them the gradients of the
optimizer's secret parameters are of the kind `Gradient`, and the rules for that kind compute with
more fraction bits (see fixedpoint/extended/moments.py, NOTE [steps]). The caller's frame decides
nothing: an average of weights or a user's own update rule is ordinary arithmetic.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor, optim
from torch.optim.optimizer import (
    Optimizer,
    _global_optimizer_pre_hooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._pytree import tree_leaves

from ..errors import PrecisionWarning, RevealForbidden
from ..fixedpoint.extended.moments import Gradient, OptimizerStep, gradient, has_room
from .secret import SecretTensor

# They divide averages of gradients by roots of averages of their squares.
ADAPTIVE = (
    *(optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax),
    *(optim.RMSprop, optim.Adagrad, optim.Adadelta, optim.Rprop),
)
# Those whose form for lists of tensors computes in the same order as the other one. Of the rest,
# that of Adagrad multiplies gradients by the learning rate first, which leaves few bits of them;
# those of Rprop and ASGD save no rounds.
IN_LISTS = (optim.Adam, optim.NAdam, optim.Adamax, optim.RMSprop, optim.Adadelta)
# That of RAdam divides roots by zero, and takes reciprocals, in its first steps: 1 / inf is 0 for
# floats, and out of range here. It steps tensor by tensor, also if the program wants lists.
NOT_IN_LISTS = (optim.RAdam,)
# Groups whose setting `foreach` is changed for a step, with the setting of the program.
_changed: weakref.WeakKeyDictionary[Optimizer, Sequence[tuple[dict[str, Any], bool | None]]]
_changed = weakref.WeakKeyDictionary()


class StepArguments(dict[str, Any]):
    """The keyword arguments of a step, with the step itself.

    torch keeps them until `step` returns or its exception is dropped. It calls no post-hook after
    an exception, so the end of these arguments ends the step.
    """

    step: OptimizerStep


def begin_step(
    optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The pre-hook: marks the gradients, also those that a closure computes."""
    secrets = [x for x in _parameters(optimizer) if type(x) is SecretTensor]
    if secrets and isinstance(optimizer, optim.LBFGS):
        raise RevealForbidden(
            "LBFGS would need the values of a secret tensor",
            limit="the length of its steps, and when it ends, depend on the loss and the gradients",
            remedy="torch.optim.SGD, Adam and others of torch.optim take secrets",
        ).locate()
    if not secrets or secrets[0].numbers.is_plain:
        return None
    _hook_bases(type(optimizer))
    _warn_of_small_eps(optimizer)
    step = OptimizerStep(type(optimizer), clips=_is_torchs(optimizer))
    _mark(optimizer, step)
    if len(args) > 1 and callable(args[1]):
        args = (args[0], _outside(args[1], optimizer, step), *args[2:])
    elif callable(kwargs.get("closure")):
        kwargs = kwargs | {"closure": _outside(kwargs["closure"], optimizer, step)}
    if (trace := secrets[0].numbers.trace) is not None:
        trace.begin_step(optimizer)
    arguments = StepArguments(kwargs)
    arguments.step = step
    take_lists(optimizer)
    if len(_global_optimizer_pre_hooks) == 1 and not optimizer._optimizer_step_pre_hooks:
        # No other hook replaces them.
        weakref.finalize(arguments, _end, step, weakref.ref(optimizer)).atexit = False
    return args, arguments


def take_lists(optimizer: Optimizer) -> None:
    """Has torch compute with lists of all tensors where it may choose, until `leave_lists`.

    So a step takes the rounds of one tensor (see joint_lists.py). RAdam takes no lists.
    """
    wanted, chosen = isinstance(optimizer, IN_LISTS), list[dict[str, Any]]()
    if wanted:
        chosen = [group for group in optimizer.param_groups if _may_be_list(group)]
    elif isinstance(optimizer, NOT_IN_LISTS):
        chosen = [group for group in optimizer.param_groups if group.get("foreach")]
    if chosen:
        before = [(group, group["foreach"]) for group in chosen]
        _changed[optimizer] = [*_changed.get(optimizer, ()), *before]
    for group in chosen:
        group["foreach"] = wanted


def _may_be_list(group: dict[str, Any]) -> bool:
    """Whether torch may choose, and could compute with these settings."""
    others = (group.get("fused"), group.get("differentiable"), group.get("capturable"))
    settings = (x for name, x in group.items() if name != "params")
    return (
        group.get("foreach", False) is None
        and not any(others)
        and not any(isinstance(x, Tensor) for x in tree_leaves([*settings]))
        and all(type(x) is SecretTensor for x in group["params"])
    )


def leave_lists(optimizer: Optimizer) -> None:
    """Puts the setting back that `take_lists` changed."""
    for group, setting in reversed(_changed.pop(optimizer, ())):
        group["foreach"] = setting


def end_step(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The post-hook: ends the step, and all others that the gradients are marked with."""
    leave_lists(optimizer)
    secret = next((x for x in _parameters(optimizer) if type(x) is SecretTensor), None)
    if secret is not None and (trace := secret.numbers.trace) is not None:
        trace.end_step()
    if isinstance(kwargs, StepArguments):
        kwargs.step.end()
    for tensor, value in _marked(optimizer):
        if value.step is not None:
            value.step.end()
        tensor.relabel(value.ordinary())


def _end(step: OptimizerStep, optimizer: weakref.ref[Optimizer]) -> None:
    """Ends a step that an exception has left."""
    step.end()
    if (found := optimizer()) is not None:
        leave_lists(found)


_seen: weakref.WeakSet[Optimizer] = weakref.WeakSet()


def _warn_of_small_eps(optimizer: Optimizer) -> None:
    """Warns, once for an optimizer, of an eps below a unit, and says what is used instead."""
    if optimizer in _seen:
        return
    _seen.add(optimizer)
    secret = next(x for x in _parameters(optimizer) if type(x) is SecretTensor)
    n, eps = secret.numbers, [group.get("eps") for group in optimizer.param_groups]
    small = [x for x in eps if isinstance(x, float) and 0 < x < 2.0**-n.fraction_bits]
    if small:
        wide = isinstance(optimizer, ADAPTIVE) and has_room(n)
        used = f"a root counts as 2^-{n.fraction_bits} at least, and eps is added to that"
        warnings.warn(
            PrecisionWarning(
                f"eps={small[0]:g} of {type(optimizer).__name__} is below a unit, "
                f"2^-{n.fraction_bits}; {used if wide else 'it is rounded to a unit or to 0'}"
            ),
            stacklevel=2,
        )


def _is_torchs(optimizer: Optimizer) -> bool:
    """Whether torch's own code steps: the class's, or that of a base which a user's step calls."""
    own = type(optimizer).step.__module__.startswith("torch.optim.")
    nested = any(value.step and value.step.active for _, value in _marked(optimizer))
    return isinstance(optimizer, ADAPTIVE) and (own or nested)


def _hook_bases(kind: type) -> None:
    """Has torch call the hooks also for `super().step()`, as if each base had an instance."""
    for base in kind.__mro__[1:]:
        step = base.__dict__.get("step")
        if step is not None and base is not Optimizer and not getattr(step, "hooked", None):
            base.step = Optimizer.profile_hook_step(step)  # type: ignore[attr-defined]
            base.step.hooked = True  # type: ignore[attr-defined]


def _outside(
    closure: Callable[[], Any], optimizer: Optimizer, step: OptimizerStep
) -> Callable[[], Any]:
    """The closure, during which the step does not count: a forward and a backward pass."""

    def call() -> Any:
        trace = next(x for x in _parameters(optimizer) if type(x) is SecretTensor).numbers.trace
        step.end()
        leave_lists(optimizer)
        if trace is not None:
            trace.begin_closure()
        loss = closure()
        if trace is not None:
            trace.end_closure()
        take_lists(optimizer)
        step.active = True
        _mark(optimizer, step)
        return loss

    return call


def _mark(optimizer: Optimizer, step: OptimizerStep) -> None:
    for tensor in _gradients(optimizer):
        if tensor.label.is_real:
            tensor.relabel(gradient(tensor.label, step))


def _marked(optimizer: Optimizer) -> Iterator[tuple[SecretTensor, Gradient]]:
    for tensor in _gradients(optimizer):
        value = tensor.label
        if isinstance(value, Gradient):
            yield tensor, value


def _gradients(optimizer: Optimizer) -> Iterator[SecretTensor]:
    for parameter in _parameters(optimizer):
        if type(parameter.grad) is SecretTensor:
            yield parameter.grad


def _parameters(optimizer: Optimizer) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def register() -> None:
    """Registers the hooks; called once, where this package is imported."""
    register_optimizer_step_pre_hook(begin_step)
    register_optimizer_step_post_hook(end_step)
