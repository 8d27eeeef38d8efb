"""Where a member of a run listens, and who it is."""

from __future__ import annotations

from typing import NamedTuple

LOOPBACK = "127.0.0.1"
Address = tuple[str, int]
NOWHERE = ("", 0)  # of one that is not dialled


class Endpoint(NamedTuple):
    """The address and the certificate of a party or a worker."""

    address: Address
    certificate: bytes
