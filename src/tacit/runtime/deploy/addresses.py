"""Hosts and ports as text."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from ...errors import ConfigError

_LABEL = "[A-Za-z0-9_-]{1,63}"
_ADDRESS = re.compile(rf"(?:\[([0-9A-Za-z:.%]+)\]|({_LABEL}(?:\.{_LABEL})*)):([0-9]{{1,5}})")
MOST_ADDRESS = 250  # characters


def parse_address(text: Any) -> tuple[str, int]:
    """Returns host and port of "10.0.0.1:7000", "host.example:7000" or "[::1]:7000"."""
    short = isinstance(text, str) and len(text) <= MOST_ADDRESS
    found = _ADDRESS.fullmatch(text) if short else None
    port = int(found[3]) if found else 0
    if found is None or not 0 < port < 1 << 16 or not _is_ipv6(found[1]):
        raise ConfigError(
            f"address={text!r}",
            limit="allowed are a host and a port from 1 to 65535, as in "
            "'10.0.0.1:7000', 'alice.example:7000' or '[::1]:7000'",
        )
    return found[1] or found[2], port


def write_address(host: str, port: int) -> str:
    """Returns a host and a port as text, the inverse of `parse_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_ipv6(host: str | None) -> bool:
    """Whether the text in brackets, if there is one, is an IPv6 address."""
    try:
        return host is None or bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False
