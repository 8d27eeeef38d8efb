"""Reads ONNX files: a checked model of a known version, with all of its constants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import ConfigError, DataRejected, Error

FIRST_OPSET, LAST_OPSET = 11, 21
STANDARD_DOMAINS = ("", "ai.onnx")
SUBJECT = "from_onnx"
INTEGERS = (6, 7, 9)  # int32, int64 and bool in TensorProto.DataType


@dataclass(frozen=True)
class ModelFile:
    """A graph with its constants by name, and the inferred shapes: None for a free dimension."""

    graph: Any
    opset: int
    constants: dict[str, np.ndarray[Any, Any]]
    shapes: dict[str, tuple[int | None, ...]] = field(default_factory=dict)


def onnx_package(name: str = "onnx") -> ModuleType:
    """Returns the package onnx or a module of it.

    Raises ConfigError where it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            "the package onnx is not installed",
            remedy="pip install 'tacit[onnx]'",
            subject=SUBJECT,
        ) from error


def read_model(source: Any) -> Any:
    """Returns what a path, bytes or a ModelProto holds, checked, with local functions inlined.

    Raises DataRejected for what is not a valid model.
    """
    onnx = onnx_package()
    with rejecting(source):
        if isinstance(source, onnx.ModelProto):
            model = checked = source
        elif isinstance(source, bytes | bytearray | memoryview):
            model = checked = onnx.load_model_from_string(bytes(source))
        else:
            model, checked = onnx.load(os.fspath(source)), os.fspath(source)
        onnx.checker.check_model(checked)
        return onnx.inliner.inline_local_functions(model) if model.functions else model


@contextmanager
def rejecting(source: Any) -> Iterator[None]:
    """Turns what onnx, protobuf and numpy raise on a bad file into DataRejected."""
    try:
        yield
    except Error:
        raise
    except Exception as error:  # of any class: these packages have no common one
        named = f" ({os.fspath(source)})" if isinstance(source, str | Path) else ""
        raise DataRejected(
            f"this is no valid ONNX model{named}",
            cause=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}",
            remedy="export it again; weights in a second file have to lie beside the first",
            subject=SUBJECT,
        ) from error


def opened(source: Any) -> ModelFile:
    """Returns a model of an opset that is known, with constants and shapes.

    Raises DataRejected for bad files, ConfigError for other opsets.
    """
    model = read_model(source)
    opset = _opset(model)
    with rejecting(source):
        constants = {one.name: dense_array(one) for one in model.graph.initializer}
        constants |= {one.values.name: sparse_array(one) for one in model.graph.sparse_initializer}
        return ModelFile(model.graph, opset, constants, _shapes(model))


def _opset(model: Any) -> int:
    versions = [one.version for one in model.opset_import if one.domain in STANDARD_DOMAINS]
    opset = max(versions, default=0)
    if not FIRST_OPSET <= opset <= LAST_OPSET:
        raise ConfigError(
            f"the model is of opset {opset}",
            limit=f"opsets {FIRST_OPSET} to {LAST_OPSET} can be read",
            remedy=f"export it with opset_version={LAST_OPSET - 1}, or use onnx.version_converter",
            subject=SUBJECT,
        )
    return opset


def dense_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Returns a constant of the file; half precision becomes single."""
    return _single(onnx_package("onnx.numpy_helper").to_array(tensor))


def sparse_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Returns a sparse constant of the file with its zeros."""
    helper = onnx_package("onnx.numpy_helper")
    values, places = helper.to_array(tensor.values), helper.to_array(tensor.indices)
    full = np.zeros(tuple(tensor.dims), values.dtype)
    if places.ndim == 2:
        full[tuple(places.T)] = values
    else:
        full.reshape(-1)[places] = values
    return _single(full)


def _single(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    is_half = array.dtype == np.float16 or array.dtype.name == "bfloat16"
    return array.astype(np.float32) if is_half else array


def all_nodes(graph: Any) -> Iterator[Any]:
    """Yields the nodes of a graph, and those of the graphs inside of them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from all_nodes(inner)


def _shapes(model: Any) -> dict[str, tuple[int | None, ...]]:
    """Returns what onnx infers of everything but weights, so that all parties infer the same."""
    onnx = onnx_package()
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    kept = [one for one in model.graph.initializer if one.data_type in INTEGERS]
    typed = [one for one in model.graph.initializer if one.data_type not in INTEGERS]
    forms = [(one.name, one.data_type, one.dims) for one in typed]
    forms += [(x.values.name, x.values.data_type, x.dims) for x in model.graph.sparse_initializer]
    for name in ("initializer", "sparse_initializer"):
        bare.graph.ClearField(name)
    bare.graph.initializer.extend(kept)
    known = {one.name for one in bare.graph.input}
    make = onnx.helper.make_tensor_value_info
    bare.graph.input.extend(make(*form) for form in forms if form[0] not in known)
    noted: set[str] = set()
    while True:
        try:
            graph = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
        except (RuntimeError, ValueError):  # what it cannot infer is looked up at run time
            graph = bare.graph
        declared = (*graph.input, *graph.value_info, *graph.output)
        found = {
            one.name: _sizes(one) for one in declared if one.type.tensor_type.HasField("shape")
        }
        kinds = {one.name: one.type.tensor_type.elem_type for one in declared}
        ranks = {name: rank for name, rank in _reshaped(graph, found) if name not in noted}
        if not ranks:
            return found
        noted |= ranks.keys()
        for node in graph.node:
            if node.output[0] in ranks:
                name, kind = node.output[0], kinds.get(node.input[0], 0)
                bare.graph.value_info.append(make(name, kind, [None] * ranks[name]))


def _sizes(value: Any) -> tuple[int | None, ...]:
    """Returns a declared shape; some exporters write free dimensions as 0 or -1."""
    dims = value.type.tensor_type.shape.dim
    return tuple(one.dim_value if one.dim_value > 0 else None for one in dims)


def _reshaped(graph: Any, shapes: dict[str, tuple[int | None, ...]]) -> Iterator[tuple[str, int]]:
    """Yields results of Reshape whose rank is known, by the length of the shape, but not noted."""
    for node in graph.node:
        if node.op_type == "Reshape" and node.output[0] not in shapes:
            [length] = shapes.get(node.input[1], (None,))
            if length is not None:
                yield node.output[0], length
