"""The conformance suite: what every protocol must do, over any transport.

    from tacit.testing import ProtocolSuite

    ProtocolSuite("trio", ring=32, transport="processes").run()

runs every check at every party and raises `PartyFailed` with the first difference. A check is a
function of a session; it computes with the protocol and compares with plain integers. All values
are public. A new protocol has to be registered under its name; then these lines are its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import ConfigError
from ..runtime import Session, run
from . import bits, blocks, comparing, division, inputs, linear, products, roles, shapes

Check = Callable[[Session], None]
GROUPS = (inputs, linear, shapes, products, division, comparing, bits, blocks, roles)


def _named() -> dict[str, Check]:
    checks: list[Check] = [check for group in GROUPS for check in group.CHECKS]
    return {check.__name__.removeprefix("check_"): check for check in checks}


# Every check by its name.
CHECKS = MappingProxyType(_named())


def run_checks(session: Session, names: Sequence[str] = ()) -> list[str]:
    """The names of the checks that passed at this party: those named, or all."""
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise ConfigError(f"no check is called {', '.join(unknown)}: see tacit.testing.CHECKS")
    chosen = list(names or CHECKS)
    for name in chosen:
        CHECKS[name](session)
    return chosen


@dataclass(frozen=True)
class ProtocolSuite:
    """All checks for one protocol in one setting."""

    protocol: str
    ring: int = 64
    truncation: str = "exact"
    transport: str = "threads"
    parties: int = 3

    def run(self, *names: str) -> list[str]:
        """Runs the named checks, or all, at all parties; gives the names of those that passed."""
        [passed, *_] = run(
            run_checks,
            names,
            parties=self.parties,
            protocol=self.protocol,
            transport=self.transport,
            ring=self.ring,
            fraction_bits=8,
            truncation=self.truncation,
        )
        return list(passed)
