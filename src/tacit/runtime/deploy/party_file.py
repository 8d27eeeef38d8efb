"""The party file, `parties.toml`: who takes part, at which addresses, with which settings.

All parties have the same one. It holds nothing secret.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...config import FIRST_PARTY, OWN, Config
from ...errors import ConfigError
from ...protocols import check_parties
from ...transport import Limits
from ..placement import PLACEMENTS, cipher_for
from .enclave_blocks import EnclaveEntry, WorkerEntry, read_enclaves, read_threads
from .member_blocks import PartyEntry, Table, check_fields, listed, read_members, told

MOST_BYTES = 1 << 18
MOST_DOTS = 64  # of a line: the time to read a name grows with the square of its parts
MOST_SECONDS = 10**8  # of a wait: three years
CONNECT_DEADLINE = 300.0  # s; people start their parties one after another
SETTINGS = (
    *("protocol", "ring", "fraction_bits", "truncation", "range_bits", "guard"),
    *("memory_limit", "outsourcing", "precision"),
)
WAITS = ("deadline", "connect_deadline", "patience")
BLOCKS = ("party", "dealer", "enclave", "worker")
FIELDS = (*SETTINGS, "placement", "reveals", *WAITS, "stripes", "enclave_threads", *BLOCKS)


@dataclass(frozen=True, kw_only=True)
class PartyFile:
    """What a party file says: the parties in the order of their ranks, and their settings.

    `path` is where it was read from; by default the parties' keys are beside it. `dealer` is the
    member after the last party; if the first party runs it, it has that party's key and address.
    `enclaves` follow the parties in rank, too; `workers` are no members.
    """

    path: Path = field(compare=False)
    parties: tuple[PartyEntry, ...]
    dealer: PartyEntry | None
    enclaves: tuple[EnclaveEntry, ...] = ()
    workers: tuple[WorkerEntry, ...] = ()
    enclave_threads: int = 1
    config: Config
    limits: Limits
    placement: str

    @property
    def members(self) -> tuple[PartyEntry, ...]:
        """The parties, and the dealer or the enclaves if there are any, by rank."""
        return (*self.parties, *([self.dealer] if self.dealer else self.enclaves))

    @property
    def certificates(self) -> dict[str, bytes]:
        """The certificates in the file, by the names of their owners."""
        keyed: Sequence[PartyEntry | WorkerEntry] = (*self.members, *self.workers)
        return {one.name: one.certificate for one in keyed if one.certificate}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all members, by rank."""
        return tuple(entry.name for entry in self.members)

    @property
    def is_dealt_by_first(self) -> bool:
        """Whether the first party's machine runs the dealer, too."""
        return self.config.dealer == FIRST_PARTY

    def key_file(self, name: str) -> Path:
        """Returns where a member's private key is by default."""
        first = self.is_dealt_by_first and self.rank_of(name) == len(self.parties)
        return self.path.parent / f"{self.parties[0].name if first else name}.key"

    @property
    def reveals(self) -> tuple[int, ...] | None:
        """The ranks that may learn revealed values; None for every party."""
        return self.config.reveals

    def rank_of(self, name: str) -> int:
        if name not in self.names:
            raise ConfigError(
                f"party={name!r}", limit=f"the party file has {', '.join(self.names)}"
            )
        return self.names.index(name)

    def items(self) -> dict[str, str]:
        """Returns everything in the file, field by field, for parties to compare."""
        found: dict[str, Any] = {**asdict(self.config), **asdict(self.limits)}
        found["placement"] = self.placement
        if self.enclaves:
            found["enclave_threads"] = self.enclave_threads
        entries: Sequence[PartyEntry | WorkerEntry] = (*self.members, *self.workers)
        for entry in entries:
            found |= {f"{fact} of {entry.name}": value for fact, value in entry.facts.items()}
        return {name: json.dumps(value) for name, value in found.items()}

    def with_keys(self, certificates: Sequence[bytes]) -> PartyFile:
        """Returns the file with the certificates of its enclaves, once they are attested."""
        pairs = zip(self.enclaves, certificates, strict=True)
        return replace(self, enclaves=tuple(replace(one, certificate=own) for one, own in pairs))

    def without_enclaves(self) -> PartyFile:
        """Returns the file with its parties alone, which have channels then and no operations."""
        if not self.enclaves:
            return self
        config = Config(protocol="none", reveals=self.config.reveals)
        return replace(self, enclaves=(), workers=(), config=config)

    def digest(self) -> bytes:
        """Returns the SHA-256 of the settings, without comments and their order."""
        text = json.dumps(list(self.items().items()))
        return hashlib.sha256(b"tacit party file v1\n" + text.encode()).digest()


def read_party_file(path: str | Path) -> PartyFile:
    """Returns the contents of a party file; ConfigError names the field that is wrong."""
    with told(str(path)):
        table = _table(Path(path))
        check_fields(table, FIELDS)
        return _party_file(Path(path), table, *read_members(table))


def _table(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise ConfigError(f"it has more than {MOST_BYTES} bytes: this is no party file")
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.count(b".") > MOST_DOTS:
            raise ConfigError(f"line {number} has more than {MOST_DOTS} dots: no field has")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not TOML: {str(error)[:200]}") from error


def _party_file(
    path: Path,
    table: Table,
    parties: tuple[PartyEntry, ...],
    dealer: PartyEntry | None,
) -> PartyFile:
    placement = table.get("placement", PLACEMENTS[0])
    if placement not in PLACEMENTS:
        raise ConfigError(f"placement={placement!r}", limit=f"allowed are {listed(PLACEMENTS)}")
    members = parties if dealer is None else (*parties, dealer)
    enclaves, workers = read_enclaves(table, parties)
    drawing: Sequence[PartyEntry | WorkerEntry] = workers if enclaves else members
    config = Config(
        **{name: table[name] for name in SETTINGS if name in table},
        cipher=cipher_for([entry.device for entry in drawing], placement),
        reveals=_reveals(table.get("reveals"), [entry.name for entry in parties]),
        dealer=_dealer_setting(table),
        enclaves=len(enclaves) or None,
    )
    check_parties(config, len(parties), local=False)
    _check_enclaves(config, enclaves, workers)
    if config.dealer == OWN and dealer is None:
        raise ConfigError(
            "there is no block [[dealer]]",
            limit=f"protocol={config.protocol!r} needs a dealer that is none of the parties",
            remedy="make one with `tacit party init NAME --dealer`, and put its block here",
        )
    waits = {name: _seconds(name, table[name]) for name in WAITS if name in table}
    bounds = {"connect_deadline": CONNECT_DEADLINE, **waits, "stripes": table.get("stripes")}
    limits = Limits(**bounds)  # type: ignore[arg-type]
    return PartyFile(
        path=path,
        parties=parties,
        dealer=dealer,
        enclaves=enclaves,
        workers=workers,
        enclave_threads=read_threads(table.get("enclave_threads", 1)),
        config=config,
        limits=limits,
        placement=placement,
    )


def _check_enclaves(
    config: Config, enclaves: Sequence[EnclaveEntry], workers: Sequence[WorkerEntry]
) -> None:
    """Raises ConfigError if there are not as many enclaves and workers as the settings need."""
    if config.enclaves is not None and not enclaves:
        raise ConfigError(
            "there is no block [[enclave]]",
            limit=f"protocol={config.protocol!r} needs one for each enclave",
            remedy="make one with `tacit party init NAME --enclave`, and put its block here",
        )
    if len(workers) != config.workers:
        raise ConfigError(
            f"{len(workers)} blocks [[worker]]",
            limit=f"protocol={config.protocol!r} with outsourcing={config.outsourcing!r} needs "
            f"{config.workers}",
            remedy="make one with `tacit party init NAME --worker`, or set outsourcing",
        )


def _dealer_setting(table: Table) -> str | None:
    """Returns the setting `dealer`: a block [[dealer]] means a dealer of its own."""
    found: str | list[Any] | None = table.get("dealer")
    return found if isinstance(found, str) else OWN if found else None


def _reveals(names: Any, known: list[str]) -> tuple[int, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(name in known for name in names):
        raise ConfigError(f"reveals={names!r}", limit=f"allowed is a list of {listed(known)}")
    if len(set(names)) != len(names):
        raise ConfigError(f"reveals={names!r}: a name stands there twice")
    return tuple(known.index(name) for name in names)


def _seconds(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= MOST_SECONDS:
        raise ConfigError(
            f"{name}={value!r}",
            limit=f"allowed is a number of seconds above zero, up to {MOST_SECONDS}",
        )
    return float(value)
