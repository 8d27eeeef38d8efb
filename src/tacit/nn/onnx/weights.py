"""Which constants of an ONNX file are weights, and so become secret when the module is shared.

Weights are all numbers with a fraction except single ones that an exporter wrote as constants of
the program, such as the root of a width. Bytes are weights too: quantised ones. Other integers and
truth values are shapes, axes and positions, which the graph needs in public.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from ...errors import ConfigError
from .model_file import SUBJECT, dense_array, onnx_package, read_model, sparse_array
from .operator_table import refuse_unknown

# Names that torch's two exporters give to numbers in the program: never to a parameter.
PROGRAM_NUMBER = re.compile(r"(val_\d+|(.*/)?Constant(_\d+)?_output_0)")


# Inputs that torch takes as numbers: bounds, exponents, scales of a resize.
NUMBERS = {"Clip": (1, 2), "Dropout": (1,), "Pad": (2,), "Pow": (1,), "Resize": (1, 2)}


def public_names(graph: Any, public: Collection[str]) -> set[str]:
    """Returns the names of constants that stay public: those given, and those of `NUMBERS`.

    Raises ConfigError for a name that no constant has.
    """
    known = {one.name for one in graph.initializer}
    known |= {one.values.name for one in graph.sparse_initializer}
    known |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    if isinstance(public, str):
        raise ConfigError(f"public={public!r}", remedy="give a list of names", subject=SUBJECT)
    if unknown := sorted(set(public) - known):
        raise ConfigError(
            f"public= names {', '.join(unknown)}",
            limit="the names of constants of the file",
            remedy="look them up in model.graph.initializer",
            subject=SUBJECT,
        )
    numbers = {
        node.input[place]
        for node in graph.node
        for place in NUMBERS.get(node.op_type, ())
        if place < len(node.input)
    }
    return numbers | set(public)


def is_weight(array: np.ndarray[Any, Any], name: str, *, in_program: bool) -> bool:
    """Returns whether a constant is a weight. `in_program`: it comes from a Constant node."""
    if array.dtype in (np.int8, np.uint8):
        return True
    is_number = array.size == 1 and (in_program or PROGRAM_NUMBER.fullmatch(name) is not None)
    return np.issubdtype(array.dtype, np.floating) and not is_number


def onnx_structure(source: Any, *, public: Collection[str] = ()) -> bytes:
    """Returns an ONNX model without its weights, which its owner gives to the other parties.

    `source` and `public` as in `from_onnx`. All weights are zero, and take no room; the graph with
    its names, shapes and integers stays. Everything else of the file is left out.

    Raises UnsupportedModule for operators that `from_onnx` does not know, whose attributes or inner
    graphs might hold weights; DataRejected for what is not a valid model.
    """
    onnx = onnx_package()
    model = read_model(source)
    graph, kept = model.graph, _Weights(onnx)
    refuse_unknown(graph)
    shown = public_names(graph, public)
    for sparse in model.graph.sparse_initializer:
        kept.add_zeros(sparse_array(sparse), sparse.values.name)
    for one in graph.initializer:
        array = dense_array(one)
        if one.name not in shown and is_weight(array, one.name, in_program=False):
            kept.add_zeros(array, one.name)
        else:
            kept.dense.append(one)
    nodes = [node for node in graph.node if not kept.took_weight(node, shown)]
    made = onnx.helper.make_graph(nodes, graph.name, graph.input, graph.output, kept.dense)
    made.value_info.extend(graph.value_info)
    made.sparse_initializer.extend(kept.sparse)
    for node in made.node:
        node.doc_string = ""
        node.metadata_props.clear()
    bare = onnx.helper.make_model(made, opset_imports=model.opset_import)
    bare.ir_version = model.ir_version
    structure: bytes = bare.SerializeToString()
    return structure


class _Weights:
    """The constants of a file whose weights are zero: sparse ones, and single numbers."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.dense: list[Any] = []
        self.sparse: list[Any] = []

    def add_zeros(self, array: np.ndarray[Any, Any], name: str) -> None:
        from_array = self.onnx.numpy_helper.from_array
        if array.ndim == 0:
            self.dense.append(from_array(np.zeros_like(array), name))
        else:
            values = from_array(np.zeros(0, array.dtype), name)
            places = from_array(np.zeros(0, np.int64), f"{name}_indices")
            self.sparse.append(self.onnx.helper.make_sparse_tensor(values, places, array.shape))

    def took_weight(self, node: Any, public: Collection[str]) -> bool:
        """Returns whether this is a Constant node of a weight, which it adds."""
        array = constant_of(node) if node.op_type == "Constant" else None
        if array is None or node.output[0] in public:
            return False
        if not is_weight(array, node.output[0], in_program=True):
            return False
        self.add_zeros(array, node.output[0])
        return True


def constant_of(node: Any) -> np.ndarray[Any, Any] | None:
    """Returns the value of a Constant node; None for text."""
    helper = onnx_package("onnx.helper")
    [attribute] = node.attribute
    value = helper.get_attribute_value(attribute)
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    kinds |= {"value_int": np.int64, "value_ints": np.int64}
    if attribute.name == "value":
        return dense_array(value)
    if attribute.name == "sparse_value":
        return sparse_array(value)
    return np.array(value, kinds[attribute.name]) if attribute.name in kinds else None
