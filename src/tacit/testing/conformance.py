"""The conformance suite: what every protocol must do, over any transport.

    from tacit.testing import ProtocolSuite

    ProtocolSuite("trio", ring=32, transport="processes").run()

runs every check at every party and raises `PartyFailed` with the first difference. A check is a
function of a session: it computes with the protocol and compares the results with plain integers.
All values are public. Register a new protocol under its name; then these lines are its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import ConfigError, PartyFailed
from ..registry import PROTOCOLS
from ..runtime import Session, run
from . import (
    bits,
    comparison,
    division,
    inputs,
    linear,
    parallel_blocks,
    products,
    roles,
    shapes,
)

Check = Callable[[Session], None]
GROUPS = (inputs, linear, shapes, products, division, comparison, bits, parallel_blocks, roles)


def _named() -> dict[str, Check]:
    checks: list[Check] = [check for group in GROUPS for check in group.CHECKS]
    return {check.__name__.removeprefix("check_"): check for check in checks}


# Every check by its name.
CHECKS = MappingProxyType(_named())


def run_checks(session: Session, names: Sequence[str] = ()) -> list[str]:
    """Runs the named checks, or all, at this party; returns their names."""
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise ConfigError(
            f"no check is called {', '.join(unknown)}", remedy="see tacit.testing.CHECKS"
        )
    chosen = list(names or CHECKS)
    for name in chosen:
        CHECKS[name](session)
    return chosen


@dataclass(frozen=True)
class ProtocolSuite:
    """All checks for one protocol in one setting. `parties`: by default 3, or the least allowed."""

    protocol: str
    ring: int = 64
    truncation: str = "exact"
    transport: str = "threads"
    parties: int | None = None
    dealer: str | None = None

    def outcomes(self, *names: str) -> dict[str, PartyFailed | None]:
        """Returns the error of each of the named checks, or of all; None for one that passed.

        All run in one session. If that fails, each runs in a session of its own, because the
        parties may be at different operations after a failure.
        """
        chosen = names or tuple(CHECKS)
        if self._failure(*chosen) is None:
            return dict.fromkeys(chosen)
        return {name: self._failure(name) for name in chosen}

    def _failure(self, *names: str) -> PartyFailed | None:
        try:
            self.run(*names)
        except PartyFailed as error:
            return error
        return None

    def run(self, *names: str) -> list[str]:
        """Runs the named checks, or all, in one session; returns their names.

        Raises PartyFailed at the first check that fails.
        """
        [passed, *_] = run(
            run_checks,
            names,
            parties=self.parties or PROTOCOLS[self.protocol].default_parties,
            protocol=self.protocol,
            transport=self.transport,
            ring=self.ring,
            fraction_bits=8,
            truncation=self.truncation,
            dealer=self.dealer,
        )
        return list(passed)
