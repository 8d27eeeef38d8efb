"""`tacit party init`: creates a party's key, its certificate and its block of the party file."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .errors import reported
from .options import Debug, Json, new_passphrase
from .screen import Screen


def init(
    name: Annotated[str, typer.Argument(help="The name of the party in the party file.")],
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the others reach it, and where it listens; a worker needs none.",
        ),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where the files are written.")] = Path(),
    passphrase: Annotated[
        bool,
        typer.Option(
            "--passphrase",
            help="Encrypt the key with a passphrase, from TACIT_PASSPHRASE or a prompt.",
        ),
    ] = False,
    dealer: Annotated[
        bool,
        typer.Option("--dealer", help="It is no party: it deals for the parties of `additive`."),
    ] = False,
    enclave: Annotated[
        bool,
        typer.Option("--enclave", help="It is the host of an enclave, which has no key here."),
    ] = False,
    worker: Annotated[
        bool, typer.Option("--worker", help="It multiplies masked numbers for an enclave.")
    ] = False,
    days: Annotated[int, typer.Option(help="How long the certificate is valid.", min=1)] = 365,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make the key, the certificate and the block of a party, a dealer, an enclave or a worker.

    It writes NAME.key, which only this party may have, and NAME.crt, and prints the block of the
    party file to send to the others. It overwrites no file. Read the fingerprint to the others
    over the telephone: a certificate of this name with another fingerprint is somebody else's. An
    enclave makes its key when it starts, so for one only the block is printed.

    Examples:

        tacit party init alice --address 10.0.0.1:7000

        tacit party init alice --address alice.example:7000 --passphrase --days 90

        tacit party init alice --address 10.0.0.1:7000 --json

        tacit party init dora --dealer --address 10.0.0.9:7000

        tacit party init eve --enclave --address 10.0.0.5:7000

        tacit party init wanda --worker
    """
    screen = Screen(json)
    with reported(screen, debug=debug):
        from ..crypto import create_credentials, public_key_fingerprint
        from ..runtime.deploy.member_blocks import check_name, snippet

        kind = _kind(dealer=dealer, enclave=enclave, worker=worker)
        if (address is None) is not worker:
            need = "has no address: it dials its enclave" if worker else "needs --address HOST:PORT"
            raise ConfigError(f"a {kind} {need}")
        if enclave:
            block = snippet(name, address, None, kind=kind)
            screen.line("# Send this block to all parties; everybody has the same party file:")
            screen.line(block.rstrip())
            screen.document({"snippet": block})
            return
        key, certificate = folder / f"{check_name(name)}.key", folder / f"{name}.crt"
        for path in (key, certificate):
            _check_free(path)
        made = create_credentials(
            name,
            valid_for=timedelta(days=days),
            passphrase=new_passphrase() if passphrase else None,
        )
        block = snippet(name, address, made.certificate, kind=kind)
        _write(key, made.private_key, mode=0o600)
        _write(certificate, made.certificate, mode=0o644)
        fingerprint = public_key_fingerprint(made.certificate)
        screen.line(f"# {key} is secret and stays here; {certificate} is public.")
        screen.line(f"# The key's fingerprint: {fingerprint}")
        screen.line("# Send this block to all parties; everybody has the same party file:")
        screen.line(block.rstrip())
        screen.document(
            {
                "key": key,
                "certificate": certificate,
                "fingerprint": fingerprint,
                "snippet": block,
            }
        )


def _kind(**flags: bool) -> str:
    """Returns what the block is for: the one flag that is set, or a party."""
    chosen = [name for name, given in flags.items() if given]
    if len(chosen) > 1:
        raise ConfigError(f"--{chosen[0]} with --{chosen[1]}", limit="it is one of them")
    return chosen[0] if chosen else "party"


def _check_free(path: Path) -> None:
    if path.exists():
        raise ConfigError(
            f"{path} is there already", remedy="move it away, or choose another --folder"
        )


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Writes a new file that has its mode from the start, so that nobody else can open it."""
    from ..crypto import make_private_folder

    try:
        if not path.parent.exists():
            make_private_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written", cause=error.strerror) from error
