"""What an enclave is started with: the host says it, parties expect it, the enclave reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from ...config import Config
from ...enclave.configuration import EnclaveConfig
from ...transport import Limits
from .endpoint import Address, Endpoint
from .user_modules import own_files

MEMBER = "tacit.runtime.launch.enclave_member"
SESSION_PORT, PEER_PORT = "session", "enclaves"  # names of an enclave's ports, see `first_line`


def worker_port(worker: int) -> str:
    """Returns the name of the port through which a worker reaches its enclave."""
    return f"worker {worker}"


@dataclass(frozen=True, kw_only=True)
class EnclaveTask:
    """The settings of all enclaves of a run. Nothing here is secret, and everything is measured.

    workers: the certificates of the workers. enclaves: the address of each enclave's host.
    program: the packed Program, which `function` of MEMBER reads, with the files of its modules.
    compared: what all members compare before anything is shared, by name; by default the config.
    """

    config: Config
    session_id: bytes
    limits: Limits
    parties: tuple[Endpoint, ...]
    workers: tuple[bytes, ...]
    enclaves: tuple[Address, ...]
    threads: int
    allow_simulated: bool
    program: bytes = field(repr=False)
    modules: Mapping[str, str]
    function: str = "serve"
    compared: Mapping[str, str] = field(default_factory=dict)

    @property
    def session_addresses(self) -> list[Address]:
        """The addresses of all members of the session, by rank."""
        return [*(party.address for party in self.parties), *self.enclaves]

    def configuration(self, enclave: int) -> EnclaveConfig:
        """Returns the configuration of one of the enclaves."""
        parties, workers = enumerate(self.parties), enumerate(self.workers)
        settings = {
            "config": json.dumps(asdict(self.config)),
            "session": self.session_id.hex(),
            "limits": json.dumps(asdict(self.limits)),
            "enclave": str(enclave),
            "threads": str(self.threads),
            "allow_simulated": json.dumps(self.allow_simulated),
            "addresses of parties": json.dumps([party.address for party in self.parties]),
            "addresses of enclaves": json.dumps(self.enclaves),
            "compared": json.dumps([*self.compared]),
            **self.compared,
            **{f"certificate of party {i}": one.certificate.decode() for i, one in parties},
            **{f"certificate of worker {i}": one.decode() for i, one in workers},
        }
        return EnclaveConfig(
            settings=settings,
            program=MEMBER,
            function=self.function,
            modules=self.modules,
            data=self.program,
        )

    @classmethod
    def read(cls, settings: Mapping[str, str], program: bytes) -> tuple[EnclaveTask, int]:
        """Returns what an enclave was started with, and which of the enclaves it is."""
        addresses = [_address(one) for one in json.loads(settings["addresses of parties"])]
        certificates = _numbered(settings, "certificate of party")
        task = cls(
            config=Config(**json.loads(settings["config"])),
            session_id=bytes.fromhex(settings["session"]),
            limits=Limits(**json.loads(settings["limits"])),
            parties=tuple(map(Endpoint, addresses, certificates)),
            workers=_numbered(settings, "certificate of worker"),
            enclaves=tuple(map(_address, json.loads(settings["addresses of enclaves"]))),
            threads=int(settings["threads"]),
            allow_simulated=json.loads(settings["allow_simulated"]),
            program=program,
            modules={},
            compared={name: settings[name] for name in json.loads(settings["compared"])},
        )
        return task, int(settings["enclave"])

    def as_expected_by(
        self, rank: int, own: Endpoint, *, config: Config, session_id: bytes, program: bytes
    ) -> EnclaveTask:
        """Returns the task with what a party knows itself in the place of what its host told it."""
        return replace(
            self,
            parties=(*self.parties[:rank], own, *self.parties[rank + 1 :]),
            config=config,
            session_id=session_id,
            program=program,
            modules=own_files(self.modules),
        )


def _address(pair: list[str | int]) -> Address:
    host, port = pair
    return str(host), int(port)


def _numbered(settings: Mapping[str, str], name: str) -> tuple[bytes, ...]:
    """Returns the settings with this name and a number, in order."""
    count = sum(one.startswith(f"{name} ") for one in settings)
    return tuple(settings[f"{name} {i}"].encode() for i in range(count))
