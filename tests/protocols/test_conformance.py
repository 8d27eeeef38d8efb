"""Every protocol passes the conformance suite that is shipped as `tacit.testing`."""

from __future__ import annotations

import pytest

from tacit.errors import ConfigError, PartyFailed
from tacit.protocols import Protocol
from tacit.protocols.registry import PROTOCOLS
from tacit.testing import CHECKS, ProtocolSuite, blocks, division

# A new protocol adds a line: its name, the number of parties, and whether it may use a network.
CANDIDATES = [
    ("trio", 3, True),
    ("replicated", 3, True),
    ("cleartext", 3, False),
    ("cleartext", 1, False),
]
LOCAL = [(name, parties) for name, parties, _ in CANDIDATES if name in PROTOCOLS]
NETWORKED = [name for name, _, networked in CANDIDATES if networked and name in PROTOCOLS]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize(("protocol", "parties"), LOCAL)
def test_threads(protocol, parties, ring, check):
    suite = ProtocolSuite(protocol, ring=ring, parties=parties)
    assert suite.run(check) == [check]


@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize(("protocol", "parties"), LOCAL)
def test_probabilistic_truncation(protocol, parties, ring):
    """What divides, on values for which the division hardly ever fails."""
    suite = ProtocolSuite(protocol, ring=ring, parties=parties, truncation="probabilistic")
    groups = [*division.CHECKS, *blocks.CHECKS]
    names = [check.__name__.removeprefix("check_") for check in groups]
    names += [name for name in CHECKS if name.endswith("_of_quotients") and name not in names]
    assert suite.run(*names) == names


@pytest.mark.parametrize(
    ("protocol", "ring"), [(name, ring) for name, ring in zip(NETWORKED, (64, 32), strict=True)]
)
def test_processes(protocol, ring):
    """Over TCP with TLS, each party in a process of its own; all but what loops over widths."""
    suite = ProtocolSuite(protocol, ring=ring, transport="processes")
    names = [name for name in CHECKS if name not in ("signs_of_every_width", "equality")]
    assert suite.run(*names) == names


def test_a_wrong_protocol_does_not_conform(monkeypatch):
    monkeypatch.setattr(Protocol, "neg", lambda self, x: x)
    with pytest.raises(PartyFailed, match="elements are wrong"):
        ProtocolSuite("trio").run("sums")


def test_an_unknown_check_is_refused():
    with pytest.raises(PartyFailed, match="no check is called nonsense") as caught:
        ProtocolSuite("trio").run("nonsense")
    assert isinstance(caught.value.__cause__, ConfigError)


def test_every_protocol_is_tested():
    assert {name for name, _, _ in CANDIDATES} == set(PROTOCOLS)
