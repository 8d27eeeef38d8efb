"""`tacit worker`: multiplies masked numbers for an enclave, on a machine that nobody trusts."""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import typer

from .errors import reported
from .options import Debug, Json, Key, PartyFile, passphrase_of
from .screen import Screen


def worker(
    parties: PartyFile,
    name: Annotated[
        str, typer.Option("--worker", help="The name of this worker in the party file.")
    ],
    key: Key = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Multiply masked numbers for an enclave until it ends.

    A worker needs no job and no data. It connects to the host of its enclave, and nobody connects
    to it. All that it sees is random to it, as long as no two workers pool what they see. What it
    answers is checked.

    Examples:

        tacit worker --parties parties.toml --worker wanda

        tacit worker --parties parties.toml --worker wanda --key keys/wanda.key
    """
    screen = Screen(json)
    with reported(screen, debug=debug):
        from ..runtime.deploy.hosted_worker import WorkerOf
        from ..runtime.deploy.party_file import read_party_file

        file = read_party_file(parties)
        own = WorkerOf(file, name)
        own_key = key or file.path.parent / f"{name}.key"
        secret = passphrase_of(own_key)
        screen.line(f"worker {own.number}, {name}, on {own.entry.device}, for {own.enclave.name}")
        waiting = f"waiting for the enclave, up to {file.limits.connect_deadline:g} s"
        with screen.live(waiting, lambda: ""):
            mesh = own.connect(own_key, secret)
        started = monotonic()
        screen.line("the enclave is here")
        with screen.live("multiplying", lambda: ""):
            own.serve(mesh)
        seconds = round(monotonic() - started, 3)
        screen.line(f"{name}: {seconds} s; the enclave has ended")
        screen.document({"worker": name, "number": own.number, "seconds": seconds})
