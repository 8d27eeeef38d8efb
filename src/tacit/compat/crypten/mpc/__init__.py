"""`crypten.mpc`: the class of tensors, the kinds of sharing, and programs of several parties."""

from __future__ import annotations

from ..config import cfg
from ..ptype import ptype
from . import primitives
from .context import run_multiprocess
from .mpc import MPCTensor

arithmetic, binary = ptype.arithmetic, ptype.binary

__all__ = [
    "MPCTensor",
    "arithmetic",
    "binary",
    "primitives",
    "ptype",
    "run_multiprocess",
    "ttp_required",
]


def ttp_required() -> bool:
    """Returns whether a dealer that is no party helps in the next program: provider "TTP"."""
    found: bool = cfg["mpc.provider"] == "TTP"
    return found
