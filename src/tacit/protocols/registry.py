"""Protocols by name."""

from __future__ import annotations

import torch

from ..config import Config
from ..crypto import KeyRing
from ..errors import ConfigError
from ..ring import RING32, RING64
from ..transport import Mesh
from .base import Protocol
from .cleartext import Cleartext
from .context import Context
from .guarantees import NOTHING, Promise
from .replicated.protocol import Replicated
from .reveals import Openings
from .trio import Trio

# Each protocol, and how many parties it has.
PROTOCOLS: dict[str, tuple[type[Protocol], range]] = {
    "trio": (Trio, range(3, 4)),
    "replicated": (Replicated, range(3, 4)),
    "cleartext": (Cleartext, range(1, 1000)),
}


def promise_of(protocol: str) -> Promise:
    """What a protocol promises, by its name."""
    return NOTHING if protocol == "none" else PROTOCOLS[protocol][0].promise


def check_parties(config: Config, parties: int, *, local: bool) -> None:
    """Refuses a number of parties, or a network, that the protocol is not made for."""
    if any(rank >= parties for rank in config.reveals or ()):
        raise ConfigError(f"reveals={config.reveals}: the parties are 0 to {parties - 1}")
    if config.protocol == "none":
        return
    _, allowed = PROTOCOLS[config.protocol]
    if parties not in allowed:
        others = [name for name, (_, counts) in PROTOCOLS.items() if parties in counts]
        raise ConfigError(
            f"parties={parties}: protocol={config.protocol!r} has {allowed.start} parties; "
            f"for {parties} there are {', '.join(map(repr, [*others, 'none']))}"
        )
    if config.protocol == "cleartext" and not local:
        raise ConfigError(
            "protocol='cleartext' shows every value to every party: it runs in one process only, "
            "transport='threads'; choose another protocol for a network"
        )


def make_protocol(
    config: Config,
    mesh: Mesh,
    keys: KeyRing,
    *,
    product_device: torch.device | None = None,
    openings: Openings | None = None,
) -> Protocol | None:
    """The protocol of a session at this party, or None if it asks for none.

    Products are computed on `product_device`, if given; all else where the mesh puts it.
    `openings` admits, and records, what is revealed.
    """
    if config.protocol == "none":
        return None
    kind, _ = PROTOCOLS[config.protocol]
    ring = RING32 if config.ring == 32 else RING64
    context = Context(
        mesh,
        keys,
        ring,
        cipher=config.cipher,
        product_device=product_device,
        memory_limit=config.memory_limit,
        openings=openings,
    )
    return kind(context, exact=config.truncation == "exact")
