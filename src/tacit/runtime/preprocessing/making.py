"""Making stored runs: a rehearsal by all members, then one run of the dealer for each file.

See NOTE [stored runs] in transport/stored.py and NOTE [blind] in protocols/blind.py. NOTE [keys of
stored runs]: for each run, every group of members with the dealer in it derives a key of its own
from its key of this session, which is fresh. A label names the batch and the run, so no two runs
and no session draw from the same stream. The dealer forgets these keys; each party keeps those that
it holds in its file. The keys of groups without the dealer are agreed on when the run is used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...crypto import KeyRing, wipe
from ...errors import ConfigError, naming_parties
from ...protocols import Protocol
from ...protocols.masked.base import MaskedBase
from ...transport import Limits, Mesh
from ...transport.consensus import agree
from ...transport.stored import NoPeers, Recording, WritingChannel
from ..launch.enclave_links import NO_LINKS, EnclaveLinks
from ..launch.program import Program, open_session, reopened
from ..placement import ON_CPU, PartyDevices
from ..public_randomness import public_randomness
from ..session import Session
from .shipping import Shipment, arriving
from .store import RunHeader, Store


@dataclass(frozen=True)
class Batch:
    """What one preprocessing makes: so many runs of `main(session)`.

    about: program, settings and parties by name, as the header of a run has them. whole_process:
    whether this member has the process for itself.
    """

    runs: int
    main: Callable[[Session], Any]
    about: Mapping[str, str]
    whole_process: bool = False

    def rehearse(self, session: Session) -> None:
        """Runs the program; nothing is opened."""
        session.protocol.context.blind = True
        members = session.mesh.parties
        with public_randomness(session.keys, members, whole_process=self.whole_process):
            self.main(session)


def make_runs(session: Session, batch: Batch, store: Store) -> list[str]:
    """Makes the stored runs of all members of a session, and returns their identities.

    All members run the program once, and the dealer once more for each run.
    """
    mesh, dealer = session.mesh, dealer_of(session.protocol)
    agree(mesh, {"runs": str(batch.runs), **batch.about}, topic="preprocess")
    peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
    recording = Recording(peers)
    mesh.barrier = None  # a recorded graph would leave out messages
    mesh.number_anew()
    mesh.recorder = recording if mesh.rank == dealer else None
    batch.rehearse(session)
    mesh.recorder = None
    name = session.keys.key(range(mesh.parties)).derive("batch of stored runs", 8).hex()
    made = [f"{name}-{index:06}" for index in range(batch.runs)]
    for index, run in enumerate(session.loops.counted(made, "runs", len(made))):
        header = RunHeader(run, dealer, dict(batch.about) | {"party": session.name})
        keys = session.keys.of_stored_run(dealer, run)
        if mesh.rank != dealer:
            store.write(header, keys, arriving(mesh, dealer, index))
        else:
            shipments = {peer: Shipment(mesh, peer, index) for peer in peers}
            _deal(session, batch, keys, recording, shipments)
            if dealer < session.parties:
                store.write(header, keys, ())
        for secret in keys.values():
            wipe(secret)
    return made


def dealer_of(protocol: Protocol) -> int:
    """Returns the rank of the dealer; raises ConfigError for a protocol without stored runs."""
    if not isinstance(protocol, MaskedBase):
        raise ConfigError(
            f"protocol={protocol.name!r} has no stored runs",
            limit="they hold what the dealer of masked evaluation sends",
            remedy="choose 'additive' or 'trio'",
        )
    return protocol.roles.dealer


def _deal(
    session: Session,
    batch: Batch,
    keys: Mapping[tuple[int, ...], bytes],
    recording: Recording,
    shipments: Mapping[int, Shipment],
) -> None:
    """Runs the program as the dealer, alone, and sends each party the frames that are for it."""
    is_party = session.rank < session.parties  # then only what is sent ahead is stored
    channels = [
        WritingChannel(peer, recording.messages[peer], None if is_party else shipment)
        for peer, shipment in shipments.items()
    ]
    mesh = Mesh(session.rank, channels, NoPeers(), Limits())
    ring = KeyRing(session.rank, {}).with_keys(keys)
    if is_party:
        channels = [WritingChannel(peer, (), shipment) for peer, shipment in shipments.items()]
        for channel in channels:
            mesh.attach_ahead(channel)
    alone = reopened(session, mesh, ring)
    with alone.ending:
        batch.rehearse(alone)
        for channel, shipment in zip(channels, shipments.values(), strict=True):
            channel.end(mesh.record)
            shipment.end()


@dataclass(frozen=True)
class Preprocessing(Program):
    """A program whose runs are stored, in a subfolder for each party of `preprocessed`."""

    runs: int = 1

    def run(
        self,
        mesh: Mesh,
        *,
        config: Any,
        session_id: bytes,
        devices: PartyDevices = ON_CPU,
        whole_process: bool = False,
        links: EnclaveLinks = NO_LINKS,
    ) -> list[str]:
        """Makes the stored runs of this member; returns their identities."""
        assert self.preprocessed is not None
        with naming_parties(self.names), devices.selected(), mesh:
            session = open_session(
                mesh, config=config, session_id=session_id, devices=devices, names=self.names
            )
            about = self.about(config)
            batch = Batch(self.runs, self._fresh_main, about, whole_process)
            with session.ending:
                return make_runs(session, batch, Store(self.preprocessed / session.name))

    def _fresh_main(self, session: Session) -> Any:
        """Runs `main` with copies of its arguments: it may share a module, in place."""
        args, kwargs = copy.deepcopy((self.args, self.kwargs))
        return self.main(session, *args, **kwargs)
