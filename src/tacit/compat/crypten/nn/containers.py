"""Modules of modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import torch

from ....errors import ConfigError
from ..cryptensor import CrypTensor
from ..refused_call import RefusedAssertion
from .base_module import Module


class Container(Module):
    """A module that only joins its parts."""


class Graph(Container):
    """Modules joined by names: each takes the outputs of others, or inputs of the graph.

    modules and graph: the modules by name, and the names of their inputs; `add_module` adds one.
    """

    def __init__(
        self,
        input_names: str | Sequence[str],
        output_names: str | Sequence[str],
        modules: Mapping[str, Module] | None = None,
        graph: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__()
        self.input_names, self.output_names = _names(input_names), _names(output_names)
        self._graph: dict[str, list[str]] = {}
        self._outputs: dict[str, list[str]] = {}
        for name, module in (modules or {}).items():
            self.add_module(name, module, (graph or {}).get(name, ()))

    def add_module(
        self,
        name: str,
        module: Module,
        input_names: str | Sequence[str] = (),
        output_names: str | Sequence[str] | None = None,
    ) -> None:
        """Adds a module with its inputs; output_names: what it returns, if that is a tuple."""
        super().add_module(name, module)
        self._graph[name] = _names(input_names)
        self._outputs[name] = [name] if output_names is None else _names(output_names)

    def forward(self, *args: Any) -> Any:
        """Returns the outputs; a module runs when its inputs are known."""
        if len(args) != len(self.input_names):
            raise RefusedAssertion(
                f"{len(args)} inputs for a graph",
                limit=f"it takes {len(self.input_names)}: {', '.join(self.input_names)}",
            )
        values = dict(zip(self.input_names, args, strict=True))
        waiting = list(self._graph)
        while missing := [name for name in self.output_names if name not in values]:
            ready = [name for name in waiting if all(one in values for one in self._graph[name])]
            if not ready:
                raise ConfigError(f"no module of the graph computes {', '.join(missing)}")
            waiting.remove(ready[0])
            values |= self._computed(ready[0], values)
        outputs = tuple(values[name] for name in self.output_names)
        return outputs[0] if len(outputs) == 1 else outputs

    def _computed(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs of a module by name. Several inputs are given in one list."""
        inputs = [values[one] for one in self._graph[name]]
        result = self._modules[name](inputs[0] if len(inputs) == 1 else inputs)
        outputs = self._outputs[name]
        return dict(zip(outputs, [result] if len(outputs) == 1 else result, strict=True))


class Sequential(Graph):
    """Modules one after the other: given one by one, in a list, or in a dict by their names."""

    def __init__(self, *modules: Any, input_names: str | Sequence[str] = "input") -> None:
        super().__init__(input_names, input_names)
        before = self.input_names
        for name, module in _numbered(modules):
            self.add_module(name, module, before)
            before = self.output_names = [name]


class ModuleList(Module, MutableSequence[Module]):
    """Modules in a list, named by their places."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: Any) -> Any:
        chosen = list(self._modules.values())[index]
        return ModuleList(chosen) if isinstance(index, slice) else chosen

    def __setitem__(self, index: Any, value: Any) -> None:
        self._renumber(lambda modules: modules.__setitem__(index, value))

    def __delitem__(self, index: Any) -> None:
        self._renumber(lambda modules: modules.__delitem__(index))

    def insert(self, index: int, value: Module) -> None:
        """Puts a module before the one at `index`."""
        self._renumber(lambda modules: modules.insert(index, value))

    def _renumber(self, change: Any) -> None:
        modules = list(self._modules.values())
        change(modules)
        self._modules = {str(i): module for i, module in enumerate(modules)}


class ModuleDict(Module, MutableMapping[str, Module]):
    """Modules by name."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        self.update(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self._modules[name] = module

    def __delitem__(self, name: str) -> None:
        del self._modules[name]


class Parameter(Module):
    """A module that holds one tensor, `data`; without `trainable` as a buffer."""

    def __init__(self, param: Any, trainable: bool = True) -> None:
        super().__init__()
        if not isinstance(param, torch.Tensor | CrypTensor):
            raise RefusedAssertion(f"a parameter is a tensor, not {type(param).__name__}")
        tensor = param.detach() if isinstance(param, torch.Tensor) else param
        (self.register_parameter if trainable else self.register_buffer)("data", tensor)
        self.encrypted = isinstance(param, CrypTensor)

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` computes its gradient."""
        return bool(self.data.requires_grad)

    def forward(self, input: Any = None) -> Any:
        """Returns the tensor, whatever the input is."""
        return self.data


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _numbered(modules: Sequence[Any]) -> Iterator[tuple[str, Module]]:
    if len(modules) == 1 and isinstance(modules[0], list | tuple):
        modules = modules[0]
    for i, module in enumerate(modules):
        yield from module.items() if isinstance(module, Mapping) else [(str(i), module)]
