"""One party's side of a run, and how it is opened and ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from ..config import Config
from ..crypto import KeyRing, agree_keys
from ..errors import ConfigError
from ..fixedpoint import Numbers
from ..nn import reveal, share
from ..protocols import Protocol, make_protocol
from ..transport import Hello, Limits, Mesh, Stats
from ..transport.memory import Desk
from .place import ON_CPU, Place


@dataclass(frozen=True, kw_only=True)
class Session:
    """What `main` gets at each party: who it is, its channels to the others, and its keys."""

    mesh: Mesh = field(repr=False)
    keys: KeyRing = field(repr=False)
    config: Config
    operations: Protocol | None = field(repr=False)

    @property
    def rank(self) -> int:
        return self.mesh.rank

    @property
    def parties(self) -> int:
        return self.mesh.parties

    @property
    def protocol(self) -> Protocol:
        """What can be computed on secrets."""
        if self.operations is None:
            raise ConfigError(
                'this session has protocol="none", channels and keys only: choose a protocol'
            )
        return self.operations

    @cached_property
    def numbers(self) -> Numbers:
        """The arithmetic of secret tensors."""
        config = self.config
        return Numbers(
            self.protocol,
            fraction_bits=config.fraction_bits,
            range_bits=config.range_bits,
            debug=config.debug,
        )

    def share(self, value: Any, owner: int, shape: Sequence[int] | None = None) -> Any:
        """The owner's tensor or module, or a list, tuple or dict of them, as secrets.

        The others give a tensor of the same shape and dtype, or for one tensor None and its shape;
        what their tensors hold is ignored. A module keeps its class and code; its parameters and
        floating buffers become secret, in place.
        """
        return share(self.numbers, value, owner, shape)

    def reveal(self, secret: Any, to: int | None = None) -> Any:
        """The plain tensor or module at every party, or at party `to` and None elsewhere."""
        return reveal(self.numbers, secret, to)

    @property
    def device(self) -> torch.device:
        """Where this party's shares lie; a secret tensor says `cpu` wherever they are."""
        return self.mesh.device

    @property
    def stats(self) -> Stats:
        return self.mesh.stats


@dataclass(frozen=True)
class Program:
    """`main` with its arguments: what every party runs."""

    main: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def play(self, mesh: Mesh, *, config: Config, session_id: bytes, place: Place = ON_CPU) -> Any:
        """What `main` returns at this party; the mesh is closed, or aborted if `main` raises."""
        with place.entered(), mesh:
            session = open_session(mesh, config=config, session_id=session_id, place=place)
            return self.main(session, *self.args, **self.kwargs)


def open_session(
    mesh: Mesh, *, config: Config, session_id: bytes, place: Place = ON_CPU
) -> Session:
    """A session over connected channels, with fresh keys. One round."""
    exchange, rank, parties = mesh.exchange_bytes, mesh.rank, mesh.parties
    with mesh.stats.scope("keys"):
        keys = agree_keys(exchange, rank=rank, parties=parties, session=session_id)
    mesh.place(place.shares)
    operations = make_protocol(config, mesh, keys, products=place.products)
    return Session(mesh=mesh, keys=keys, config=config, operations=operations)


def make_hello(config: Config, *, session_id: bytes, rank: int, parties: int) -> Hello:
    """What a party says of itself and of its settings before it starts."""
    return Hello(
        session=session_id,
        rank=rank,
        parties=parties,
        ring=config.ring,
        protocol=config.protocol,
        digest=config.digest(),
    )


def lone_mesh(limits: Limits) -> Mesh:
    """The mesh of a run with one party, who has nobody to talk to."""
    return Mesh(0, (), Desk(()), limits)
