"""Where a party listens, as people write it."""

from __future__ import annotations

import re

from ..errors import ConfigError

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([A-Za-z0-9_.-]+)):([0-9]{1,5})")


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "10.0.0.1:7000", "host.example:7000" or "[::1]:7000"."""
    found = _ADDRESS.fullmatch(text) if isinstance(text, str) and len(text) <= 300 else None
    port = int(found[3]) if found else 0
    if found is None or not 0 < port < 1 << 16:
        raise ConfigError(
            f"address={text!r}: allowed are a host and a port from 1 to 65535, as in "
            "'10.0.0.1:7000', 'alice.example:7000' or '[::1]:7000'"
        )
    return found[1] or found[2], port


def write_address(host: str, port: int) -> str:
    """The text of a host and a port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
