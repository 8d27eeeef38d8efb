"""The tables of protocols and transports, which settings, command line, documents and tests read.

They need neither torch nor the code that they name: an implementation is imported on first use.
`register_protocol` and `register_transport` are the only ways to add an entry; the entries of this
package are at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from .errors import ConfigError

MOST_PARTIES = 999


@dataclass(frozen=True, kw_only=True)
class Guarantees:
    """What a protocol guarantees, and against whom.

    colluding: how many parties may pool everything they see and still learn no secret; None: all
    but one. A member that is no party may pool with nobody.
    detects: whether a party that deviates from the protocol is detected; if not, it can make
    results wrong unnoticed.
    """

    colluding: int | None
    detects: bool = False

    @property
    def private(self) -> bool:
        """Whether any secret is hidden from any party."""
        return self.colluding != 0

    def colluding_of(self, parties: int) -> int:
        """Returns how many of so many parties may pool what they see."""
        return parties - 1 if self.colluding is None else self.colluding


NO_GUARANTEES = Guarantees(colluding=0)


@dataclass(frozen=True, kw_only=True)
class ProtocolInfo:
    """What is publicly known about a protocol.

    name: the value of `protocol=`. summary: one sentence. parties: how many parties it can have.
    implementation: its class, or "module:class" to import it on demand; None computes nothing.
    network: whether its parties may be on different machines, or in different processes.
    helpers: how many members a session has beyond its parties. helper: what such a member is: a
    dealer, which learns nothing, or an enclave, which computes on everything and tells nothing.
    """

    name: str
    summary: str
    parties: range
    guarantees: Guarantees
    implementation: str | type | None
    network: bool = True
    helpers: int = 0
    helper: str = "dealer"

    @property
    def computes_on_shares(self) -> bool:
        """Whether it has operations on ring elements; an enclave computes on numbers themselves."""
        return self.implementation is not None and self.helper != "enclave"

    @property
    def has_dealer(self) -> bool:
        """Whether a dealer that is no party helps."""
        return self.helpers > 0 and self.helper == "dealer"

    @property
    def default_parties(self) -> int:
        """The number of parties in tests and examples: 3 if the protocol allows it."""
        return 3 if 3 in self.parties else self.parties.start

    @property
    def counts(self) -> str:
        """The allowed numbers of parties, in words."""
        least, most = self.parties.start, self.parties.stop - 1
        if least == most:
            return str(least)
        return f"{least} or more" if most == MOST_PARTIES else f"{least} to {most}"

    def load(self) -> Any:
        """Returns the protocol's class, and imports its module if need be."""
        return _load(self.implementation)


@dataclass(frozen=True, kw_only=True)
class TransportInfo:
    """What is publicly known about a transport: how `tacit.run` starts the parties of a program.

    name: the value of `transport=`. summary: one sentence. launcher: a function
    `(program, *, places, config, limits, network)` that runs all parties and returns what each of
    them returns, by rank; or "module:function" to import it on demand.
    one_process: whether all parties are threads of the calling process.
    """

    name: str
    summary: str
    launcher: str | Callable[..., list[Any]]
    one_process: bool

    def load(self) -> Callable[..., list[Any]]:
        """Returns the launcher, and imports its module if need be."""
        launcher: Callable[..., list[Any]] = _load(self.launcher)
        return launcher


def _load(implementation: Any) -> Any:
    if not isinstance(implementation, str):
        return implementation
    module, _, name = implementation.partition(":")
    return getattr(import_module(module), name)


_protocols: dict[str, ProtocolInfo] = {}
PROTOCOLS: Mapping[str, ProtocolInfo] = MappingProxyType(_protocols)
_transports: dict[str, TransportInfo] = {}
TRANSPORTS: Mapping[str, TransportInfo] = MappingProxyType(_transports)


def register_protocol(
    name: str,
    implementation: str | type | None,
    *,
    summary: str,
    parties: range,
    guarantees: Guarantees,
    network: bool = True,
    helpers: int = 0,
    helper: str = "dealer",
) -> ProtocolInfo:
    """Adds a protocol, so that `protocol=name` selects it. Raises ConfigError for a used name."""
    if name in _protocols:
        raise ConfigError(f"protocol {name!r} is registered already", remedy="choose another name")
    info = ProtocolInfo(
        name=name,
        summary=summary,
        parties=parties,
        guarantees=guarantees,
        implementation=implementation,
        network=network,
        helpers=helpers,
        helper=helper,
    )
    _protocols[name] = info
    return info


def register_transport(
    name: str, launcher: str | Callable[..., list[Any]], *, summary: str, one_process: bool
) -> TransportInfo:
    """Adds a transport, so that `transport=name` selects it. Raises ConfigError for a used name."""
    if name in _transports:
        raise ConfigError(f"transport {name!r} is registered already", remedy="choose another name")
    info = TransportInfo(name=name, summary=summary, launcher=launcher, one_process=one_process)
    _transports[name] = info
    return info


register_protocol(
    "trio",
    "tacit.protocols.trio:Trio",
    summary="Masked evaluation by three parties: party 0 deals, parties 1 and 2 evaluate.",
    parties=range(3, 4),
    guarantees=Guarantees(colluding=1),
)
register_protocol(
    "replicated",
    "tacit.protocols.replicated.protocol:Replicated",
    summary="Replicated sharing: three equal parties, each of which lacks one part of a secret.",
    parties=range(3, 4),
    guarantees=Guarantees(colluding=1),
)
register_protocol(
    "replicated-malicious",
    "tacit.protocols.verified.protocol:ReplicatedMalicious",
    summary="Replicated sharing with verified products: one of three parties may cheat.",
    parties=range(3, 4),
    guarantees=Guarantees(colluding=1, detects=True),
)
register_protocol(
    "quad",
    "tacit.protocols.quad.protocol:Quad",
    summary="Four parties, one of whom may cheat: the others notice before anything is opened.",
    parties=range(4, 5),
    guarantees=Guarantees(colluding=1, detects=True),
)
register_protocol(
    "additive",
    "tacit.protocols.additive.protocol:Additive",
    summary="Masked evaluation by 2 to 16 parties; a dealer that is none of them helps.",
    parties=range(2, 17),
    guarantees=Guarantees(colluding=None),
    helpers=1,
)
register_protocol(
    "beaver",
    "tacit.protocols.beaver.protocol:Beaver",
    summary="Beaver triples from a dealer, as in CrypTen: for comparison; `additive` sends less.",
    parties=range(2, 17),
    guarantees=Guarantees(colluding=None),
    helpers=1,
)
register_protocol(
    "enclave",
    "tacit.protocols.enclave:Enclave",
    summary="An enclave computes in plain for its parties, and rents GPUs that see masked numbers.",
    parties=range(1, 17),
    guarantees=Guarantees(colluding=None),
    helpers=1,
    helper="enclave",
)
register_protocol(
    "cleartext",
    "tacit.protocols.cleartext:Cleartext",
    summary="No secrets: every party sees every value. For tests and debugging, in one process.",
    parties=range(1, MOST_PARTIES + 1),
    guarantees=NO_GUARANTEES,
    network=False,
)
register_protocol(
    "none",
    None,
    summary="Channels and keys only: no operations on secrets.",
    parties=range(1, MOST_PARTIES + 1),
    guarantees=NO_GUARANTEES,
)

register_transport(
    "threads",
    "tacit.runtime.launch.threads:run_threads",
    summary="Threads of this process, which hand tensors over in memory.",
    one_process=True,
)
register_transport(
    "processes",
    "tacit.runtime.launch.processes:run_processes",
    summary="One process for each party, with TLS over TCP between them; results are copied.",
    one_process=False,
)
