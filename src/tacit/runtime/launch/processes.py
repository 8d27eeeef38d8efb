"""Each party in a process of its own, with TCP and TLS between them on this machine."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...config import Config
from ...transport import Limits, Network
from ..placement import PartyDevices
from .child import PartyTask, serve_party
from .child_process import PATIENCE_SECONDS, Child, endpoints_of, receiver, tell
from .enclave_host import run_with_enclaves
from .outcome import collect
from .pickled import pack, unpack
from .program import Program


def run_processes(
    program: Program,
    *,
    devices: Sequence[PartyDevices],
    config: Config,
    limits: Limits,
    network: Network,
    allow_simulated: bool = False,
) -> list[Any]:
    """Returns each party's return value. A party's private key never leaves its process.

    allow_simulated: whether the parties talk to an enclave without hardware, if there is one.
    """
    if config.enclaves is not None:
        return run_with_enclaves(
            program,
            devices=devices,
            config=config,
            limits=limits,
            network=network,
            allow_simulated=allow_simulated,
        )
    parties = len(devices)
    task = PartyTask(
        rank=0,
        parties=parties,
        devices=devices[0],
        session_id=secrets.token_bytes(16),
        config=config,
        limits=limits,
        network=network,
        program=pack(program, "main or one of its arguments"),
    )
    children: list[Child] = []
    try:
        for rank in range(parties):
            own = replace(task, rank=rank, devices=devices[rank])
            children.append(Child.start(serve_party, own, f"tacit-party-{rank}", rank))
        tell(children, endpoints_of(children, program.names))
        results = collect(
            receiver(children), parties, patience=PATIENCE_SECONDS, names=program.names
        )
        for child in children:
            child.process.join(PATIENCE_SECONDS)
        return [unpack(result, "a return value") for result in results]
    finally:  # also after an interrupt
        for child in children:
            child.end()
