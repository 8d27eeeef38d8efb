"""Modules that compute what a torch module computes: most layers, and converted models."""

from __future__ import annotations

import copy
from logging import getLogger
from typing import Any, ClassVar

import torch
from torch import nn
from torch.func import functional_call

from ....errors import UnsupportedError
from ..refused_call import RefusedAssertion
from ..wrapping import unwrapped
from .base_module import Module, wrapped

LOG = getLogger("tacit")


class TorchModule(Module):
    """Computes what `module` computes, with the tensors of this module in the place of its own.

    Integer and bool buffers stay in `module`: `session.share` decides which of them are public.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._torch = module
        self.training = module.training
        self._parameters.update(module._parameters)
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                self._buffers[name] = buffer
        for name, child in module.named_children():
            self._modules[name] = TorchModule(child)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns torch's result; an encrypted module with parameters takes no plain tensors."""
        state = dict(self.named_parameters()) | dict(self.named_buffers())
        if self.encrypted and state and any(isinstance(one, torch.Tensor) for one in args):
            raise UnsupportedError(
                f"{type(self).__name__} is encrypted, and its input is not",
                remedy="crypten.cryptensor(x, src=...) says whose input it is",
            )
        for module in self.modules():
            assert isinstance(module, TorchModule)
            module._torch.training = module.training
        given = {name: unwrapped(tensor) for name, tensor in state.items()}
        return wrapped(functional_call(self._torch, given, unwrapped(args), unwrapped(kwargs)))

    def _torch_form(self) -> nn.Module:
        return self._torch

    def _take(self, held: nn.Module, encrypted: bool) -> None:
        super()._take(held, encrypted)
        self._torch = held

    def __getattr__(self, name: str) -> Any:
        """Returns a tensor, a part, or a setting of the torch module, such as its stride."""
        settings = vars(self.__dict__["_torch"]) if "_torch" in self.__dict__ else {}
        return settings[name] if name in settings else super().__getattr__(name)


class Layer(TorchModule):
    """A layer with the arguments of `torch_class`. What torch would do in place is not."""

    torch_class: ClassVar[type[nn.Module]]

    def __init__(self, *args: Any, **options: Any) -> None:
        made = type(self).torch_class(*args, **options)
        if getattr(made, "inplace", False):
            LOG.warning("%s computes a new tensor: inplace is ignored", type(self).__name__)
            made.inplace = False  # type: ignore[assignment]
        super().__init__(made)


class ConvertedModel(TorchModule):
    """A torch model that `from_pytorch` or `from_onnx` was given."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(copy.deepcopy(model))
        self.pytorch_model = model
        self.train(model.training)

    def to_pytorch(self) -> nn.Module:
        """Returns the torch model that was converted, with the tensors that this one has now."""
        if self.encrypted:
            raise RefusedAssertion("the model is encrypted", remedy="call decrypt() before")
        with torch.no_grad():
            own = self.pytorch_model.state_dict()
            for path, tensor in self.state_dict().items():
                own[path].copy_(tensor)
        return self.pytorch_model
