"""The log of calls that records of public values are made of."""

from __future__ import annotations

from ..ring.reference.call_log import CallLog
from .backend import load_native


def load_call_log() -> type[CallLog]:
    """Returns the class of logs, compiled if possible; their digests are the same."""
    compiled: type[CallLog] = getattr(load_native(), "CallLog", CallLog)
    return compiled
