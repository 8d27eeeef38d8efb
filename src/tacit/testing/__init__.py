"""Checks that every protocol passes, for those who write one: see `conformance`."""

from .conformance import CHECKS, ProtocolSuite, run_checks

__all__ = ["CHECKS", "ProtocolSuite", "run_checks"]
