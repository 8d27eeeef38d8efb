"""Every registered protocol passes the conformance suite that is shipped as `tacit.testing`."""

from __future__ import annotations

from functools import cache

import pytest

from tacit.errors import ConfigError, PartyFailed
from tacit.protocols import Protocol
from tacit.registry import PROTOCOLS
from tacit.testing import CHECKS, ProtocolSuite, division, parallel_blocks

COMPUTING = [info for info in PROTOCOLS.values() if info.computes_on_shares]
# Every protocol with its fewest and its default number of parties.
COUNTS = [(i.name, n) for i in COMPUTING for n in sorted({i.parties.start, i.default_parties})]
THREE = pytest.mark.full("two parties of beaver here, five in test_beaver.py")
LOCAL = [pytest.param(*one, marks=[THREE] if one == ("beaver", 3) else []) for one in COUNTS]
# In processes; beaver is for comparisons, and sends its messages as additive does.
NETWORKED = [info.name for info in COMPUTING if info.network and info.name != "beaver"]
RINGS = pytest.mark.parametrize("ring", [64, 32])
DIVIDING = [
    check.__name__.removeprefix("check_") for check in (*division.CHECKS, *parallel_blocks.CHECKS)
]
DIVIDING += [name for name in CHECKS if name.endswith("_of_quotients") and name not in DIVIDING]
LOOPING = ("signs_of_every_width", "equality")  # over all widths: too many rounds for a network


@cache
def outcomes(suite: ProtocolSuite, names: tuple[str, ...]) -> dict[str, PartyFailed | None]:
    """The outcomes of all checks in one session, which the tests below read one by one."""
    return suite.outcomes(*names)


def passes(suite: ProtocolSuite, check: str, names: tuple[str, ...] = tuple(CHECKS)) -> None:
    """Raises what the check raised."""
    if (error := outcomes(suite, names)[check]) is not None:
        raise error


@pytest.mark.parametrize("check", CHECKS)
@RINGS
@pytest.mark.parametrize(("protocol", "parties"), LOCAL)
def test_threads(protocol, parties, ring, check):
    passes(ProtocolSuite(protocol, ring=ring, parties=parties), check)


@pytest.mark.parametrize("check", DIVIDING)
@RINGS
@pytest.mark.parametrize(("protocol", "parties"), LOCAL)
def test_probabilistic_truncation(protocol, parties, ring, check):
    """All checks that divide, on values for which the division hardly ever fails."""
    suite = ProtocolSuite(protocol, ring=ring, parties=parties, truncation="probabilistic")
    passes(suite, check, tuple(DIVIDING))


OTHERS = pytest.mark.full("test_processes of the first protocol, test_threads of all")


@pytest.mark.parametrize("check", [name for name in CHECKS if name not in LOOPING])
@pytest.mark.parametrize(
    "protocol", [NETWORKED[0], *(pytest.param(name, marks=OTHERS) for name in NETWORKED[1:])]
)
def test_processes(protocol, check):
    """Over TCP with TLS, each party in a process of its own; the ring alternates."""
    suite = ProtocolSuite(
        protocol, ring=(64, 32)[NETWORKED.index(protocol) % 2], transport="processes"
    )
    passes(suite, check, tuple(name for name in CHECKS if name not in LOOPING))


def test_a_wrong_protocol_does_not_conform(monkeypatch):
    monkeypatch.setattr(Protocol, "neg", lambda self, x: x)
    found = ProtocolSuite("trio").outcomes("matmul", "sums")
    assert found["matmul"] is None
    assert "elements are wrong" in str(found["sums"])
    with pytest.raises(PartyFailed, match="elements are wrong"):
        ProtocolSuite("trio").run("sums")


def test_an_unknown_check_is_refused():
    with pytest.raises(PartyFailed, match="no check is called nonsense") as caught:
        ProtocolSuite("trio").run("nonsense")
    assert isinstance(caught.value.__cause__, ConfigError)
