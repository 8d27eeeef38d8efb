"""The blocks of a party file: its parties, `[[party]]`, and its dealer, `[[dealer]]`."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ...config import DEALERS, FIRST_PARTY
from ...crypto import certificate_from_der, certificate_to_der, public_key_fingerprint
from ...errors import ConfigError, DealerName, Party, Phrase, rendered
from .addresses import parse_address, write_address

MOST_TOLD = 1000  # characters of a message, which may quote the file
PARTY_FIELDS = ("name", "address", "certificate", "device")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,3})?")
Table = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PartyEntry:
    """One party, or the dealer: its name, address, certificate as PEM, and device."""

    name: str
    host: str
    port: int
    certificate: bytes = field(repr=False)
    device: str = "cpu"

    @property
    def address(self) -> str:
        return write_address(self.host, self.port)

    @property
    def facts(self) -> dict[str, str]:
        """What is compared of a member before a run."""
        certificate = certificate_digest(self.certificate)
        return {"address": self.address, "device": self.device, "certificate": certificate}

    @property
    def key_name(self) -> str:
        """What stands for its key in the identity of a group."""
        return public_key_fingerprint(self.certificate)


def certificate_digest(pem: bytes) -> str:
    """Returns the SHA-256 of a certificate."""
    return hashlib.sha256(certificate_to_der(pem)).hexdigest()


def check_name(name: Any) -> str:
    """Returns the name; raises ConfigError unless a party can have it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"name={name!r}", limit="allowed are a letter and up to 31 letters, digits, '-' and '_'"
        )
    return name


def snippet(
    name: str, address: str | None, certificate_pem: bytes | None, *, kind: str = "party"
) -> str:
    """Returns the block of a party, a dealer, an enclave or a worker for the party file of all.

    A worker has no address, and an enclave makes its certificate when it starts.
    """
    block = f'[[{kind}]]\nname = "{check_name(name)}"\n'
    if address is not None:
        block += f'address = "{write_address(*parse_address(address))}"\n'
    if certificate_pem is not None:
        text = base64.b64encode(certificate_to_der(certificate_pem)).decode()
        lines = "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
        block += f"certificate = '''\n{lines}\n'''\n"
    return block


def read_members(table: Table) -> tuple[tuple[PartyEntry, ...], PartyEntry | None]:
    """Returns the parties by rank, and the dealer if there is one."""
    blocks = blocks_of(
        table, "party", "allowed is a block that begins with [[party]] for each party"
    )
    parties = tuple(_entry(block, rank) for rank, block in enumerate(blocks))
    if len(parties) < 2 and not (parties and "enclave" in table):
        raise ConfigError(
            "party", limit=f"{len(parties)} blocks [[party]]; 2 parties at least are needed"
        )
    return parties, _dealer(table, parties)


def _dealer(table: Table, parties: tuple[PartyEntry, ...]) -> PartyEntry | None:
    """Returns the entry of the dealer: that of its block, or one of the first party's machine."""
    if isinstance(table.get("dealer"), str):
        _check_distinct(parties)
        if table["dealer"] != FIRST_PARTY:
            return None
        if "dealer" in [entry.name for entry in parties]:
            raise ConfigError("a party is called 'dealer'", limit="this is the dealer's name here")
        return replace(parties[0], name=DealerName("dealer"))
    limit = f"allowed are one block that begins with [[dealer]], and one of {listed(DEALERS)}"
    blocks = blocks_of(table, "dealer", limit)
    if len(blocks) > 1:
        raise ConfigError("dealer", limit=f"{len(blocks)} blocks [[dealer]]; 1 is allowed")
    dealers = tuple(_entry(block, None) for block in blocks)
    _check_distinct((*parties, *dealers))
    return dealers[0] if dealers else None


def blocks_of(table: Table, field: str, limit: str) -> list[Table]:
    """Returns the blocks of this name, in the order of the file."""
    found = table.get(field, [])
    if not isinstance(found, list) or not all(isinstance(block, dict) for block in found):
        raise ConfigError(field, limit=limit)
    return found


def _entry(block: Table, rank: int | None) -> PartyEntry:
    """Returns what the block of a party says, or of the dealer, which has no rank."""
    with told("the dealer" if rank is None else Party(rank)):
        check_fields(block, PARTY_FIELDS, needed=PARTY_FIELDS[:3])
        name = check_name(block["name"])
    name = DealerName(name) if rank is None else name
    with told(_member(rank, name)):
        host, port = parse_address(block["address"])
        device, certificate = read_device(block), read_certificate(block["certificate"])
        return PartyEntry(name=name, host=host, port=port, certificate=certificate, device=device)


def read_device(block: Table) -> str:
    """Returns the device that a block names, "cpu" by default."""
    device = block.get("device", "cpu")
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        raise ConfigError(f"device={device!r}", limit="allowed are 'cpu', 'cuda', 'cuda:<number>'")
    return device


def read_certificate(text: Any) -> bytes:
    """Returns the certificate of a block as PEM."""
    with told("certificate"):
        try:
            der = base64.b64decode("".join(text.split()), validate=True)
        except (ValueError, AttributeError) as error:
            raise ConfigError(
                "allowed is the base64 text that `tacit party init` prints"
            ) from error
        return certificate_from_der(der)


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
                one, other = _member(first, parties[first].name), _member(rank, entry.name)
                raise ConfigError(
                    one + " and " + other + f" have the same {what}",
                    limit="each needs its own",
                )


def _member(rank: int | None, name: str) -> Phrase:
    """Returns who is meant, with the name, in the words of errors."""
    if rank is None or isinstance(name, DealerName):
        return f"the dealer ({name})"
    return Party(rank, name)


def check_fields(table: Table, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> None:
    """Raises ConfigError for a field that is not known, and for one that is missing."""
    for name in table:
        if name not in known:
            raise ConfigError(
                f"{name!r} is not a known field", limit=f"allowed are {listed(known)}"
            )
    for name in needed:
        if name not in table:
            raise ConfigError(f"{name} is missing")


def listed(values: Any) -> str:
    return ", ".join(map(repr, values))


@contextmanager
def told(where: Phrase) -> Iterator[None]:
    """Adds to a ConfigError where in the file the mistake is."""
    try:
        yield
    except ConfigError as error:
        error.reason = rendered(error.reason)[:MOST_TOLD]
        error.about(where)
        raise
