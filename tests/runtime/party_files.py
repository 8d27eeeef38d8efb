"""Organisations for the tests: keys, certificates and party files, as people would make them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.ports import free_ports

from tacit.crypto import Credentials, create_credentials
from tacit.runtime.deploy.member_blocks import snippet

NAMES = ("alice", "bob", "carol")


@cache
def credentials(name: str, passphrase: str | None = None) -> Credentials:
    return create_credentials(name, passphrase=passphrase)


def write_key(folder: Path, name: str, content: bytes) -> Path:
    path = folder / f"{name}.key"
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def blocks(ports: list[int], **extra: str) -> list[str]:
    """The `[[party]]` block of each party; `extra` lines go into the block of that name."""
    return [
        snippet(name, f"127.0.0.1:{port}", credentials(name).certificate) + extra.get(name, "")
        for name, port in zip(NAMES, ports, strict=True)
    ]


def write_parties(folder: Path, head: str = "", ports: list[int] | None = None) -> Path:
    """A party file of alice, bob and carol, with their keys beside it."""
    for name in NAMES:
        write_key(folder, name, credentials(name).private_key)
    path = folder / "parties.toml"
    path.write_text("\n".join([head, *blocks(ports or free_ports(len(NAMES)))]))
    return path


def write_dealt(
    folder: Path,
    head: str = "",
    ports: list[int] | None = None,
    *,
    names: tuple[str, ...] = NAMES[:2],
    dealer: str | None = "dora",
) -> Path:
    """A party file for `additive`, with the keys beside it; dealer: its name, if it has a block."""
    members = [*names, *([dealer] if dealer else [])]
    parts = ['protocol = "additive"', head]
    for name, port in zip(members, ports or free_ports(len(members)), strict=True):
        write_key(folder, name, credentials(name).private_key)
        address, certificate = f"127.0.0.1:{port}", credentials(name).certificate
        kind = "dealer" if name == dealer else "party"
        parts.append(snippet(name, address, certificate, kind=kind))
    path = folder / "parties.toml"
    path.write_text("\n".join(parts))
    return path


def write_enclave(
    folder: Path,
    head: str = "",
    *,
    names: tuple[str, ...] = NAMES[:2],
    enclaves: tuple[str, ...] = ("eve",),
    workers: tuple[str, ...] = (),
) -> Path:
    """A party file for `enclave`, with the keys of parties and workers beside it."""
    ports = iter(free_ports(len(names) + len(enclaves)))
    parts = ['protocol = "enclave"', head]
    for name in (*names, *workers):
        write_key(folder, name, credentials(name).private_key)
    for name in names:
        address = f"127.0.0.1:{next(ports)}"
        parts.append(snippet(name, address, credentials(name).certificate))
    for name in enclaves:
        parts.append(snippet(name, f"127.0.0.1:{next(ports)}", None, kind="enclave"))
    for name in workers:
        parts.append(snippet(name, None, credentials(name).certificate, kind="worker"))
    path = folder / "parties.toml"
    path.write_text("\n".join(parts))
    return path
