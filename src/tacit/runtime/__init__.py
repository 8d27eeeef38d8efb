"""Sessions, and running all parties of a program on this machine."""

from .run import run
from .session import Session

__all__ = ["Session", "run"]
