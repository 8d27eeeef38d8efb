"""Writes a torch.fx graph for the nodes of an ONNX graph, one by one."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from .model_file import ModelFile, onnx_package
from .operator_table import RULES, Call, Constant, Refused, refuse_unknown, unsupported
from .size_nodes import mark_sizes
from .weights import constant_of, is_weight, public_names


class GraphBuilder:
    """Holds what is known of every name in the file: a constant, or the fx node that computes it.

    Nodes whose inputs are all known are computed at once, by the reference evaluator of onnx.
    """

    def __init__(self, file: ModelFile, public: Collection[str]) -> None:
        self.file, self.public = file, public_names(file.graph, public)
        self.graph = fx.Graph()
        self.parts: dict[str, Any] = {}
        self.values: dict[str, Constant | fx.Node | None] = {"": None}
        self.refused: list[str] = []
        self._weights: dict[Constant, Tensor] = {}
        self._nodes: dict[Constant, fx.Node] = {}

    def module(self, name: str) -> fx.GraphModule:
        """Returns the model. Raises UnsupportedModule with all that has no torch form."""
        refuse_unknown(self.file.graph)
        for key, array in self.file.constants.items():
            weight = key not in self.public and is_weight(array, key, in_program=False)
            self.values[key] = Constant(array, key, is_weight=weight)
        for one in self.file.graph.input:
            if one.name not in self.values:
                self.values[one.name] = self.graph.placeholder(identifier(one.name))
        for node in self.file.graph.node:
            self.add(node)
        if self.refused:
            raise unsupported(self.refused)
        results = [self._result(one.name) for one in self.file.graph.output]
        self.graph.output(results[0] if len(results) == 1 else tuple(results))
        self.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
        public = [node for constant, node in self._nodes.items() if not constant.is_weight]
        mark_sizes(self.graph, public)
        self.graph.lint()
        return fx.GraphModule(self.parts, self.graph, name).train(False)

    def _result(self, name: str) -> fx.Node | None:
        found = self.values[name]
        return self.constant_node(found) if isinstance(found, Constant) else found

    def add(self, node: Any) -> None:
        """Adds the outputs of one node to the known values; notes a form that is refused."""
        inputs = [self.values[name] for name in node.input]
        call = Call(self, node, inputs)
        try:
            outputs = self._constants(node, call) or RULES[node.op_type](call)
        except Refused as error:
            self.refused.append(f"{node.op_type} {node.name!r} with {error}")
            outputs = tuple(self.graph.call_function(torch.empty, (0,)) for _ in node.output)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        self.values |= dict(zip(node.output, outputs, strict=False))
        self.values[""] = None

    def _constants(self, node: Any, call: Call) -> tuple[Constant, ...] | None:
        """Returns the outputs of a node that are known already; None if they are not."""
        if node.op_type == "Constant":
            array, name = constant_of(node), node.output[0]
            if array is None:
                raise Refused("text")
            weight = name not in self.public and is_weight(array, name, in_program=True)
            return (Constant(array, name, is_weight=weight),)
        if node.op_type == "Shape":
            shape = call.shape(0)
            known = shape is not None and None not in shape
            return (_shape(call, shape, node.output[0]),) if known and shape is not None else None
        given = [x for x in call.inputs if x is not None]
        known_inputs = [x for x in given if isinstance(x, Constant)]
        if node.op_type.startswith("Random") or len(known_inputs) < len(given) or not given:
            return None
        weight = any(x.is_weight for x in known_inputs)
        names = [name for name in node.input if name]
        arrays = dict(zip(names, (x.array for x in known_inputs), strict=True))
        results = self._evaluated(node, arrays)
        return tuple(
            Constant(array, name, is_weight=weight)
            for name, array in zip(node.output, results, strict=False)
        )

    def _evaluated(self, node: Any, inputs: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
        helper = onnx_package("onnx.helper")
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        needed = [helper.make_empty_tensor_value_info(name) for name in inputs]
        graph = helper.make_graph([node], "constants", needed, outputs)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.file.opset)], ir_version=10
        )
        made = onnx_package("onnx.reference").ReferenceEvaluator(model).run(None, inputs)
        return [np.asarray(one) for one in made]

    def weight(self, constant: Constant) -> Tensor:
        """Returns a parameter for a constant, the same for each use of it."""
        if constant not in self._weights:
            self._weights[constant] = _parameter(constant)
        return self._weights[constant]

    def constant_node(self, constant: Constant) -> fx.Node:
        """Returns the fx node of a constant: an attribute of the model, or a public number."""
        if constant not in self._nodes:
            self._nodes[constant] = self._constant_node(constant)
        return self._nodes[constant]

    def _constant_node(self, constant: Constant) -> fx.Node:
        is_float = np.issubdtype(constant.array.dtype, np.floating)
        if not constant.is_weight and (is_float or constant.array.ndim == 0):
            options: dict[str, Any] = {"dtype": constant.tensor.dtype}
            return self.graph.call_function(torch.tensor, (constant.array.tolist(),), options)
        name = self._free(identifier(constant.name))
        self.parts[name] = self.weight(constant) if constant.is_weight else constant.tensor
        return self.graph.get_attr(name)

    def call_layer(self, call: Call, module: nn.Module, args: tuple[Any, ...]) -> fx.Node:
        named = [x for x in call.input_names[1:] if x in self.file.constants]
        owner = named[0].rpartition(".")[0] if named else ""
        name = self._free(identifier(owner or f"{call.op}_{call.outputs[0]}"))
        self.parts[name] = module
        return self.graph.call_module(name, args)

    def _free(self, name: str) -> str:
        found, number = name, 1
        while found in self.parts:
            found, number = f"{name}_{number}", number + 1
        return found


def _parameter(constant: Constant) -> Tensor:
    tensor = constant.tensor
    return nn.Parameter(tensor) if tensor.is_floating_point() else tensor


def _shape(call: Call, shape: tuple[int | None, ...], name: str) -> Constant:
    part = shape[call.attribute("start", 0) : call.attribute("end", len(shape))]
    return Constant(np.array(part, np.int64), name, is_weight=False)


def identifier(name: str) -> str:
    """Returns a name of the file as a name of Python."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return found if found[:1].isalpha() else f"value_{found}"
