"""The party file, `parties.toml`: who takes part, at which addresses, with which settings.

All parties have the same one. It holds nothing secret.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...config import FIRST_PARTY, OWN, Config
from ...crypto import certificate_to_der
from ...errors import ConfigError
from ...protocols import check_parties
from ...transport import Limits
from ..placement import PLACEMENTS, cipher_for
from .member_blocks import PartyEntry, Table, check_fields, listed, read_members, told

MOST_BYTES = 1 << 18
MOST_DOTS = 64  # of a line: the time to read a name grows with the square of its parts
MOST_SECONDS = 10**8  # of a wait: three years
CONNECT_DEADLINE = 300.0  # s; people start their parties one after another
SETTINGS = (
    *("protocol", "ring", "fraction_bits", "truncation", "range_bits", "guard"),
    "memory_limit",
)
WAITS = ("deadline", "connect_deadline", "patience")
FIELDS = (*SETTINGS, "placement", "reveals", *WAITS, "party", "dealer")


@dataclass(frozen=True, kw_only=True)
class PartyFile:
    """What a party file says: the parties in the order of their ranks, and their settings.

    `path` is where it was read from; by default the parties' keys are beside it. `dealer` is the
    member after the last party; if the first party runs it, it has that party's key and address.
    """

    path: Path = field(compare=False)
    parties: tuple[PartyEntry, ...]
    dealer: PartyEntry | None
    config: Config
    limits: Limits
    placement: str

    @property
    def members(self) -> tuple[PartyEntry, ...]:
        """The parties, and the dealer if there is one, by rank."""
        return self.parties if self.dealer is None else (*self.parties, self.dealer)

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
        for entry in self.members:
            found[f"address of {entry.name}"] = entry.address
            found[f"device of {entry.name}"] = entry.device
            der = certificate_to_der(entry.certificate)
            found[f"certificate of {entry.name}"] = hashlib.sha256(der).hexdigest()
        return {name: json.dumps(value) for name, value in found.items()}

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
    config = Config(
        **{name: table[name] for name in SETTINGS if name in table},
        cipher=cipher_for([entry.device for entry in members], placement),
        reveals=_reveals(table.get("reveals"), [entry.name for entry in parties]),
        dealer=_dealer_setting(table),
    )
    check_parties(config, len(parties), local=False)
    if config.helpers and dealer is None:
        raise ConfigError(
            "there is no block [[dealer]]",
            limit=f"protocol={config.protocol!r} needs a dealer that is none of the parties",
            remedy="make one with `tacit party init NAME --dealer`, and put its block here",
        )
    waits = {name: _seconds(name, table[name]) for name in WAITS if name in table}
    limits = Limits(**{"connect_deadline": CONNECT_DEADLINE, **waits})  # type: ignore[arg-type]
    return PartyFile(
        path=path,
        parties=parties,
        dealer=dealer,
        config=config,
        limits=limits,
        placement=placement,
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
