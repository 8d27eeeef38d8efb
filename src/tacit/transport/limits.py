"""How long a party waits and how much it accepts."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on every wait (seconds) and every message (bytes) of a mesh."""

    deadline: float = 30.0  # a peer that is dead, frozen or cut off is noticed by then
    patience: float = 3600.0  # for a peer that is alive, as its heartbeats show, and computes
    connect_deadline: float = 30.0  # all peers are connected by then
    max_message_bytes: int = 1 << 32  # tensors of one message
    max_setup_bytes: int = 1 << 20  # one message of `exchange_bytes`
    max_queued_bytes: int = 1 << 28  # waiting to be sent to one peer; then sends block

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ConfigError(f"{field.name} is {value}: it must be greater than zero")
