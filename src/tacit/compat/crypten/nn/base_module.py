"""`Module`: what CrypTen's modules have, and how their tensors become secret."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Self

import torch
from torch import nn
from torch.nn.parameter import Parameter as TorchParameter

from ....errors import ConfigError, UnsupportedError
from ....tensor import SecretTensor
from ..cryptensor import CrypTensor, MPCTensor
from ..initialization import current_session
from ..refused_call import RefusedAssertion
from ..wrapping import unwrapped
from .state_dicts import load_state_dict, state_dict


class Module:
    """A module with CrypTen's conventions.

    Its tensors are plain, and differ between parties if they made them at random, until `encrypt`
    makes those of one party secret; then they are CrypTensors. `train` and `eval` also decide
    whether parameters require gradients.
    """

    def __init__(self) -> None:
        self._parameters: dict[str, Any] = {}
        self._buffers: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}
        self.encrypted = False
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the module computes; subclasses define it."""
        raise UnsupportedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns `forward` of the arguments; plain parameters and secrets do not mix."""
        has_tensors = any(True for _ in chain(self.parameters(), self.buffers()))
        is_plain = has_tensors and not self.encrypted
        if is_plain and any(isinstance(one, CrypTensor) for one in args):
            raise UnsupportedError(
                f"{type(self).__name__} is not encrypted, and its input is",
                remedy="call encrypt() of the module before",
            )
        return self.forward(*args, **kwargs)

    # Parts by name --------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in (found := self.__dict__.get(kind, {})):
                return found[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = [self.__dict__.get(kind, {}) for kind in ("_parameters", "_buffers", "_modules")]
        holder = next((kind for kind in kinds if name in kind), None)
        if isinstance(value, Module):
            for kind in (self.__dict__, *kinds[:2]):
                kind.pop(name, None)
            self._modules[name] = value
        elif holder is not None:
            holder[name] = value
        else:
            super().__setattr__(name, value)

    def register_parameter(self, name: str, param: Any, requires_grad: bool = True) -> None:
        """Adds a tensor that is trained."""
        self._require_new(name)
        self._parameters[name] = _leaf(param, requires_grad)

    def register_buffer(self, name: str, buffer: Any) -> None:
        """Adds a tensor that is encrypted like a parameter, but not trained."""
        self._require_new(name)
        self._buffers[name] = _leaf(buffer, False)

    def register_module(self, name: str, module: Module) -> None:
        """Adds a part."""
        if not isinstance(module, Module):
            raise ConfigError(
                f"{name!r} is a {type(module).__name__}, not a module of crypten.nn",
                remedy="crypten.nn.from_pytorch takes a torch module",
            )
        self._modules[name] = module

    def add_module(self, name: str, module: Module) -> None:
        """Adds a part under a name that is not taken."""
        if name in self._modules:
            raise RefusedAssertion(f"{type(self).__name__} has a module {name!r} already")
        self.register_module(name, module)

    def set_parameter(self, name: str, param: Any) -> None:
        """Replaces a parameter of this module itself."""
        self._require_known(self._parameters, name)
        self._parameters[name] = param

    def set_parameter_from_shares(self, name: str, share: Any, **options: Any) -> None:
        """Replaces a parameter by the secret of which each party gives its share."""
        if not self.encrypted:
            raise RefusedAssertion(
                f"{type(self).__name__} is not encrypted", remedy="call encrypt() before"
            )
        self._require_known(self._parameters, name)
        secret = MPCTensor.from_shares(share, **options)
        self._parameters[name] = _leaf(secret, self.training)

    def set_buffer(self, name: str, buffer: Any) -> None:
        """Replaces a buffer of this module itself."""
        self._require_known(self._buffers, name)
        self._buffers[name] = buffer

    def _require_new(self, name: str) -> None:
        if hasattr(self, name):
            raise ConfigError(f"{type(self).__name__} has an attribute {name!r} already")

    def _require_known(self, held: dict[str, Any], name: str) -> None:
        if name not in held:
            raise ConfigError(f"{type(self).__name__} has no {name!r}")

    # Iteration ------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields the names and modules of the parts of this module."""
        yield from self._modules.items()

    def children(self) -> Iterator[Module]:
        """Yields the parts of this module."""
        yield from self._modules.values()

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = ""
    ) -> Iterator[tuple[str, Module]]:
        """Yields this module and all below it, with their paths; each once, and none of `memo`."""
        known = set() if memo is None else memo
        if self not in known:
            known.add(self)
            yield prefix, self
            for name, child in self.named_children():
                yield from child.named_modules(known, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """Yields this module and all below it."""
        for _, module in self.named_modules():
            yield module

    def _named(self, kind: str, recurse: bool, prefix: str | None) -> Iterator[tuple[str, Any]]:
        start = "" if prefix is None else f"{prefix}."
        for path, module in self.named_modules() if recurse else [("", self)]:
            for name, tensor in getattr(module, kind).items():
                if tensor is not None:
                    yield start + (f"{path}.{name}" if path else name), tensor

    def named_parameters(
        self, recurse: bool = True, prefix: str | None = None
    ) -> Iterator[tuple[str, Any]]:
        """Yields parameters with their paths."""
        return self._named("_parameters", recurse, prefix)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Yields parameters."""
        return map(operator.itemgetter(1), self.named_parameters(recurse))

    def named_buffers(
        self, recurse: bool = True, prefix: str | None = None
    ) -> Iterator[tuple[str, Any]]:
        """Yields buffers with their paths."""
        return self._named("_buffers", recurse, prefix)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Yields buffers."""
        return map(operator.itemgetter(1), self.named_buffers(recurse))

    state_dict = state_dict
    load_state_dict = load_state_dict

    # Training -------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Sets the mode of this module and its parts; their parameters require grad in training."""
        for module in self.modules():
            module.training = mode
        for param in self.parameters():
            param.requires_grad = mode
        return self

    def eval(self) -> Self:
        """Sets the mode for inference."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Sets all gradients to None."""
        for param in self.parameters():
            param.grad = None

    def update_parameters(self, learning_rate: float, grad_threshold: float | None = None) -> None:
        """Subtracts the gradients, times the learning rate, from the parameters.

        grad_threshold: elements of gradients from here on count as 0. CrypTen's default, 100, is
        for its rare wrong results, of which there are none here.
        """
        if not self.training:
            raise RefusedAssertion(
                f"{type(self).__name__} is not in training mode", remedy="call train() before"
            )
        with torch.no_grad():
            for param in map(unwrapped, self.parameters()):
                if param.grad is not None:
                    param.sub_(below(param.grad, grad_threshold) * learning_rate)

    # Encryption -----------------------------------------------------------------------------------

    def encrypt(self, mode: bool = True, src: int = 0) -> Self:
        """Makes the tensors of party `src` secret, or plain for all parties if `mode` is False.

        The other parties give a module of the same architecture, whose numbers are not used.
        """
        if mode == self.encrypted:
            return self
        if any(module.encrypted == mode for module in self.modules()):
            for child in self.children():
                child.encrypt(mode, src)
            self._convert(mode, src, self._as_torch(children=False))
        else:
            self._convert(mode, src, self._as_torch())
        return self

    def decrypt(self) -> Self:
        """Makes the tensors plain for all parties."""
        return self.encrypt(mode=False)

    def _convert(self, mode: bool, src: int, held: nn.Module) -> None:
        session = current_session()
        converted = session.share(held, owner=src) if mode else session.reveal(held)
        self._take(converted, mode)

    def _as_torch(self, *, children: bool = True) -> nn.Module:
        """Returns a torch module that holds the tensors, which is shared and revealed as one."""
        made = self._torch_form()
        for name, param in self._parameters.items():
            made._parameters[name] = _torch_parameter(param)
        made._buffers.update({name: unwrapped(one) for name, one in self._buffers.items()})
        if children:
            made._modules.update({name: one._as_torch() for name, one in self.named_children()})
        return made

    def _torch_form(self) -> nn.Module:
        """Returns the torch module that `_as_torch` fills."""
        return nn.Module()

    def _take(self, held: nn.Module, encrypted: bool) -> None:
        """Takes the tensors of a module that `_as_torch` made, which are secret or plain now."""
        self.encrypted = encrypted
        for own, theirs in (
            (self._parameters, held._parameters),
            (self._buffers, held._buffers),
        ):
            own.update({name: wrapped(theirs[name]) for name in own})
        for name, child in self.named_children():
            if name in held._modules:
                child._take(held._modules[name], encrypted)  # type: ignore[arg-type]

    # Devices and functions ------------------------------------------------------------------------

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves plain tensors, as torch's. The session decides where shares are."""
        for module in self.modules():
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if isinstance(tensor, torch.Tensor):
                        moved = tensor.detach().to(*args, **kwargs)
                        held[name] = _leaf(moved, tensor.requires_grad)
        return self

    def cpu(self) -> Self:
        """Moves plain tensors to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Moves plain tensors to a GPU."""
        return self.to("cuda" if device is None else torch.device("cuda", device))

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Calls a function of all modules below this one, and of it."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={child!r}" for name, child in self.named_children())
        state = "encrypted" if self.encrypted else "unencrypted"
        return f"{type(self).__name__} {state} module" + f"({parts})" * bool(parts)


def wrapped(result: Any) -> Any:
    """Returns what torch computed, with CrypTensors for secrets, also in lists and tuples."""
    if isinstance(result, SecretTensor):
        return CrypTensor.of(result)
    if type(result) in (list, tuple):
        return type(result)(wrapped(one) for one in result)
    return result


def below(grad: torch.Tensor, threshold: float | None) -> torch.Tensor:
    """Returns a gradient with zeros for the elements whose magnitude reaches the threshold."""
    return grad if threshold is None else grad * (grad.abs() < threshold)


def _leaf(tensor: Any, requires_grad: bool) -> Any:
    """Returns the tensor, which requires grad or not; CrypTen's do, whatever they did before."""
    if isinstance(tensor, torch.Tensor) and not tensor.is_leaf:
        tensor = tensor.detach()
    tensor.requires_grad = requires_grad
    return tensor


def _torch_parameter(param: Any) -> Any:
    """Returns a parameter for torch; a secret is one already."""
    tensor = unwrapped(param)
    if tensor is None or isinstance(tensor, SecretTensor | TorchParameter):
        return tensor
    return TorchParameter(tensor.detach(), requires_grad=tensor.requires_grad)
