"""Folds BatchNorm into the layer before it, so that inference needs no normalisation."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_leaves

from ..errors import ConfigError, UnsupportedModule
from .dry_run import call
from .module_tensors import module_tensors
from .norm_places import Observation, observe, traced_pairs

log = logging.getLogger("tacit")

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
FOLDABLE = (*CONVOLUTIONS, *TRANSPOSED, nn.Linear)
# How near results must be, relative to the largest: of a model in its own dtype, of a layer alone
# in float64.
CLOSE = 2.0**-10
LAYER_CLOSE = 2.0**-20


@dataclass(frozen=True)
class BatchNormPlace:
    """A BatchNorm of a model: the layer that it folds into, or None and the reason why it stays."""

    norm: str
    layer: str | None
    reason: str = ""


def fold_batch_norm(model: nn.Module, example: Any = None) -> nn.Module:
    """Returns a copy of a plain model in eval mode that computes the same with fewer layers.

    A BatchNorm that reads the result of one convolution or linear layer, which nothing else reads,
    moves into its weights and becomes an Identity. Class and code of the model stay, its state dict
    gets shorter: every party folds, the owner its weights and the others theirs, before sharing.

    Some can be folded only with an `example` input, for which the model is called once: linear
    layers, subclasses with a `forward` of their own, and models that torch.fx cannot trace. Of the
    latter only the path that the example takes is seen. How many were folded, and why others stay,
    goes to the logger "tacit"; `batch_norm_places` returns it.
    """
    folded = copy.deepcopy(model)
    places = batch_norm_places(folded, example)
    for place in places:
        if place.layer is not None:
            _fold(folded.get_submodule(place.layer), folded.get_submodule(place.norm))
            folded.set_submodule(place.norm, nn.Identity().train(False))
    if example is not None and not _agree(model, folded, example):
        raise UnsupportedModule(
            f"a folded {type(model).__name__} gives another result on the example",
            remedy="share it as it is, or fold its parts one by one",
            subject="fold_batch_norm",
        )
    _say(places)
    return folded


def _say(places: list[BatchNormPlace]) -> None:
    left = [place for place in places if place.layer is None]
    why = "".join(f"; {place.norm!r} stays: {place.reason}" for place in left)
    level = logging.WARNING if left else logging.INFO
    log.log(level, "folded %d of %d batch norms%s", len(places) - len(left), len(places), why)


def batch_norm_places(model: nn.Module, example: Any = None) -> list[BatchNormPlace]:
    """Returns every BatchNorm of a plain model in eval mode, with what `fold_batch_norm` does."""
    if model.training:
        raise ConfigError(
            "the model is in training mode",
            remedy="choose eval mode first",
            subject="fold_batch_norm",
        )
    norms = [path for path, part in model.named_modules() if isinstance(part, NORMS)]
    hooked = {path for path, part in model.named_modules() if _has_hooks(part)}
    seen = None if example is None else observe(model, example, FOLDABLE, NORMS)
    pairs = traced_pairs(model, FOLDABLE, NORMS)
    if pairs is None:
        if seen is None:
            raise UnsupportedModule(
                f"the control flow of {type(model).__name__} cannot be traced",
                remedy="give an example input",
                subject="fold_batch_norm",
            )
        pairs = seen.lone_pairs()
    places = []
    for norm in norms:
        layer = pairs.get(norm)
        reason = _reason(model, layer, norm, hooked, seen)
        places.append(BatchNormPlace(norm, None if reason else layer, reason))
    return places


def _has_hooks(part: nn.Module) -> bool:
    return bool(part._forward_hooks or part._forward_pre_hooks)


def _reason(
    model: nn.Module, path: str | None, norm: str, hooked: set[str], seen: Observation | None
) -> str:
    """Returns why a BatchNorm cannot be folded into this layer; empty if it can."""
    if path is None:
        return "it does not read one layer that nothing else reads"
    layer: Any = model.get_submodule(path)
    part: Any = model.get_submodule(norm)
    if not isinstance(layer, FOLDABLE):
        return f"it reads a {type(layer).__name__}"
    if part.running_mean is None:
        return "it has no running statistics"
    if hooked & {path, norm}:
        return "it or its layer has hooks"
    if layer._parameters.get("weight") is None or _tied(model, path):
        return "the weight of its layer is computed, or tied to another"
    known = _inherits(layer, FOLDABLE) and _inherits(part, (_BatchNorm,))
    if known and not isinstance(layer, nn.Linear):
        return ""
    if seen is None:
        return f"{path!r} needs an example input"
    if norm not in seen.inputs or path not in seen.inputs:
        return "the example does not reach it"
    return "" if _same(layer, part, seen.inputs[path]) else f"{path!r} does more than its base"


def _tied(model: nn.Module, path: str) -> bool:
    names = {f"{path}.{name}" for name, _ in model.get_submodule(path).named_parameters()}
    entries = [entry for entry in module_tensors(model) if entry.other_paths]
    return any(names & {entry.path, *entry.other_paths} for entry in entries)


def _inherits(part: nn.Module, bases: tuple[type, ...]) -> bool:
    """Whether a layer computes what its base in torch computes."""
    base = next(kind for kind in type(part).__mro__ if kind in bases)
    names = ("forward", "_conv_forward", "_output_padding", "__call__")
    return all(getattr(type(part), name, None) is getattr(base, name, None) for name in names)


@torch.no_grad()
def _same(layer: nn.Module, norm: nn.Module, x: torch.Tensor) -> bool:
    """Whether a copy of the layer with the norm folded into it gives what both give, on x."""
    try:
        layer, norm = (copy.deepcopy(part).double() for part in (layer, norm))
        alone, x = copy.deepcopy(layer), x.double()
        _fold(alone, norm)
        return _near(alone(x), norm(layer(x)), LAYER_CLOSE)
    except (RuntimeError, ValueError):  # the features of a linear layer are not what is normalised
        return False


@torch.no_grad()
def _agree(model: nn.Module, folded: nn.Module, example: Any) -> bool:
    results = [tree_leaves(call(one, example)) for one in (model, folded)]
    pairs = zip(*results, strict=True)
    return all(_near(a, b) for a, b in pairs if isinstance(a, torch.Tensor))


def _near(a: torch.Tensor, b: torch.Tensor, close: float = CLOSE) -> bool:
    if a.shape != b.shape:
        return False
    a, b = a.double(), b.double()
    most = close * float(b.abs().max()) if b.numel() else 0.0
    return bool(((a - b).abs() <= most + torch.finfo(torch.float32).tiny).all())


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
