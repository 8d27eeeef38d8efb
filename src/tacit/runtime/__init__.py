"""Sessions: of one party among several machines, or of all parties on this one."""

from .deploy.network_session import connect
from .launch.local_run import preprocess, run
from .rehearsal.rehearse import check
from .session import Session

__all__ = ["Session", "check", "connect", "preprocess", "run"]
