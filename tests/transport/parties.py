"""Parties as threads of the test, over any kind of channel, with certificates made on the spot."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tacit.testing.channels import in_threads
from tacit.testing.exchanges import values
from tacit.transport import Hello, Identity, Limits, Mesh, connect, listen, memory_meshes
from tacit.transport.limits import SYSTEM_CLOCK, Clock

Address = tuple[str, int]
KINDS = ["memory", "tcp", "tls"]
SOCKETS = ["tcp", "tls"]
LIMITS = Limits(deadline=5.0, connect_deadline=5.0)


def hello(rank: int, parties: int = 2, **changes: Any) -> Hello:
    base = Hello(session=b"0123456789abcdef", rank=rank, parties=parties)
    return replace(base, **changes)


def certificate(name: str, until: datetime.datetime | None = None) -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, both PEM; as common tools make them, of a CA."""
    with _making:
        return _certificate(name, until)


_making = Lock()  # parties are threads, and all must know the same certificates


@cache
def _certificate(name: str, until: datetime.datetime | None) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    return _signed(name, key, name, key, until), _pem(key)


def delegated(issuer: str) -> tuple[bytes, bytes]:
    """A certificate for a new key that `issuer` has signed, followed by that of the issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    own, issuer_key = certificate(issuer)
    signer = load_pem_private_key(issuer_key, None)
    return _signed("delegate", key, issuer, signer) + own, _pem(key)


def _signed(
    name: str, key: Any, issuer: str, signer: Any, until: datetime.datetime | None = None
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(until or now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .sign(signer, SHA256())
    )
    return built.public_bytes(Encoding.PEM)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _pem(key: Any) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def identity(rank: int, parties: int = 2, *, name: str | None = None) -> Identity:
    """The identity of a party; with `name`, one that shows somebody else's certificate."""
    peers = tuple(certificate(f"party {peer}")[0] for peer in range(parties))
    own, key = certificate(name or f"party {rank}")
    return Identity(own, key, peers)


class Outcome(list[Any]):
    """What each party returned, or the exception that it raised."""

    def values(self) -> list[Any]:
        return values(self)


def together(*programs: Callable[[], Any]) -> Outcome:
    """Run one program for each party at the same time."""
    return Outcome(in_threads(programs))


def connected(
    kind: str,
    parties: int,
    *,
    limits: Limits = LIMITS,
    stripes: Sequence[int | None] | None = None,
    network: Any = None,
    clock: Clock = SYSTEM_CLOCK,
    roads: Callable[[Address], Address] = lambda address: address,
) -> list[Mesh]:
    """The meshes of all parties, by rank.

    `roads` says where a party is to be dialled that listens at an address, `stripes` how many each
    party would have.
    """
    if kind == "memory":
        return memory_meshes(parties, limits=limits, network=network, clock=clock)
    listeners = [listen("127.0.0.1", 0) for _ in range(parties)]
    addresses = [roads(listener.address) for listener in listeners]
    identities = [identity(rank, parties) if kind == "tls" else None for rank in range(parties)]

    def party(rank: int) -> Mesh:
        return connect(
            hello(rank, parties),
            listeners[rank],
            addresses,
            identity=identities[rank],
            insecure_plain_tcp=kind == "tcp",
            limits=replace(limits, stripes=stripes[rank]) if stripes else limits,
            network=network,
            clock=clock,
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return together(*(lambda rank=rank: party(rank) for rank in range(parties))).values()


def run(kind: str, program: Callable[[Mesh], Any], parties: int = 2, **options: Any) -> Outcome:
    """Run `program` at every party, inside the mesh's own context."""
    meshes = connected(kind, parties, **options)
    return together(*(lambda mesh=mesh: _inside(mesh, program) for mesh in meshes))


def _inside(mesh: Mesh, program: Callable[[Mesh], Any]) -> Any:
    with mesh:
        return program(mesh)
