"""The program that every party runs, and how its session is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any

from ...config import Config
from ...crypto import agree_keys
from ...errors import HandshakeMismatch, naming_parties
from ...protocols import RevealPolicy, helper_names, key_groups, make_protocol, party_names
from ...transport import Mesh
from ...transport.consensus import agree
from ..deploy.security import dealer_warning
from ..placement import ON_CPU, PartyDevices
from ..public_randomness import public_randomness
from ..session import Session

REVEALS_FILE = "reveals.jsonl"  # in a session's folder
LOG = getLogger("tacit")


@dataclass(frozen=True)
class Program:
    """`main` with its arguments, which every party runs, and the names and folders of its session.

    Each party writes to a subfolder of its name in `folder`.
    """

    main: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...]
    folder: Path | None = None
    resume: bool = False

    def run(
        self,
        mesh: Mesh,
        *,
        config: Config,
        session_id: bytes,
        devices: PartyDevices = ON_CPU,
        whole_process: bool = False,
    ) -> Any:
        """Returns what `main` returns; closes the mesh, or aborts it if `main` raises; wipes keys.

        whole_process: whether this party has the process for itself.
        """
        with naming_parties(self.names), devices.selected(), mesh:
            session = open_session(
                mesh,
                config=config,
                session_id=session_id,
                devices=devices,
                names=self.names,
                folder=None if self.folder is None else self.folder / self.names[mesh.rank],
                resume=self.resume,
            )
            alike = public_randomness(session.keys, mesh.parties, whole_process=whole_process)
            with session.ending, alike:
                return self.main(session, *self.args, **self.kwargs)


def compare_settings(mesh: Mesh, items: Mapping[str, str]) -> None:
    """Raises HandshakeMismatch at every party, and ends the run, unless all have the same items.

    This is the second half of the handshake, so `mesh.stats` does not count it.
    """
    before = mesh.stats.snapshot()
    remedy = "nothing was run and nothing shared. Start all parties with the same"
    try:
        agree(mesh, items, error=HandshakeMismatch, remedy=remedy)
    except BaseException as error:
        mesh.abort(error)
        raise
    mesh.stats.take_back(before)


def open_session(
    mesh: Mesh,
    *,
    config: Config,
    session_id: bytes,
    devices: PartyDevices = ON_CPU,
    names: Sequence[str] | None = None,
    folder: Path | None = None,
    resume: bool = False,
) -> Session:
    """Returns a session over connected channels, with fresh keys. Two rounds."""
    count = mesh.parties - config.helpers
    default = (*party_names(count), *helper_names(config.helpers))
    names = default if names is None else tuple(names)
    if warning := dealer_warning(config, names):
        LOG.warning("%s", warning)
    record = None if folder is None else folder / REVEALS_FILE
    reveal_policy = RevealPolicy(names[:count], allowed=config.reveals, file=record)
    exchange, rank, parties = mesh.exchange_bytes, mesh.rank, mesh.parties
    groups = key_groups(config, parties)
    with mesh.stats.scope("keys"):
        keys = agree_keys(exchange, rank=rank, parties=parties, session=session_id, groups=groups)
    mesh.place(devices.shares)
    operations = make_protocol(
        config, mesh, keys, product_device=devices.products, reveal_policy=reveal_policy
    )
    session = Session(
        mesh=mesh,
        keys=keys,
        config=config,
        operations=operations,
        names=names,
        folder=folder,
        resume=resume,
    )
    session.ending.callback(keys.wipe)
    if operations is not None:
        session.ending.callback(operations.context.streams.wipe)
    return session
