"""`.safetensors`: tensors by name."""

from __future__ import annotations

from pathlib import Path

from .contents import Contents, Options, package, plain


def read_safetensors(path: Path, options: Options) -> Contents:
    """The tensors by name. The package checks that the header describes the file to the byte."""
    safetensors = package("safetensors", "safetensors")
    tensors = {}
    with safetensors.safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 (it is no dict)
            options.budget.take(file.get_slice(name).get_shape())
            tensors[name] = plain(file.get_tensor(name).clone())
    return Contents("dict", tensors)
