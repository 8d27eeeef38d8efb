"""Folds BatchNorm into the layer before it, so that inference needs no normalisation."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch import fx, nn

from ..errors import ConfigError, UnsupportedModule
from .dry_run import call
from .module_tensors import module_tensors

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
FOLDABLE = (*CONVOLUTIONS, *TRANSPOSED, nn.Linear)


def fold_batch_norm(model: nn.Module, example: Any = None) -> nn.Module:
    """Returns a copy of a plain model in eval mode that computes the same with fewer layers.

    A BatchNorm that reads the result of one convolution or linear layer, which nothing else reads,
    moves into its weights and becomes an Identity. Class and code of the model stay, its state dict
    gets shorter: every party folds, the owner its weights and the others theirs, before sharing.
    Linear layers are folded only where an `example` input shows that they give matrices.
    """
    if model.training:
        raise ConfigError(
            "the model is in training mode",
            remedy="choose eval mode first",
            subject="fold_batch_norm",
        )
    folded = copy.deepcopy(model)
    pairs = _pairs(folded)
    flat = set() if example is None else _flat(folded, pairs, example)
    for path, norm in pairs:
        layer = folded.get_submodule(path)
        if norm in flat or not isinstance(layer, nn.Linear):
            _fold(layer, folded.get_submodule(norm))
            folded.set_submodule(norm, nn.Identity().train(False))
    return folded


def _pairs(model: nn.Module) -> list[tuple[str, str]]:
    """Returns the paths of layers, each with the BatchNorm that can be folded into it."""
    graph = _traced(model)
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    tied = {
        place
        for entry in module_tensors(model)
        if entry.other_paths
        for place in (entry.path, *entry.other_paths)
    }
    pairs = []
    for node in graph.nodes:
        if node.op != "call_module" or not node.args:
            continue
        source, path = node.args[0], str(node.target)
        if not isinstance(source, fx.Node) or source.op != "call_module":
            continue
        layer = str(source.target)
        once = calls[path] == calls[layer] == 1 and len(source.users) == 1
        if once and _fits(model.get_submodule(layer), model.get_submodule(path)):
            names = {f"{layer}.{name}" for name, _ in model.get_submodule(layer).named_parameters()}
            if not names & tied:
                pairs.append((layer, path))
    return pairs


def _traced(model: nn.Module) -> fx.Graph:
    try:
        return fx.Tracer().trace(model)
    except Exception as error:
        raise UnsupportedModule(
            f"the control flow of {type(model).__name__} cannot be traced ({error})",
            remedy="fold its parts one by one, or share it as it is",
            subject="fold_batch_norm",
        ) from error


def _fits(layer: nn.Module, norm: nn.Module) -> bool:
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in (layer, norm))
    kinds = isinstance(layer, FOLDABLE) and isinstance(norm, NORMS)
    return kinds and not hooked and norm.running_mean is not None


def _flat(model: nn.Module, pairs: list[tuple[str, str]], example: Any) -> set[str]:
    """Returns the BatchNorms of these pairs whose inputs, for the example, are matrices.

    With one dimension more, a linear layer's features are not what a BatchNorm normalises.
    """
    seen: set[str] = set()

    def watch(path: str) -> Any:
        return lambda _, inputs: seen.add(path) if inputs[0].dim() == 2 else None

    handles = [
        model.get_submodule(norm).register_forward_pre_hook(watch(norm)) for _, norm in pairs
    ]
    with torch.no_grad():
        call(model, example)
    for handle in handles:
        handle.remove()
    return seen


@torch.no_grad()
def _fold(layer: Any, norm: Any) -> None:
    """y = (x W + b - mean) s + beta with s = gamma / sqrt(var + eps), as x (W s) + (b - mean) s +
    beta. A transposed convolution has its outputs in the second dimension, group by group."""
    scale = torch.rsqrt(norm.running_var + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight
    bias = -norm.running_mean if layer.bias is None else layer.bias - norm.running_mean
    bias = bias * scale
    if norm.bias is not None:
        bias = bias + norm.bias
    weight = layer.weight
    if isinstance(layer, TRANSPOSED):
        split = weight.unflatten(0, (layer.groups, -1))
        factor = scale.reshape(layer.groups, 1, -1, *[1] * (weight.dim() - 2))
        weight = (split * factor).flatten(0, 1)
    else:
        weight = weight * scale.reshape(-1, *[1] * (weight.dim() - 1))
    grad = layer.weight.requires_grad
    layer.weight = nn.Parameter(weight, requires_grad=grad)
    layer.bias = nn.Parameter(bias, requires_grad=grad)
