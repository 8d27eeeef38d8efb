"""The end of the capture of a CUDA graph.

torch tells of a graph without work in a warning at the place of the call. In this module that is
an error from its import on: a block that catches warnings changes the filters of all threads, and
parties may be threads. So torch's function is called here, and not by its method of the same name
in another module; that does nothing else for a capture whose inputs are not watched.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

_EMPTY = "The CUDA Graph is empty"
warnings.filterwarnings("error", _EMPTY, UserWarning, __name__)


def has_work_at_its_end(graph: Any) -> bool:
    """Ends a capture; returns whether there is work in it."""
    try:
        with _disable_current_modes():
            super(torch.cuda.CUDAGraph, graph).capture_end()
    except Exception as said:
        if _EMPTY not in str(said):
            raise
        return False
    return True
