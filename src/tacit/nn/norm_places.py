"""Which BatchNorms of a model read one layer only: by torch.fx's trace, or by one plain call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves

from ..kernels.dispatch_mode import DispatchMode
from .dry_run import call

_tracing = Lock()  # torch.fx replaces methods of all modules while it traces


class Tracer(fx.Tracer):
    """Traces a model down to the layers of these kinds, also to subclasses of them.

    Other threads of the process may call modules meanwhile, such as other parties: they are left
    alone.
    """

    def __init__(self, kinds: tuple[type, ...]) -> None:
        super().__init__()
        self.kinds, self._thread = kinds, get_ident()

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Any) -> Any:
        if get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self.kinds) or super().is_leaf_module(m, module_qualified_name)


def traced_pairs(
    model: nn.Module, layers: tuple[type, ...], norms: tuple[type, ...]
) -> dict[str, str] | None:
    """Returns the path of each norm with that of the layer that it alone reads, both called once.

    None for a model that torch.fx cannot trace.
    """
    try:
        with _tracing:
            graph = Tracer((*layers, *norms)).trace(model)
    except Exception:  # whatever the model's own code raises on fx's proxies
        return None
    calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
    pairs = {}
    for node in graph.nodes:
        source = node.args[0] if node.op == "call_module" and node.args else None
        if not isinstance(source, fx.Node) or source.op != "call_module":
            continue
        layer, norm = str(source.target), str(node.target)
        if calls[norm] == calls[layer] == 1 and len(source.users) == 1:
            pairs[norm] = layer
    return pairs


class Observation(DispatchMode):
    """What happened to the outputs of chosen layers in one plain call of a model.

    inputs: the first input of each layer and each norm. pairs: the path of each norm with that of
    the layer whose output is its input. calls: of each path. read: the layers whose output
    something else reads. Tensors are kept, so that no memory is used twice.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inputs: dict[str, Tensor] = {}
        self.pairs: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.read: set[str] = set()
        self._made: dict[int, tuple[str, Tensor]] = {}
        self._allowed: str | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.note_reads((args, kwargs))
        return func(*args, **(kwargs or {}))

    def note_reads(self, nest: Any) -> None:
        """Notes the layers whose outputs are among these tensors, or share memory with them."""
        for x in tree_leaves(nest):
            made = self._made.get(_memory(x)) if isinstance(x, Tensor) else None
            if made is not None and made[0] != self._allowed:
                self.read.add(made[0])

    def after_layer(self, path: str, inputs: Any, output: Any) -> None:
        """Notes the output of a layer."""
        self.calls[path] += 1
        self.inputs[path] = inputs[0]
        if isinstance(output, Tensor):
            self._made[_memory(output)] = path, output

    def before_norm(self, path: str, inputs: Any) -> None:
        """Notes the layer whose output this norm reads; the norm may read it."""
        self.calls[path] += 1
        self.inputs[path] = inputs[0]
        layer, output = self._made.get(_memory(inputs[0]), ("", None))
        if output is inputs[0]:
            self.pairs[path] = self._allowed = layer

    def after_norm(self) -> None:
        """Ends what `before_norm` allows."""
        self._allowed = None

    def lone_pairs(self) -> dict[str, str]:
        """Returns the pairs of which both are called once, and nothing else reads the layer."""
        return {
            norm: layer
            for norm, layer in self.pairs.items()
            if self.calls[norm] == self.calls[layer] == 1 and layer not in self.read
        }


def _memory(x: Tensor) -> int:
    return x.untyped_storage()._cdata


def observe(
    model: nn.Module, example: Any, layers: tuple[type, ...], norms: tuple[type, ...]
) -> Observation:
    """Returns what happens in one plain call on an example; only this one path is seen."""
    seen = Observation()
    with torch.no_grad(), _hooked(model, seen, layers, norms), seen:
        output = call(model, example)
    seen.note_reads(output)
    return seen


@contextmanager
def _hooked(
    model: nn.Module, seen: Observation, layers: tuple[type, ...], norms: tuple[type, ...]
) -> Iterator[None]:
    handles = []
    for path, part in model.named_modules():
        is_layer, is_norm = isinstance(part, layers), isinstance(part, norms)
        if is_layer:
            handles.append(part.register_forward_hook(_layer_hook(seen, path)))
        if is_norm:
            handles.append(part.register_forward_pre_hook(_norm_hook(seen, path)))
            handles.append(part.register_forward_hook(lambda *_: seen.after_norm()))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _layer_hook(seen: Observation, path: str) -> Any:
    return lambda _, inputs, output: seen.after_layer(path, inputs, output)


def _norm_hook(seen: Observation, path: str) -> Any:
    return lambda _, inputs: seen.before_norm(path, inputs)
