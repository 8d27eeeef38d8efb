"""Small ONNX models, and what onnxruntime says to them."""

from __future__ import annotations

import numpy as np
import onnxruntime
import torch
from onnx import helper, numpy_helper


def value(name, array, free=False):
    """The declaration of an input; `free`: of any size in its first dimension."""
    shape = list(array.shape)
    if free and shape:
        shape[0] = "free"
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def model(nodes, inputs, constants=(), outputs=("y",), opset=17, free=False):
    """A model of nodes, whose inputs and constants are dicts of arrays."""
    graph = helper.make_graph(
        nodes,
        "small",
        [value(name, array, free) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in dict(constants).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    answers = runtime_answers(made, inputs)
    for output, answer in zip(made.graph.output, answers, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(answer.numpy().dtype)
        sizes = [f"{output.name}_{i}" for i in range(answer.dim())]
        output.CopyFrom(helper.make_tensor_value_info(output.name, kind, sizes))
    return made


def runtime_answers(made, inputs):
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        made if isinstance(made, str) else made.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    return [torch.from_numpy(np.array(x)) for x in session.run(None, inputs)]


def module_answers(module, inputs):
    """What a module computes, always as a list."""
    with torch.no_grad():
        found = module(*(torch.from_numpy(np.array(x)) for x in inputs.values()))
    return [found] if isinstance(found, torch.Tensor) else list(found)
