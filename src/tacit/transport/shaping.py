"""Links with a latency and a bandwidth, so that costs over a network show on one machine.

The sender stamps each message with the time at which it was sent; the receiver waits until its own
link would have delivered it. Stamps are readings of the monotonic clock, so the parties of such an
experiment share a machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import ConfigError


@dataclass(frozen=True)
class Link:
    """One direction between two parties: seconds of latency, bits per second."""

    latency: float = 0.0
    bandwidth: float = float("inf")

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ConfigError(
                f"a link of {self.latency} s and {self.bandwidth} bit/s cannot be",
                limit="latency is 0 or more, bandwidth more than 0",
            )


LOOPBACK = Link()
PROFILES: Mapping[str, Link] = {
    "loopback": LOOPBACK,
    "25gbit": Link(latency=0.3e-3, bandwidth=25e9),
    "10gbit": Link(latency=0.3e-3, bandwidth=10e9),
    "1gbit": Link(latency=1e-3, bandwidth=1e9),
    "wan": Link(latency=40e-3, bandwidth=100e6),
}


@dataclass(frozen=True)
class Network:
    """The link of every pair of parties: one default, and pairs that differ."""

    default: Link = LOOPBACK
    pairs: Mapping[frozenset[int], Link] = field(default_factory=dict)

    def between(self, first: int, second: int) -> Link:
        return self.pairs.get(frozenset((first, second)), self.default)

    def described(self) -> str:
        """Returns the default link in words; "" if it delays nothing."""
        link = self.default
        others = ", and pairs that differ" if self.pairs else ""
        if link == LOOPBACK:
            return others.removeprefix(", and ")
        name = next((f"{name}: " for name, one in PROFILES.items() if one == link), "")
        rate = f", {link.bandwidth / 1e6:g} Mbit/s" if link.bandwidth < float("inf") else ""
        return f"{name}{link.latency * 1e3:g} ms{rate}{others}"


NetworkSetting: TypeAlias = str | Link | Network | Mapping[Any, Any] | None


def network(setting: NetworkSetting) -> Network:
    """The network that a setting describes.

    A profile's name, a `Link`, a mapping with `latency` and `bandwidth`, or a mapping from pairs of
    ranks, `(0, 1)` or `"0-1"`, to any of these, with `"default"` for the other pairs.
    """
    if isinstance(setting, Network):
        return setting
    if isinstance(setting, Mapping) and not setting.keys() & {"latency", "bandwidth"}:
        pairs = {_pair(key): _link(value) for key, value in setting.items() if key != "default"}
        return Network(_link(setting.get("default")), pairs)
    return Network(_link(setting))


def _link(setting: object) -> Link:
    if setting is None:
        return LOOPBACK
    if isinstance(setting, Link):
        return setting
    if isinstance(setting, str) and setting in PROFILES:
        return PROFILES[setting]
    if isinstance(setting, Mapping) and setting.keys() <= {"latency", "bandwidth"}:
        return Link(**setting)
    raise ConfigError(
        f"network {setting!r} is not one of {', '.join(PROFILES)}, "
        "nor a mapping with latency (s) and bandwidth (bit/s)"
    )


def _pair(key: object) -> frozenset[int]:
    ranks = key.split("-") if isinstance(key, str) else key
    try:
        pair = frozenset(int(rank) for rank in ranks)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pair = frozenset()
    if len(pair) != 2:
        raise ConfigError(f"network pair {key!r} is not two ranks, such as (0, 1) or '0-1'")
    return pair


class Wire:
    """One direction of a link over time: what it is still busy with delays what comes next."""

    def __init__(self, link: Link) -> None:
        self._latency = int(link.latency * 1e9)
        self._ns_per_byte = 8e9 / link.bandwidth
        self._free_at = 0
        self.shaped = link != LOOPBACK

    def stamp(self) -> int:
        """What a sender writes on its message: the time (monotonic, ns), if it matters."""
        return time.monotonic_ns() if self.shaped else 0

    def arrival(self, *parts: tuple[int, int]) -> int:
        """When (monotonic, ns) a message that is here already would have come over the link.

        parts: the stamp of each part of it, and its bytes. A sender cannot make it later than this
        party's own link does: its stamps are in the past.
        """
        for sent_at, size in parts:
            start = max(min(sent_at, time.monotonic_ns()), self._free_at)
            self._free_at = start + int(size * self._ns_per_byte)
        return self._free_at + self._latency
