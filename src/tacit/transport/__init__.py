"""Channels between parties: authenticated, encrypted, in order, and never waiting for ever."""

from .channel import Channel, Poller
from .devices import CPU, to_host
from .fixed_round import FixedRound
from .limits import SYSTEM_CLOCK, Clock, Limits
from .local.barrier import Barrier
from .local.interpreter_lock import NO_LOCK, InterpreterLock
from .local.memory import memory_meshes
from .mesh import NOWHERE, Mesh
from .open_round import OpenRound
from .setup.connect import connect
from .setup.handshake import Hello
from .shaping import PROFILES, Link, Network, NetworkSetting, network
from .stats import Cost, Stats, Tally
from .tiles import Sendable, Tiled, computed
from .wire.frames import SHORT_TENSOR_BYTES, Spec
from .wire.pinned_identity import Identity
from .wire.tcp import Listener, listen

__all__ = [
    "CPU",
    "NOWHERE",
    "NO_LOCK",
    "PROFILES",
    "SHORT_TENSOR_BYTES",
    "SYSTEM_CLOCK",
    "Barrier",
    "Channel",
    "Clock",
    "Cost",
    "FixedRound",
    "Hello",
    "Identity",
    "InterpreterLock",
    "Limits",
    "Link",
    "Listener",
    "Mesh",
    "Network",
    "NetworkSetting",
    "OpenRound",
    "Poller",
    "Sendable",
    "Spec",
    "Stats",
    "Tally",
    "Tiled",
    "computed",
    "connect",
    "listen",
    "memory_meshes",
    "network",
    "to_host",
]
