"""The blocks of a party file for `protocol = "enclave"`: `[[enclave]]` and `[[worker]]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...crypto import public_key_fingerprint
from ...errors import ConfigError, EnclaveName
from .addresses import parse_address
from .member_blocks import (
    PartyEntry,
    Table,
    blocks_of,
    certificate_digest,
    check_fields,
    check_name,
    read_certificate,
    read_device,
    told,
)

ENCLAVE_FIELDS = ("name", "address")
WORKER_FIELDS = ("name", "certificate", "device")
MOST_THREADS = 1024


@dataclass(frozen=True, kw_only=True)
class EnclaveEntry(PartyEntry):
    """An enclave: its name, and the address of its host.

    It makes its key when it starts, so its certificate is known once it is attested.
    """

    certificate: bytes = field(default=b"", repr=False)

    @property
    def facts(self) -> dict[str, str]:
        return {"address": self.address}

    @property
    def key_name(self) -> str:
        return "an enclave's own"


@dataclass(frozen=True, kw_only=True)
class WorkerEntry:
    """A worker: its name, certificate as PEM, and device. Nobody dials it."""

    name: str
    certificate: bytes = field(repr=False)
    device: str = "cpu"

    @property
    def facts(self) -> dict[str, str]:
        """What is compared of a worker before a run."""
        return {"device": self.device, "certificate": certificate_digest(self.certificate)}


def read_enclaves(
    table: Table, parties: Sequence[PartyEntry]
) -> tuple[tuple[EnclaveEntry, ...], tuple[WorkerEntry, ...]]:
    """Returns the enclaves and the workers of a party file, each in the order of the file."""
    begins = "allowed are blocks that begin with [[{0}]]"
    enclaves = tuple(map(_enclave, blocks_of(table, "enclave", begins.format("enclave"))))
    workers = tuple(map(_worker, blocks_of(table, "worker", begins.format("worker"))))
    named: Sequence[PartyEntry | WorkerEntry] = (*parties, *enclaves, *workers)
    _check_distinct("name", [one.name for one in named])
    _check_distinct("address", [one.address for one in (*parties, *enclaves)])
    keyed: Sequence[PartyEntry | WorkerEntry] = (*parties, *workers)
    _check_distinct("public key", [public_key_fingerprint(one.certificate) for one in keyed])
    return enclaves, workers


def read_threads(value: Any) -> int:
    """Returns the number of threads of each enclave."""
    if type(value) is not int or not 0 < value <= MOST_THREADS:
        raise ConfigError(f"enclave_threads={value!r}", limit=f"allowed are 1 to {MOST_THREADS}")
    return value


def _enclave(block: Table) -> EnclaveEntry:
    with told("the enclave"):
        check_fields(block, ENCLAVE_FIELDS, needed=ENCLAVE_FIELDS)
        name = EnclaveName(check_name(block["name"]))
    with told(f"the enclave ({name})"):
        host, port = parse_address(block["address"])
        return EnclaveEntry(name=name, host=host, port=port)


def _worker(block: Table) -> WorkerEntry:
    with told("a worker"):
        check_fields(block, WORKER_FIELDS, needed=WORKER_FIELDS[:2])
        name = check_name(block["name"])
    with told(f"the worker ({name})"):
        certificate, device = read_certificate(block["certificate"]), read_device(block)
        return WorkerEntry(name=name, certificate=certificate, device=device)


def _check_distinct(what: str, values: Sequence[str]) -> None:
    for place, value in enumerate(values):
        if value in values[:place]:
            shown = f" ({value})" if what != "public key" else ""
            raise ConfigError(f"two blocks have the same {what}{shown}", limit="each needs its own")
