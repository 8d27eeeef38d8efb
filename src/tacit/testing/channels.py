"""The channel suite: what every transport must do, whatever its channels are made of.

    from tacit.testing import ChannelSuite

    ChannelSuite(memory_meshes).run()

`connect(parties, *, limits, network, clock)` returns the connected meshes of all parties, by rank.
A check runs a program at each of them, in a thread each, and compares what they return or raise.
The clock stands still unless a check advances it: no run ends by a timeout unless a check wants it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from ..errors import ConfigError
from ..transport import Limits, Mesh
from . import exchanges, failures
from .clock import ManualClock
from .exchanges import Start

Connect = Callable[..., Sequence[Mesh]]
Check = Callable[[Start], None]
HANG_SECONDS = 120.0


def _named() -> dict[str, Check]:
    checks: list[Check] = [*exchanges.CHECKS, *failures.CHECKS]
    return {check.__name__.removeprefix("check_"): check for check in checks}


# Every check by its name.
CHANNEL_CHECKS = MappingProxyType(_named())


@dataclass(frozen=True)
class ChannelSuite:
    """All checks for one kind of channel; `connect` makes the meshes of all parties."""

    connect: Connect

    def run(self, *names: str) -> list[str]:
        """Runs the named checks, or all; returns their names. The first difference raises."""
        unknown = [name for name in names if name not in CHANNEL_CHECKS]
        if unknown:
            raise ConfigError(
                f"no check is called {', '.join(unknown)}", limit=", ".join(CHANNEL_CHECKS)
            )
        chosen = list(names or CHANNEL_CHECKS)
        for name in chosen:
            CHANNEL_CHECKS[name](self.start)
        return chosen

    def start(
        self,
        program: Callable[[Mesh], Any],
        parties: int = 2,
        *,
        limits: Limits | None = None,
        network: Any = None,
        clock: ManualClock | None = None,
    ) -> list[Any]:
        """Returns what `program(mesh)` returns at each party, or the exception that it raises."""
        meshes = self.connect(
            parties, limits=limits or Limits(), network=network, clock=clock or ManualClock()
        )
        return in_threads([partial(_inside, mesh, program) for mesh in meshes])


def _inside(mesh: Mesh, program: Callable[[Mesh], Any]) -> Any:
    with mesh:
        return program(mesh)


def in_threads(programs: Sequence[Callable[[], Any]]) -> list[Any]:
    """Runs the programs at the same time; returns what each returns or the exception it raises."""
    results: list[Any] = [None] * len(programs)

    def run(rank: int) -> None:
        try:
            results[rank] = programs[rank]()
        except BaseException as error:
            results[rank] = error

    threads = [
        threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(len(programs))
    ]
    for thread in threads:
        thread.start()
    for rank, thread in enumerate(threads):
        thread.join(HANG_SECONDS)
        assert not thread.is_alive(), f"party {rank} hangs"
    return results
