"""Channels between parties: authenticated, encrypted, in order, and never waiting for ever."""

from .channel import Channel
from .frames import Spec
from .hello import Hello
from .limits import Limits
from .memory import memory_meshes
from .mesh import Mesh
from .shaping import PROFILES, Link, network
from .stats import Cost, Stats

__all__ = [
    "PROFILES",
    "Channel",
    "Cost",
    "Hello",
    "Limits",
    "Link",
    "Mesh",
    "Spec",
    "Stats",
    "memory_meshes",
    "network",
]
