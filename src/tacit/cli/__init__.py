"""The command line: `tacit`, or `python -m tacit`."""

from .app import app, main

__all__ = ["app", "main"]
