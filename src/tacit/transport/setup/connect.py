"""A mesh over TCP: every party listens on one port and dials all parties of lower rank.

Each pair has a connection for each direction, and stripes (NOTE [stripes]), all dialled by the
higher rank. Parties
start in any order; rubbish and connections that say nothing are turned away and delay nobody.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import closing

from ...errors import ConfigError, UnsupportedError
from ..limits import SYSTEM_CLOCK, Clock, Limits
from ..mesh import Mesh
from ..shaping import NetworkSetting
from ..shaping import network as build_network
from ..wire.pinned_identity import Identity
from ..wire.socket_channel import SocketPoller
from ..wire.stripes import default_stripes
from ..wire.tcp import Arrivals, Dial
from ..wire.tcp import dial as dial_tcp
from ..wire.tls import Credentials
from .handshake import Hello
from .rendezvous import Rendezvous


def connect(
    hello: Hello,
    listener: Arrivals,
    addresses: Sequence[tuple[str, int]],
    *,
    identity: Identity | None,
    insecure_plain_tcp: bool = False,
    limits: Limits | None = None,
    network: NetworkSetting = None,
    clock: Clock = SYSTEM_CLOCK,
    dial: Dial = dial_tcp,
) -> Mesh:
    """Connect to all parties, whose addresses are given by rank; closes the listener in the end.

    Without an identity there is no encryption and anybody can pose as a party: that must be asked
    for, and is for experiments on one machine. A party without a network, such as an enclave, gives
    its own listener and `dial`.
    """
    limits = limits or Limits()
    with closing(listener):
        credentials = _credentials(hello, addresses, identity, insecure_plain_tcp)
        net = build_network(network)
        stripes = limits.stripes or (default_stripes() if dial is dial_tcp else 1)
        rendezvous = Rendezvous(hello, addresses, credentials, limits, net, clock, dial, stripes)
        channels = rendezvous.connect(listener)
    return Mesh(hello.rank, channels, SocketPoller(channels), limits, clock)


def _credentials(
    hello: Hello,
    addresses: Sequence[tuple[str, int]],
    identity: Identity | None,
    insecure_plain_tcp: bool,
) -> Credentials | None:
    if sys.byteorder != "little":
        raise UnsupportedError("tensors travel as they lie in memory: little-endian machines only")
    if len(addresses) != hello.parties:
        raise ConfigError(f"{len(addresses)} addresses for {hello.parties} parties")
    if identity is None and not insecure_plain_tcp:
        raise ConfigError("an identity is required unless insecure_plain_tcp=True")
    if identity is None:
        warnings.warn("parties talk over plain TCP: insecure", UserWarning, stacklevel=3)
        return None
    if len(identity.peers) != hello.parties:
        raise ConfigError(f"{len(identity.peers)} certificates for {hello.parties} parties")
    return Credentials(identity)
