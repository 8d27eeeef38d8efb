"""Models of other libraries as modules."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import nn

from .... import nn as tacit_nn
from ....errors import UnsupportedError
from .torch_module import ConvertedModel


def from_pytorch(pytorch_model: nn.Module, dummy_input: Any = None) -> ConvertedModel:
    """Returns a module that computes what a torch model computes, with a copy of its tensors.

    The model's code runs as it is, on secrets once the module is encrypted; so nothing is traced,
    and dummy_input is not used.
    """
    return ConvertedModel(pytorch_model)


def from_onnx(onnx_string_or_file: Any) -> ConvertedModel:
    """Returns a module that computes what an ONNX model computes; see `tacit.nn.from_onnx`.

    onnx_string_or_file: an open file, its bytes, or a path.
    """
    source = onnx_string_or_file
    if hasattr(source, "seek"):
        source.seek(0)
        source = source.read()
    return ConvertedModel(tacit_nn.from_onnx(source))


def from_tensorflow(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises UnsupportedError: models of TensorFlow come through ONNX."""
    raise UnsupportedError(
        "models of TensorFlow are not read", remedy="export the model to ONNX, and use from_onnx"
    )
