"""Channels between parties: authenticated, encrypted, in order, and never waiting for ever."""

from .channel import Channel
from .connect import connect
from .devices import CPU, fetched
from .frames import Spec
from .hello import Hello
from .limits import Limits
from .meeting import Meeting
from .memory import memory_meshes
from .mesh import Mesh
from .shaping import PROFILES, Link, Network, NetworkSetting, network
from .stats import Cost, Stats, Tally
from .tcp import Listener, listen
from .tls import Identity
from .turns import NO_TURN, Turn

__all__ = [
    "CPU",
    "NO_TURN",
    "PROFILES",
    "Channel",
    "Cost",
    "Hello",
    "Identity",
    "Limits",
    "Link",
    "Listener",
    "Meeting",
    "Mesh",
    "Network",
    "NetworkSetting",
    "Spec",
    "Stats",
    "Tally",
    "Turn",
    "connect",
    "fetched",
    "listen",
    "memory_meshes",
    "network",
]
