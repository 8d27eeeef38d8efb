"""Data that a program has in memory: frames, arrays, tensors, lists, numbers, and dicts of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...errors import ConfigError
from ...nn.sharable import as_tensor
from ...tensor import SecretTensor
from .arrow_table import read_frame
from .contents import Contents, FileRejected, Options, single, to_sharable_dtype


def read_given(data: Any, options: Options) -> Contents:
    """Returns the contents of data in memory, as those of a file. A frame shows an Arrow stream."""
    if hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return read_frame(data, options)
    if options.is_of_a_table:
        raise FileRejected("columns=, without= and missing= are for tables")
    if isinstance(data, Mapping):
        return Contents("dict", {str(name): _tensor(data[name], repr(name)) for name in data})
    return single(_tensor(data, "the value"))


def _tensor(value: Any, name: str) -> Tensor:
    try:
        tensor = as_tensor(value, name)
    except ConfigError:  # whose text has the dtype, which tells the lengths of texts
        raise FileRejected(f"{name} is no tensor, array, list of numbers or number") from None
    if isinstance(tensor, SecretTensor):
        raise FileRejected(f"{name} is secret already")
    if tensor.is_meta:
        raise FileRejected(f"{name} has no values (meta device)")
    return to_sharable_dtype(tensor.detach().cpu())
