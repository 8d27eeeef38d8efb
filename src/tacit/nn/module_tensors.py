"""The tensors of a module: their paths, ties, what the parties compare, and what is too small."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.parameter import is_lazy
from torch.optim.swa_utils import AveragedModel

from ..errors import PrecisionWarning
from ..fixedpoint import Numbers

# Buffers that count training steps, by class and name.
COUNTERS = ((_NormBase, "num_batches_tracked"), (AveragedModel, "n_averaged"))
SIGNIFICANT_BITS = 5  # of the inverse root of a variance, at least
EPS = ("eps", "variance_epsilon")  # of torch's norms, and of those of transformers


@dataclass
class ModuleTensor:
    """A parameter or buffer of a module, under the first of its paths."""

    path: str
    tensor: Tensor
    is_parameter: bool
    references: list[tuple[dict[str, Tensor | None], str]] = field(default_factory=list)
    other_paths: list[str] = field(default_factory=list)  # of the same tensor, if it is tied
    counts_steps: bool = False

    @property
    def has_secret_kind(self) -> bool:
        """Whether it is a parameter or a floating-point buffer, which always become secret."""
        return self.is_parameter or self.tensor.is_floating_point()

    def is_called(self, name: str) -> bool:
        """Whether the name is one of its paths, or the last part of one."""
        return any(
            name in (path, path.rpartition(".")[2]) for path in (self.path, *self.other_paths)
        )

    def replace(self, tensor: Tensor) -> None:
        """Puts another tensor into the module, under all paths of this one."""
        for table, name in self.references:
            table[name] = tensor
        self.tensor = tensor

    def __str__(self) -> str:
        kind = "parameter" if self.is_parameter else "buffer"
        dtype = str(self.tensor.dtype).removeprefix("torch.")
        frozen = "" if self.tensor.requires_grad or not self.is_parameter else ", frozen"
        tied = f", tied to {', '.join(self.other_paths)}" if self.other_paths else ""
        return f"{kind} of shape {tuple(self.tensor.shape)}, {dtype}{frozen}{tied}"


def module_tensors(module: nn.Module) -> list[ModuleTensor]:
    """Returns every tensor of a module once, in the order of its state dict."""
    found: dict[int, ModuleTensor] = {}
    for path, part, table, name, tensor in _references(module):
        entry = found.get(id(tensor))
        if entry is None:
            entry = ModuleTensor(path, tensor, table is part._parameters)
            entry.counts_steps = any(isinstance(part, c) and name == one for c, one in COUNTERS)
            found[id(tensor)] = entry
        else:
            entry.other_paths.append(path)
        entry.references.append((table, name))
    return list(found.values())


def _references(
    module: nn.Module,
) -> Iterator[tuple[str, nn.Module, dict[str, Tensor | None], str, Tensor]]:
    for prefix, part in module.named_modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    path = f"{prefix}.{name}" if prefix else name
                    yield path, part, table, name, tensor


def fixed_norms(module: nn.Module) -> list[_BatchNorm]:
    """Returns the batch norms in eval mode that have running statistics."""
    return [part for part in module.modules() if isinstance(part, _BatchNorm) and _is_fixed(part)]


def _is_fixed(part: _BatchNorm) -> bool:
    given = [part.weight, part.bias, part.running_mean, part.running_var]
    if part.training or given[2] is None or given[3] is None:
        return False
    return all(x is None or (x.is_floating_point() and x.shape == given[3].shape) for x in given)


def describe(module: nn.Module, tensors: Sequence[ModuleTensor]) -> dict[str, str]:
    """Returns what is public about a module, by path: classes, modes, shapes, dtypes, ties."""
    lines = {
        path
        or "the module": f"{type(part).__name__} in {'train' if part.training else 'eval'} mode"
        for path, part in module.named_modules()
    }
    return lines | {entry.path: str(entry) for entry in tensors}


def unsharable(tensors: Sequence[ModuleTensor]) -> list[tuple[str, str]]:
    """Returns the path of each tensor that cannot become secret, with the reason and a remedy."""
    return [(entry.path, reason) for entry in tensors if (reason := _obstacle(entry.tensor))]


def _obstacle(tensor: Tensor) -> str | None:
    if is_lazy(tensor):
        return "has no shape yet: run the module once on plain data"
    if tensor.is_complex():
        return f"is {tensor.dtype}: keep real and imaginary parts as two tensors"
    if tensor.is_quantized:
        return f"is {tensor.dtype}: dequantize the module, secrets are fixed point anyway"
    if tensor.layout != torch.strided:
        return f"is {tensor.layout}: make it dense with to_dense()"
    return None


def warn_of_small_eps(n: Numbers, module: nn.Module) -> None:
    """Warns of the eps of normalisations that fixed point rounds to zero.

    Once for a module: of the smallest eps, with the path of the first part that has it.
    """
    bits = n.eps_bits
    found = [
        (eps, path or type(part).__name__)
        for path, part in module.named_modules()
        for eps in (getattr(part, name, None) for name in EPS)
        if isinstance(eps, float) and 0 < eps * 2.0**bits < 0.5
    ]
    if found:
        eps, path = min(found, key=lambda one: one[0])
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        warnings.warn(
            PrecisionWarning(
                f"eps={eps:g} of {path}{more} is 0 with {bits} fraction bits; 0 is used, and a "
                f"variance of 0 counts as 2^-{bits}"
            ),
            stacklevel=2,
        )


def warn_of_rough_statistics(n: Numbers, tensors: Sequence[ModuleTensor]) -> None:
    """Warns the owner of running variances v for which 1 / sqrt(v) has few significant bits.

    Batch norm multiplies by it. In a ring of 64 bits it is extended, see fixedpoint/norm.py; in one
    of 32 bits it has the session's fraction bits only.
    """
    most = 4.0 ** (n.fraction_bits - SIGNIFICANT_BITS)
    if n.ring.bits == 64:
        return
    variances = [x for x in tensors if x.path.endswith("running_var") and x.tensor.numel()]
    rough = [x.path for x in variances if float(x.tensor.max()) > most]
    if rough:
        more = f" and {len(rough) - 1} more" if len(rough) > 1 else ""
        warnings.warn(
            PrecisionWarning(
                f"the inverse root of {rough[0]}{more} has fewer than {SIGNIFICANT_BITS} "
                f"significant bits with {n.fraction_bits} fraction bits; fold it with "
                "tacit.nn.fold_batch_norm, or use ring=64"
            ),
            stacklevel=2,
        )
