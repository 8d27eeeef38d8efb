"""Stochastic gradient descent on CrypTensors and plain parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ....errors import ConfigError
from ..cryptensor import CrypTensor
from ..nn.base_module import below
from ..wrapping import unwrapped


class SGD(torch.optim.SGD):
    """torch's SGD. grad_threshold: elements of gradients from here on count as 0.

    Parameters of a module are others after `encrypt` and `decrypt`: make the optimizer afterwards.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        grad_threshold: float | None = None,
    ) -> None:
        numbers = {"lr": lr, "momentum": momentum, "dampening": dampening}
        for name, value in (numbers | {"weight_decay": weight_decay}).items():
            if not isinstance(value, int | float):
                raise ConfigError(f"{name}={value!r}", limit="a number is needed")
        self.grad_threshold = grad_threshold
        super().__init__(unwrapped(list(params)), lr, momentum, dampening, weight_decay, nesterov)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with settings of their own."""
        params = param_group["params"]
        found = [params] if isinstance(params, torch.Tensor | CrypTensor) else list(params)
        super().add_param_group(param_group | {"params": unwrapped(found)})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once; returns what `closure`, which computes the loss, does."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.grad_threshold is not None:
            for param in (one for group in self.param_groups for one in group["params"]):
                if param.grad is not None:
                    param.grad = below(param.grad, self.grad_threshold)
        super().step()
        return loss
