"""The gradients of each row of a batch, for layers with parameters.

A rule gets the layer, its input and the gradient of its output, whose first dimension is that of
the rows, and returns the gradient of each parameter with that dimension before the parameter's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UnsupportedModule

Gradients = dict[str, Tensor]
Rule = Callable[[Any, Tensor, Tensor], Gradients]


def linear(layer: nn.Linear, x: Tensor, grad: Tensor) -> Gradients:
    """Sums over all dimensions between the first and the last."""
    x = x.reshape(len(x), -1, x.shape[-1])
    grad = grad.reshape(len(grad), -1, grad.shape[-1])
    return {"weight": grad.mT @ x, "bias": grad.sum(1)}


def convolution(layer: nn.Conv1d | nn.Conv2d, x: Tensor, grad: Tensor) -> Gradients:
    """A product of the gradient and the windows of the input, for each group of channels."""
    if isinstance(layer.padding, str) or layer.padding_mode != "zeros":
        raise UnsupportedModule(
            f"gradients of rows of a convolution with padding={layer.padding!r} and "
            f"padding_mode={layer.padding_mode!r}",
            remedy="give padding= as numbers, with zeros",
        )
    options = [layer.kernel_size, layer.dilation, layer.padding, layer.stride]
    if isinstance(layer, nn.Conv1d):
        x = x.unsqueeze(2)
        neutral = ((1,), (1,), (0,), (1,))
        options = [none + given for none, given in zip(neutral, options, strict=True)]
    windows = F.unfold(x, *options)
    windows = windows.reshape(len(x), layer.groups, -1, windows.shape[-1])
    by_group = grad.reshape(len(x), layer.groups, -1, windows.shape[-1])
    weight = (by_group @ windows.mT).reshape(len(x), *layer.weight.shape)
    return {"weight": weight, "bias": grad.flatten(2).sum(2)}


def embedding(layer: nn.Embedding, x: Tensor, grad: Tensor) -> Gradients:
    """The gradients of the places at which an entry was looked up, added."""
    entries = F.one_hot(x, layer.num_embeddings).to(grad.dtype)
    entries = entries.reshape(len(x), -1, layer.num_embeddings)
    weight = entries.mT @ grad.reshape(len(x), -1, grad.shape[-1])
    if layer.padding_idx is not None:
        learnt = torch.ones(layer.num_embeddings, 1, dtype=grad.dtype)
        learnt[layer.padding_idx] = 0
        weight = weight * learnt
    return {"weight": weight}


def layer_norm(layer: nn.LayerNorm, x: Tensor, grad: Tensor) -> Gradients:
    """The normalised input times the gradient, summed where the parameters are repeated."""
    normal = F.layer_norm(x, layer.normalized_shape, eps=layer.eps)
    form = (len(x), -1, *layer.normalized_shape)
    return {"weight": (normal * grad).reshape(form).sum(1), "bias": grad.reshape(form).sum(1)}


def group_norm(layer: nn.GroupNorm, x: Tensor, grad: Tensor) -> Gradients:
    """The same for a number of each channel."""
    normal = F.group_norm(x, layer.num_groups, eps=layer.eps)
    form = (*x.shape[:2], -1)
    return {"weight": (normal * grad).reshape(form).sum(2), "bias": grad.reshape(form).sum(2)}


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Embedding: embedding,
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
}


class RowGradients:
    """Collects the gradients of each row for all parameters of a module that are trained.

    The parameters themselves no longer require gradients: backward passes compute those of
    activations alone, and no sum over rows that were not clipped exists anywhere.
    """

    def __init__(self, module: nn.Module) -> None:
        layers = [(path, layer) for path, layer in module.named_modules() if _trained(layer)]
        if lacking := [
            f"{path or 'the module'} ({type(layer).__name__})"
            for path, layer in layers
            if type(layer) not in RULES
        ]:
            raise UnsupportedModule(
                "gradients of rows of " + ", ".join(lacking),
                limit="there are rules for " + ", ".join(kind.__name__ for kind in RULES),
                remedy="nn.GroupNorm in the place of batch norm, which mixes the rows of a batch",
            )
        self.parameters = {id(p): p for _, layer in layers for p in _trained(layer).values()}
        self._found: dict[int, Tensor] = {}
        for _, layer in layers:
            layer.register_forward_hook(self._watch(_trained(layer)))
        module.requires_grad_(False)

    def _watch(self, trained: dict[str, nn.Parameter]) -> Callable[..., None]:
        def watch(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            if not (layer.training and torch.is_grad_enabled()):
                return
            x = args[0].detach()
            if not output.requires_grad:
                output.requires_grad_()
            output.register_hook(lambda grad: self._add(layer, trained, x, grad))

        return watch

    @torch.no_grad()
    def _add(
        self, layer: nn.Module, trained: dict[str, nn.Parameter], x: Tensor, grad: Tensor
    ) -> None:
        made = RULES[type(layer)](layer, x, grad.detach())
        for name, parameter in trained.items():
            known = self._found.get(id(parameter))
            self._found[id(parameter)] = made[name] if known is None else known + made[name]

    def take(self, rows: int) -> Tensor:
        """Returns the gradients since the last call, (rows, numbers), zeros where there are none.

        The order is that of `parameters`.
        """
        found, self._found = self._found, {}
        if wrong := {len(one) for one in found.values()} - {rows}:
            raise UnsupportedModule(
                f"a layer whose input has {wrong.pop()} rows, in a batch of {rows}",
                limit="the first dimension of every layer's input is that of the rows",
                remedy="do not join rows with other dimensions, and use one batch for each step",
            )
        parts = [
            found[key].reshape(rows, -1) if key in found else torch.zeros(rows, p.numel())
            for key, p in self.parameters.items()
        ]
        return torch.cat(parts, 1)


def _trained(layer: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters of a layer itself that require gradients."""
    own = layer.named_parameters(recurse=False)
    return {name: parameter for name, parameter in own if parameter.requires_grad}
