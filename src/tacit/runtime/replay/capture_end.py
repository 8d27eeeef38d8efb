"""The end of the capture of a CUDA graph.

torch tells of a graph without work in a warning. In this module that is an error from its import
on: a block that catches warnings changes the filters of all threads, and parties may be threads.
"""

from __future__ import annotations

import warnings
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

_EMPTY = "The CUDA Graph is empty"
warnings.filterwarnings("error", _EMPTY, UserWarning, __name__)


def has_work_at_its_end(graph: Any) -> bool:
    """Ends a capture; returns whether there is work in it."""
    try:
        with _disable_current_modes():
            graph.capture_end()
    except Exception as said:
        if _EMPTY not in str(said):
            raise
        return False
    return True
