"""Modules on secrets: sharing, revealing, validating, saving them."""

from .sharing import reveal, share

__all__ = ["reveal", "share"]
