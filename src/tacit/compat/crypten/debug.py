"""`crypten.debug`: logs and a debugger for programs of several parties."""

from __future__ import annotations

import logging
import pdb

from .config import cfg

__all__ = ["configure_logging", "debug_mode", "pdb"]


def configure_logging(level: int = logging.INFO) -> None:
    """Logs from this level on, with the time, the process and the thread of each party."""
    form = "[%(asctime)s][%(process)d %(threadName)s][%(levelname)s] %(message)s"
    logging.basicConfig(level=level, format=form, force=True)


def debug_mode() -> bool:
    """Returns whether `cfg.debug.debug_mode` is set: then a party alone checks every range."""
    found: bool = cfg.debug.debug_mode
    return found
