"""Sessions: of one party among several machines, or of all parties on this one."""

from .connect import connect
from .run import run
from .session import Session

__all__ = ["Session", "connect", "run"]
