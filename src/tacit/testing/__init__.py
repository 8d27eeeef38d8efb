"""Checks for those who write a protocol (`conformance`) or a transport (`channels`).

`tamper` runs a program with a corrupted party.
"""

from .channels import CHANNEL_CHECKS, ChannelSuite
from .clock import ManualClock, until
from .conformance import CHECKS, ProtocolSuite, run_checks
from .manipulations import DELIVERY, WORDS, Manipulation, Sent, Tap, manipulations_of
from .tamper import Corruption, Ending, Program, messages_of, run_corrupted

__all__ = [
    "CHANNEL_CHECKS",
    "CHECKS",
    "DELIVERY",
    "WORDS",
    "ChannelSuite",
    "Corruption",
    "Ending",
    "Manipulation",
    "ManualClock",
    "Program",
    "ProtocolSuite",
    "Sent",
    "Tap",
    "manipulations_of",
    "messages_of",
    "run_checks",
    "run_corrupted",
    "until",
]
