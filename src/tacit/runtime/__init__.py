"""Sessions: of one party among several machines, or of all parties on this one."""

from .deploy.connect import connect
from .launch.run import run
from .session import Session

__all__ = ["Session", "connect", "run"]
