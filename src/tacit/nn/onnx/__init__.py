"""Models from ONNX files as torch modules."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import nn

from . import (
    elementwise_rules,
    norm_rules,
    pooling_rules,
    product_rules,
    recurrent_rules,
    reduction_rules,
    shape_rules,
)
from .graph_builder import GraphBuilder, identifier
from .model_file import opened, rejecting
from .weights import onnx_structure

__all__ = ["from_onnx", "onnx_structure"]

# Importing a family registers its rules.
FAMILIES = (
    elementwise_rules,
    norm_rules,
    pooling_rules,
    product_rules,
    recurrent_rules,
    reduction_rules,
    shape_rules,
)


def from_onnx(source: Any, *, public: Collection[str] = ()) -> nn.Module:
    """Returns the model of an ONNX file as a torch module in eval mode.

    `source`: a path, the bytes of a file, or an `onnx.ModelProto`, of opset 11 to 21. The module is
    a `torch.fx.GraphModule`: `print(module.code)` shows what it computes. Its arguments are the
    inputs of the file in their order, and it returns the output, or a tuple of them.

    Weights become parameters and buffers, which `session.share` makes secret: all numbers with a
    fraction, but for single ones that torch's exporters write for numbers of the program, such as
    a scale. The graph, its shapes and integers are public, and so are the constants that `public`
    names. The other parties build the module from `onnx_structure` of the file. Half precision
    becomes single.

    Raises UnsupportedModule with all operators that have no torch form, and for control flow;
    DataRejected for bad files; ConfigError for other opsets, or without the package onnx.
    """
    file = opened(source)
    builder = GraphBuilder(file, public)
    with rejecting(source):
        return builder.module(identifier(file.graph.name))
