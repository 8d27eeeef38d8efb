"""Watches the results of shared modules, in a session with guards; see fixedpoint/guard.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.utils._pytree import tree_leaves

from ..fixedpoint import Numbers
from ..tensor import SecretTensor

# Their results are no larger than their inputs, than 1, or than those of their last part.
NO_LARGER = (
    nn.Sequential,
    *(nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Sigmoid, nn.Hardsigmoid, nn.Tanh, nn.Softmax),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d),
    *(nn.Flatten, nn.Unflatten, nn.Identity),
)


def watch_modules(module: nn.Module) -> None:
    """Adds hooks that watch the results of all parts of a module.

    `NO_LARGER` modules are left out. A result that two modules return is watched once, under the
    path of the inner one.
    """
    for path, part in module.named_modules():
        if not isinstance(part, NO_LARGER):
            part.register_forward_hook(Watch(path or type(part).__name__))


def follows(n: Numbers, module: nn.Module) -> bool:
    """Whether a promise about a module is left out: with guards, that of its input is watched."""
    return n.watched is not None and isinstance(module, NO_LARGER)


@dataclass(frozen=True)
class Watch:
    """A forward hook that watches the results of the module at this path."""

    path: str

    def __call__(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        for tensor in tree_leaves(output):
            if isinstance(tensor, SecretTensor):
                tensor.numbers.watch(self.path, tensor.value)
