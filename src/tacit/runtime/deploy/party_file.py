"""The party file, `parties.toml`: who takes part, at which addresses, with which settings.

All parties have the same one. It holds nothing secret.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...config import Config
from ...crypto import certificate_from_der, certificate_to_der, public_key_fingerprint
from ...errors import ConfigError, Party, Phrase, rendered
from ...protocols import check_parties
from ...transport import Limits
from ..placement import PLACEMENTS, cipher_for

MOST_BYTES = 1 << 18
MOST_DOTS = 64  # of a line: the time to read a name grows with the square of its parts
MOST_TOLD = 1000  # characters of a message, which may quote the file
MOST_SECONDS = 10**8  # of a wait: three years
CONNECT_DEADLINE = 300.0  # s; people start their parties one after another
SETTINGS = (
    *("protocol", "ring", "fraction_bits", "truncation", "range_bits", "guard"),
    "memory_limit",
)
WAITS = ("deadline", "connect_deadline", "patience")
FIELDS = (*SETTINGS, "placement", "reveals", *WAITS, "party")
PARTY_FIELDS = ("name", "address", "certificate", "device")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,3})?")
_LABEL = "[A-Za-z0-9_-]{1,63}"
_ADDRESS = re.compile(rf"(?:\[([0-9A-Za-z:.%]+)\]|({_LABEL}(?:\.{_LABEL})*)):([0-9]{{1,5}})")
MOST_ADDRESS = 250  # characters


@dataclass(frozen=True, kw_only=True)
class PartyEntry:
    """One party: its name, its address, its certificate as PEM, and its device."""

    name: str
    host: str
    port: int
    certificate: bytes = field(repr=False)
    device: str = "cpu"

    @property
    def address(self) -> str:
        return write_address(self.host, self.port)


@dataclass(frozen=True, kw_only=True)
class PartyFile:
    """What a party file says: the parties in the order of their ranks, and their settings.

    `path` is where it was read from; by default the parties' keys are beside it.
    """

    path: Path = field(compare=False)
    parties: tuple[PartyEntry, ...]
    config: Config
    limits: Limits
    placement: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.parties)

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
        for entry in self.parties:
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
    with _told(str(path)):
        table = _table(Path(path))
        _check_fields(table, FIELDS)
        entries = table.get("party", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise ConfigError(
                "party", limit="allowed is a block that begins with [[party]] for each party"
            )
        parties = tuple(_entry(i, block) for i, block in enumerate(entries))
        if len(parties) < 2:
            raise ConfigError(
                "party", limit=f"{len(parties)} blocks [[party]]; 2 parties at least are needed"
            )
        _check_distinct(parties)
        return _party_file(Path(path), table, parties)


def check_name(name: Any) -> str:
    """Returns the name; raises ConfigError unless a party can have it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"name={name!r}", limit="allowed are a letter and up to 31 letters, digits, '-' and '_'"
        )
    return name


def snippet(name: str, address: str, certificate_pem: bytes) -> str:
    """Returns the block of a party, to be put into the party file of all."""
    host, port = parse_address(address)
    text = base64.b64encode(certificate_to_der(certificate_pem)).decode()
    lines = "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
    return (
        f'[[party]]\nname = "{check_name(name)}"\naddress = "{write_address(host, port)}"\n'
        f"certificate = '''\n{lines}\n'''\n"
    )


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


def _party_file(path: Path, table: dict[str, Any], parties: tuple[PartyEntry, ...]) -> PartyFile:
    placement = table.get("placement", PLACEMENTS[0])
    if placement not in PLACEMENTS:
        raise ConfigError(f"placement={placement!r}", limit=f"allowed are {_listed(PLACEMENTS)}")
    config = Config(
        **{name: table[name] for name in SETTINGS if name in table},
        cipher=cipher_for([entry.device for entry in parties], placement),
        reveals=_reveals(table.get("reveals"), [entry.name for entry in parties]),
    )
    check_parties(config, len(parties), local=False)
    waits = {name: _seconds(name, table[name]) for name in WAITS if name in table}
    limits = Limits(**{"connect_deadline": CONNECT_DEADLINE, **waits})  # type: ignore[arg-type]
    return PartyFile(path=path, parties=parties, config=config, limits=limits, placement=placement)


def _entry(rank: int, block: dict[str, Any]) -> PartyEntry:
    with _told(Party(rank)):
        _check_fields(block, PARTY_FIELDS)
        for needed in PARTY_FIELDS[:3]:
            if needed not in block:
                raise ConfigError(f"{needed} is missing")
        name = check_name(block["name"])
    with _told(Party(rank, name)):
        host, port = parse_address(block["address"])
        device = block.get("device", "cpu")
        if not isinstance(device, str) or not _DEVICE.fullmatch(device):
            raise ConfigError(
                f"device={device!r}", limit="allowed are 'cpu', 'cuda', 'cuda:<number>'"
            )
        certificate = _certificate(block["certificate"])
        return PartyEntry(name=name, host=host, port=port, certificate=certificate, device=device)


def _certificate(text: Any) -> bytes:
    with _told("certificate"):
        try:
            der = base64.b64decode("".join(text.split()), validate=True)
        except (ValueError, AttributeError) as error:
            raise ConfigError(
                "allowed is the base64 text that `tacit party init` prints"
            ) from error
        return certificate_from_der(der)


def _reveals(names: Any, known: list[str]) -> tuple[int, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(name in known for name in names):
        raise ConfigError(f"reveals={names!r}", limit=f"allowed is a list of {_listed(known)}")
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


def _check_fields(table: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            raise ConfigError(f"{name!r} is no field", limit=f"allowed are {_listed(known)}")


def _check_distinct(parties: tuple[PartyEntry, ...]) -> None:
    values: dict[str, Callable[[PartyEntry], str]] = {
        "name": lambda entry: entry.name,
        "address": lambda entry: entry.address,
        "public key": lambda entry: public_key_fingerprint(entry.certificate),
    }
    for what, value in values.items():
        seen: dict[str, int] = {}
        for rank, entry in enumerate(parties):
            first = seen.setdefault(value(entry), rank)
            if first != rank:
                one, other = Party(first, parties[first].name), Party(rank, entry.name)
                raise ConfigError(
                    one + " and " + other + f" have the same {what}",
                    limit="each party needs its own",
                )


def _listed(values: Any) -> str:
    return ", ".join(map(repr, values))


@contextmanager
def _told(where: Phrase) -> Iterator[None]:
    """Adds to a ConfigError where in the file the mistake is."""
    try:
        yield
    except ConfigError as error:
        error.reason = rendered(error.reason)[:MOST_TOLD]
        error.about(where)
        raise


# Addresses --------------------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """Returns host and port of "10.0.0.1:7000", "host.example:7000" or "[::1]:7000"."""
    short = isinstance(text, str) and len(text) <= MOST_ADDRESS
    found = _ADDRESS.fullmatch(text) if short else None
    port = int(found[3]) if found else 0
    if found is None or not 0 < port < 1 << 16 or not _is_ipv6(found[1]):
        raise ConfigError(
            f"address={text!r}",
            limit="allowed are a host and a port from 1 to 65535, as in "
            "'10.0.0.1:7000', 'alice.example:7000' or '[::1]:7000'",
        )
    return found[1] or found[2], port


def write_address(host: str, port: int) -> str:
    """Returns a host and a port as text, the inverse of `parse_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_ipv6(host: str | None) -> bool:
    """Whether the text in brackets, if there is one, is an IPv6 address."""
    try:
        return host is None or bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False
