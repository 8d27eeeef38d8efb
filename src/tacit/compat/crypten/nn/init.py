"""`torch.nn.init` on plain tensors and on CrypTensors.

A CrypTensor gets the numbers that torch draws at party 0, as its secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..cryptensor import CrypTensor, MPCTensor

__all__ = [
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


def _filling(name: str) -> Callable[..., Any]:
    function = getattr(torch.nn.init, name)

    def fill(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(tensor, CrypTensor):
            return function(tensor, *args, **kwargs)
        plain = function(torch.empty(tensor.shape), *args, **kwargs)
        return tensor.set(MPCTensor(plain))

    fill.__name__ = name
    fill.__doc__ = f"Fills a tensor, plain or secret, as `torch.nn.init.{name}` does."
    return fill


constant_ = _filling("constant_")
dirac_ = _filling("dirac_")
eye_ = _filling("eye_")
kaiming_normal_ = _filling("kaiming_normal_")
kaiming_uniform_ = _filling("kaiming_uniform_")
normal_ = _filling("normal_")
ones_ = _filling("ones_")
orthogonal_ = _filling("orthogonal_")
sparse_ = _filling("sparse_")
trunc_normal_ = _filling("trunc_normal_")
uniform_ = _filling("uniform_")
xavier_normal_ = _filling("xavier_normal_")
xavier_uniform_ = _filling("xavier_uniform_")
zeros_ = _filling("zeros_")
