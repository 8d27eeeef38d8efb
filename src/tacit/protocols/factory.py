"""Makes the protocol that a configuration names."""

from __future__ import annotations

import torch

from ..config import NO_DEALER, Config
from ..crypto import Group, KeyRing, default_groups
from ..errors import ConfigError
from ..registry import PROTOCOLS
from ..ring import RING32, RING64
from ..transport import Mesh
from .base import Protocol
from .beaver.dealer_free import DealerFree
from .context import Context
from .reveals import RevealPolicy


def check_parties(config: Config, parties: int, *, local: bool) -> None:
    """Raises ConfigError for a number of parties, or a network, that the protocol does not allow.

    local: all parties are threads of one process.
    """
    if any(rank >= parties for rank in config.reveals or ()):
        raise ConfigError(f"reveals={config.reveals}", limit=f"the parties are 0 to {parties - 1}")
    info = PROTOCOLS[config.protocol]
    if parties not in info.parties:
        others = [repr(other.name) for other in PROTOCOLS.values() if parties in other.parties]
        raise ConfigError(
            f"parties={parties}",
            limit=f"protocol={info.name!r} has {info.counts} parties",
            remedy=f"for {parties} there are {', '.join(others)}",
        )
    if not info.network and not local:
        raise ConfigError(
            f"protocol={info.name!r} shows every value to every party",
            limit="it runs in one process only, transport='threads'",
            remedy="choose another protocol for a network",
        )


def key_groups(config: Config, members: int, *, connected_dealer: bool = True) -> list[Group]:
    """Returns the groups of members that need a key: among them, all parties without a dealer.

    connected_dealer: whether a dealer that is no party is one of the members.
    """
    parties = members - config.helpers * connected_dealer
    return [*default_groups(members), tuple(range(parties))]


def make_protocol(
    config: Config,
    mesh: Mesh,
    keys: KeyRing,
    *,
    product_device: torch.device | None = None,
    reveal_policy: RevealPolicy | None = None,
) -> Protocol | None:
    """Returns the protocol of a session at this party, or None for `protocol="none"`.

    Products are computed on `product_device`, if given; everything else on the mesh's device.
    `reveal_policy` admits, and records, what is revealed.
    """
    make = DealerFree if config.dealer == NO_DEALER else PROTOCOLS[config.protocol].load()
    if make is None:
        return None
    context = Context(
        mesh,
        keys,
        RING32 if config.ring == 32 else RING64,
        cipher=config.cipher,
        product_device=product_device,
        memory_limit=config.memory_limit,
        reveal_policy=reveal_policy,
    )
    own = {} if config.enclaves is None else {"enclaves": config.enclaves}
    protocol: Protocol = make(context, exact=config.truncation == "exact", **own)
    return protocol
