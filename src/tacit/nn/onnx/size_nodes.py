"""Finds which integers of a graph follow from shapes and public constants alone.

They are the same in every call with inputs of these shapes, which a function that
`session.repeated` records relies on. Integers of other tensors may differ.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

from . import onnx_functions as functions


def mark_sizes(graph: fx.Graph, constants: Iterable[fx.Node]) -> None:
    """Makes nodes that read such integers call `sizes` or `counted_sizes`."""
    fixed = set(constants)
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if node.target in (functions.shape, functions.size):
            fixed.add(node)
        elif node.all_input_nodes and fixed.issuperset(node.all_input_nodes):
            fixed.add(node)
            node.target = functions.OF_SIZES.get(node.target, node.target)
