"""Checks for those who write a protocol (`conformance`) or a transport (`channels`)."""

from .channels import CHANNEL_CHECKS, ChannelSuite
from .clock import ManualClock, until
from .conformance import CHECKS, ProtocolSuite, run_checks

__all__ = [
    "CHANNEL_CHECKS",
    "CHECKS",
    "ChannelSuite",
    "ManualClock",
    "ProtocolSuite",
    "run_checks",
    "until",
]
