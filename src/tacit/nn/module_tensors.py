"""The tensors of a module: where they are, which are one, and what is public about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..errors import UnsupportedModule


@dataclass
class Slot:
    """A tensor of a module, under its first path; `places` is where the module holds it."""

    path: str
    tensor: Tensor
    is_parameter: bool
    places: list[tuple[dict[str, Tensor | None], str]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # paths of the same tensor, if it is tied

    @property
    def becomes_secret(self) -> bool:
        """Parameters and floating buffers do; integer and bool buffers stay public."""
        return self.is_parameter or self.tensor.is_floating_point()

    def put(self, tensor: Tensor) -> None:
        for table, name in self.places:
            table[name] = tensor
        self.tensor = tensor

    def __str__(self) -> str:
        kind = "parameter" if self.is_parameter else "buffer"
        dtype = str(self.tensor.dtype).removeprefix("torch.")
        frozen = "" if self.tensor.requires_grad or not self.is_parameter else ", frozen"
        tied = f", tied to {', '.join(self.others)}" if self.others else ""
        return f"{kind} of shape {tuple(self.tensor.shape)}, {dtype}{frozen}{tied}"


def slots(module: nn.Module) -> list[Slot]:
    """Every tensor of a module once, in the order of its state dict."""
    found: dict[int, Slot] = {}
    for path, table, name, tensor, is_parameter in _tensors(module):
        slot = found.get(id(tensor))
        if slot is None:
            slot = found[id(tensor)] = Slot(path, tensor, is_parameter)
        else:
            slot.others.append(path)
        slot.places.append((table, name))
    return list(found.values())


def _tensors(
    module: nn.Module,
) -> Iterator[tuple[str, dict[str, Tensor | None], str, Tensor, bool]]:
    for prefix, part in module.named_modules():
        for table, is_parameter in ((part._parameters, True), (part._buffers, False)):
            for name, tensor in table.items():
                if tensor is not None:
                    path = f"{prefix}.{name}" if prefix else name
                    yield path, table, name, tensor, is_parameter


def description(module: nn.Module) -> dict[str, str]:
    """What is public about a module, by path: classes, modes, shapes, dtypes, ties."""
    lines = {
        path
        or "the module": f"{type(part).__name__} in {'train' if part.training else 'eval'} mode"
        for path, part in module.named_modules()
    }
    return lines | {slot.path: str(slot) for slot in slots(module)}


def _kind(part: nn.Module) -> str:
    return f"{type(part).__name__} in {'train' if part.training else 'eval'} mode"


def _why_not(slot: Slot) -> str | None:
    tensor = slot.tensor
    if is_lazy(tensor):
        return "has no shape yet: run the module once on plain data"
    if tensor.is_complex():
        return f"is {tensor.dtype}: keep real and imaginary parts as two tensors"
    if tensor.is_quantized:
        return f"is {tensor.dtype}: dequantize the module, secrets are fixed point anyway"
    if tensor.layout != torch.strided:
        return f"is {tensor.layout}: make it dense with to_dense()"
    return None


def unsharable(module: nn.Module) -> list[tuple[str, str]]:
    """The tensors that cannot become secret: path and reason with the way out."""
    return [(slot.path, why) for slot in slots(module) if (why := _why_not(slot))]


def check_sharable(module: nn.Module) -> None:
    problems = unsharable(module)
    if problems:
        listed = "; ".join(f"{path} {why}" for path, why in problems)
        raise UnsupportedModule(f"share: {type(module).__name__} cannot be shared: {listed}")
