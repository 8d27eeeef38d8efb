"""Limits, links and networks."""

from __future__ import annotations

import time

import pytest

from tacit.errors import ConfigError
from tacit.transport import PROFILES, Identity, Limits, Link, network
from tacit.transport.shaping import Wire


def test_a_network_by_name_by_link_and_by_pair() -> None:
    assert network("wan").between(0, 1) == PROFILES["wan"]
    assert network(None).between(0, 1) == Link()
    assert network(Link(1.0)).between(1, 0) == Link(1.0)
    assert network({"latency": 0.5}).between(0, 2).latency == 0.5
    mixed = network({"default": "25gbit", (0, 1): "wan", "1-2": {"bandwidth": 1e6}})
    assert mixed.between(1, 0) == PROFILES["wan"]
    assert mixed.between(2, 1) == Link(bandwidth=1e6)
    assert mixed.between(0, 2) == PROFILES["25gbit"]
    assert network(mixed) is mixed


@pytest.mark.parametrize("bad", ["moon", {"speed": 3}, {(0, 0): "25gbit"}, {"0-x": "25gbit"}, 7])
def test_a_network_that_is_none_is_a_config_error(bad: object) -> None:
    with pytest.raises(ConfigError, match="network"):
        network(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [{"latency": -1.0}, {"bandwidth": 0.0}])
def test_a_link_that_cannot_be(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="latency is 0 or more"):
        Link(**bad)


@pytest.mark.parametrize("field", ["deadline", "connect_deadline", "max_message_bytes"])
def test_limits_are_positive(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        Limits(**{field: 0})


def test_a_busy_wire_delays_what_comes_next() -> None:
    wire = Wire(Link(latency=1.0, bandwidth=8e6))
    now = wire.stamp()
    first, second = wire.arrival((now, 1_000_000)), wire.arrival((now, 500_000))
    assert first - now == pytest.approx(2e9, rel=1e-6)
    assert second - first == pytest.approx(0.5e9, rel=1e-6)
    assert Wire(Link()).stamp() == 0


def test_a_stamp_of_the_future_delays_nobody() -> None:
    wire = Wire(Link(latency=1.0))
    assert wire.arrival((1 << 63, 100)) - time.monotonic_ns() < 1.1e9


def test_the_private_key_is_never_shown() -> None:
    assert "secret" not in repr(Identity(b"certificate", b"secret key", ()))
