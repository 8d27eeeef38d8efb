"""Sessions: of one party among several machines, or of all parties on this one."""

from .deploy.network_session import connect
from .launch.local_run import preprocess, run
from .session import Session

__all__ = ["Session", "connect", "preprocess", "run"]
