"""What every protocol refuses alike, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConfigError
from ..ring import Ring
from .share import Bool


def check_shift(ring: Ring, t: int) -> None:
    """Refuses a division that leaves no bit of the ring."""
    if t > ring.bits - 2:
        raise ConfigError(
            f"a pending division by 2^{t}: in a ring of {ring.bits} bits it is by "
            f"2^{ring.bits - 2} at most"
        )


def check_bits(bits: Sequence[Bool]) -> None:
    """Refuses a sum over no bits, which would have no shape."""
    if not bits:
        raise ConfigError("inject_sums: a sum over no bits has no shape: give at least one")
