"""The program that every party runs, and how its session is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from logging import getLogger
from pathlib import Path
from typing import Any

import torch

from ...config import Config
from ...crypto import KeyRing, agree_keys
from ...errors import HandshakeMismatch, naming_parties
from ...kernels import compile_ahead
from ...protocols import RevealPolicy, helper_names, key_groups, make_protocol, party_names
from ...transport import Mesh
from ...transport.consensus import agree
from ..deploy.security import dealer_warning
from ..placement import ON_CPU, PartyDevices
from ..preprocessing.store import Store, StoredRun
from ..preprocessing.taking import attach, take
from ..public_randomness import public_randomness
from ..report.report_file import measured_into
from ..session import Session
from .enclave_links import NO_LINKS, EnclaveLinks, attach_enclave

REVEALS_FILE = "reveals.jsonl"  # in a session's folder
LOG = getLogger("tacit")


@dataclass(frozen=True)
class Program:
    """`main` with its arguments, which every party runs, and the names and folders of its session.

    Each party writes to a subfolder of its name in `folder`. If `preprocessed` is given, a stored
    run from the subfolder of its name there takes the place of the dealer. If `measured` is given,
    each party writes to that folder what it spent, for a report; an enclave writes nothing.
    """

    main: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...]
    folder: Path | None = None
    resume: bool = False
    preprocessed: Path | None = None
    measured: Path | None = None

    def about(self, config: Config) -> dict[str, str]:
        """Returns what a stored run is made for: the program, the settings, the parties."""
        main = self.main
        name = f"{main.__module__}.{getattr(main, '__qualname__', type(main).__qualname__)}"
        return about_run(name, config, self.names)

    def run(
        self,
        mesh: Mesh,
        *,
        config: Config,
        session_id: bytes,
        devices: PartyDevices = ON_CPU,
        whole_process: bool = False,
        links: EnclaveLinks = NO_LINKS,
    ) -> Any:
        """Returns what `main` returns; closes the mesh, or aborts it if `main` raises; wipes keys.

        whole_process: whether this party has the process for itself. links: those of an enclave.
        """
        with naming_parties(self.names), devices.selected(), mesh, ExitStack() as ending:
            name, stored = self.names[mesh.rank], None
            if self.preprocessed is not None:
                about = self.about(config) | {"party": name}
                stored = ending.enter_context(take(mesh, Store(self.preprocessed / name), about))
            session = open_session(
                mesh,
                config=config,
                session_id=session_id,
                devices=devices,
                names=self.names,
                folder=None if self.folder is None else self.folder / name,
                resume=self.resume,
                stored=stored,
            )
            if session.is_enclave:
                attach_enclave(session, links)
            alike = public_randomness(session.keys, mesh.parties, whole_process=whole_process)
            with session.ending, alike, ExitStack() as measuring:
                if self.measured is not None and not session.is_enclave:
                    session = measured_into(self.measured, session)
                    measuring.enter_context(session.measured())
                result = self.main(session, *self.args, **self.kwargs)
                session.verify()
                return result


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
    stored: StoredRun | None = None,
) -> Session:
    """Returns a session over connected channels, with fresh keys. Two rounds.

    If the dealer's messages come from a stored run, so do the keys of groups with the dealer.
    """
    compile_ahead(devices.products)
    if devices.shares.type == "cuda":
        import_ahead()
    if names is None:
        names = (*party_names(mesh.parties - config.helpers), *helper_names(config))
    if warning := dealer_warning(config, names):
        LOG.warning("%s", warning)
    exchange, rank, parties = mesh.exchange_bytes, mesh.rank, mesh.parties
    groups = key_groups(config, parties, connected_dealer=stored is None)
    with mesh.stats.scope("keys"):
        keys = agree_keys(exchange, rank=rank, parties=parties, session=session_id, groups=groups)
    if stored is not None:
        keys = keys.with_keys(stored.keys)
        attach(mesh, stored)
        mesh.number_anew()
    mesh.place(devices.shares)
    product_device = devices.products
    return session_over(mesh, keys, config, product_device, names, folder=folder, resume=resume)


def import_ahead() -> None:
    """Imports what torch would import within the first call of an operation on a secret.

    Since 2.10 torch asks there whether a tensor is a distributed one, and imports all that belongs
    to those: seconds, in which kernels can be compiled.
    """
    if hasattr(torch._C, "_DTensor_OpSchema_post_init"):
        with suppress(ImportError):  # a torch that was built without them does not ask
            import_module("torch.distributed.tensor")


def session_over(
    mesh: Mesh,
    keys: KeyRing,
    config: Config,
    product_device: torch.device | None,
    names: Sequence[str],
    *,
    folder: Path | None = None,
    resume: bool = False,
) -> Session:
    """Returns a session with these keys; its end wipes them. No round."""
    count = mesh.parties - config.helpers
    record = None if folder is None else folder / REVEALS_FILE
    dealer = names[count] if config.helpers else ""
    reveal_policy = RevealPolicy(names[:count], dealer=dealer, allowed=config.reveals, file=record)
    operations = make_protocol(
        config, mesh, keys, product_device=product_device, reveal_policy=reveal_policy
    )
    session = Session(
        mesh=mesh,
        keys=keys,
        config=config,
        operations=operations,
        names=tuple(names),
        folder=folder,
        resume=resume,
    )
    session.ending.callback(keys.wipe)
    if operations is not None:
        session.ending.callback(operations.wipe)
    return session


def reopened(session: Session, mesh: Mesh, keys: KeyRing) -> Session:
    """Returns a session with the settings of another, over other channels and with these keys."""
    mesh.place(session.device)
    product_device = session.protocol.context.product_device
    return session_over(mesh, keys, session.config, product_device, session.names)


def about_run(program: str, config: Config, names: Sequence[str]) -> dict[str, str]:
    """Returns what must be the same when a stored run is made and when it is used, by name."""
    return {
        "program": program,
        "version of tacit": version("tacit"),
        "version of torch": torch.__version__.partition("+")[0],
        "list of parties": ", ".join(names),
        **{name: repr(value) for name, value in asdict(config).items()},
    }
