"""New tensors, copies and conversions."""

from . import copy, create

__all__ = ["copy", "create"]
