"""The table of ONNX operators, and what a rule in it sees of a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from ...errors import UnsupportedModule
from . import onnx_functions as functions
from .model_file import STANDARD_DOMAINS, SUBJECT, all_nodes, onnx_package

if TYPE_CHECKING:
    from .graph_builder import GraphBuilder

Rule = Callable[["Call"], Any]
RULES: dict[str, Rule] = {}
CONTROL_FLOW = ("If", "Loop", "Scan")
REMEDY = (
    "export the model without them (a constant branch goes away with torch.onnx.export or onnxsim)"
    ", or compute that part outside of the file"
)


class Refused(Exception):
    """This form of an operator has no torch form here; says why."""


def converts(*names: str) -> Callable[[Rule], Rule]:
    """Registers the rule of these operators."""

    def register(rule: Rule) -> Rule:
        for name in names:
            assert name not in RULES, name
            RULES[name] = rule
        return rule

    return register


class Constant:
    """A value that is known when the file is read. A weight becomes secret once it is shared."""

    def __init__(self, array: np.ndarray[Any, Any], name: str, *, is_weight: bool) -> None:
        self.array, self.name, self.is_weight = array, name, is_weight

    @property
    def tensor(self) -> Tensor:
        return torch.from_numpy(np.array(self.array))


class Call:
    """One node: its attributes, its inputs, and means to write its torch form.

    A rule returns the fx node of the result, or a tuple of them.
    """

    def __init__(
        self, builder: GraphBuilder, node: Any, inputs: Sequence[Constant | fx.Node | None]
    ) -> None:
        helper = onnx_package("onnx.helper")
        self.builder, self.op, self.inputs = builder, node.op_type, list(inputs)
        self.opset = builder.file.opset
        self.outputs = [name for name in node.output if name]
        self.input_names = list(node.input)
        self.attributes = {x.name: helper.get_attribute_value(x) for x in node.attribute}

    def attribute(self, name: str, default: Any) -> Any:
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def refuse_attribute(self, name: str, *allowed: Any) -> None:
        """Raises Refused if an attribute has another value than these; the first is the default."""
        value = self.attribute(name, allowed[0])
        if value not in allowed:
            raise Refused(f"{name}={value!r}")

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def constant(self, index: int) -> Constant | None:
        """Returns an input that is known when the file is read; None for others."""
        found = self.inputs[index] if self.has(index) else None
        return found if isinstance(found, Constant) else None

    def weight(self, index: int, what: str) -> Tensor:
        """Returns the values of a weight. Raises Refused if they are computed at run time."""
        found = self.constant(index)
        if found is None:
            raise Refused(f"{what} that is computed at run time")
        return self.builder.weight(found)

    def public(self, index: int, what: str) -> list[Any] | int | float | bool:
        """Returns the numbers of an input, which are public.

        Raises Refused if they are weights, or computed at run time.
        """
        found = self.constant(index)
        if found is None:
            raise Refused(f"{what} that is computed at run time")
        if found.is_weight:
            raise Refused(f"{what} ({found.name}) that is a weight, and would become public")
        return found.array.tolist()

    def integers(self, index: int) -> Any:
        """Returns integers of an input: a list, or the fx node that computes one."""
        found = self.inputs[index]
        if isinstance(found, Constant):
            return found.array.reshape(-1).tolist()
        return self.emit(functions.integers, found)

    def integers_of(self, name: str, index: int) -> list[int] | None:
        """Returns integers that are an attribute or, in later opsets, an input; None if absent."""
        if name in self.attributes:
            return list(self.attributes[name])
        if not self.has(index):
            return None
        found = self.constant(index)
        if found is None:
            raise Refused(f"{name} that are computed at run time")
        return found.array.reshape(-1).tolist()

    def number(self, name: str, index: int, default: Any) -> Any:
        """Returns a number that is an attribute or, in later opsets, an input."""
        if self.has(index):
            value = self.public(index, name)
            return value[0] if isinstance(value, list) else value
        return self.attribute(name, default)

    def operand(self, index: int) -> Any:
        """Returns an input of an elementwise operation: an fx node, or a public number."""
        found = self.constant(index)
        if found is None or found.is_weight or found.array.size != 1:
            return self.tensor(index)
        others = [self.shape(i) for i in range(len(self.inputs)) if i != index]
        rank = max((len(shape) for shape in others if shape is not None), default=0)
        return found.array.item() if found.array.ndim <= rank else self.tensor(index)

    def tensor(self, index: int) -> fx.Node:
        """Returns the fx node of an input."""
        found = self.inputs[index]
        if found is None:
            raise Refused(f"no input {index}")
        return self.builder.constant_node(found) if isinstance(found, Constant) else found

    def tensors(self) -> list[fx.Node]:
        return [self.tensor(index) for index in range(len(self.inputs))]

    def shape(self, index: int) -> tuple[int | None, ...] | None:
        """Returns the inferred shape of an input; None if even the rank is unknown."""
        found = self.constant(index)
        if found is not None:
            return tuple(found.array.shape)
        return self.builder.file.shapes.get(self.input_names[index])

    def rank(self, index: int = 0) -> int:
        found = self.shape(index)
        if found is None:
            raise Refused("an input of unknown rank")
        return len(found)

    def emit(self, function: Callable[..., Any], *args: Any, **options: Any) -> fx.Node:
        """Returns the fx node of a call of this function."""
        return self.builder.graph.call_function(function, args, options)

    def layer(self, module: nn.Module, *args: Any) -> fx.Node:
        """Returns the fx node of a call of a module, which becomes a part of the model."""
        return self.builder.call_layer(self, module, args)

    def only_first_output(self) -> None:
        if len(self.outputs) > 1:
            raise Refused("more than its first output")


def refuse_unknown(graph: Any) -> None:
    """Raises UnsupportedModule with all operators of a graph that have no rule."""
    names = [
        node.op_type if node.domain in STANDARD_DOMAINS else f"{node.domain}.{node.op_type}"
        for node in all_nodes(graph)
    ]
    missing = {name: n for name, n in Counter(names).items() if name not in {*RULES, "Constant"}}
    if missing:
        raise unsupported(
            f"{name} (control flow)" if name in CONTROL_FLOW else f"{name} ({count} nodes)"
            for name, count in sorted(missing.items())
        )


def unsupported(refused: Any) -> UnsupportedModule:
    """Returns the error that lists what has no torch form."""
    return UnsupportedModule(
        f"the model has operators without a torch form: {', '.join(refused)}",
        limit=f"there are {', '.join(sorted(RULES))}",
        remedy=REMEDY,
        subject=SUBJECT,
    )
