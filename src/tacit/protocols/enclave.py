"""Secrets in plain inside an enclave, and nowhere else: the parties give inputs and get results.

All members of a session run the program. An enclave, which follows the parties in rank, holds every
value; at a party a secret is a shape. What a party gives goes to the enclaves over channels that
end inside them, and what the program reveals comes back the same way. Operations of torch run on
the values directly (`tensor/plain_rules.py`); products go through `multiply`, which may leave the
enclave masked (`tacit.enclave`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..crypto import joint_key, part_of_joint_key
from ..errors import ConfigError, Party
from ..kernels.activations import Integers
from ..transport import Spec
from .base import Protocol
from .context import Context
from .plain_memory import UNLIMITED, PlainMemory
from .products.bilinear import Bilinear
from .products.floats import in_floats
from .share import Arith, Bool, Plain
from .steps import PASS, Interactive, Round, Steps

Multiply = Callable[[Bilinear, Tensor, Tensor], Tensor | Integers]
PIECES = 16  # of a limited memory: one on its way takes so much of it


def share(
    p: Enclave, value: Tensor | None, owner: int, shape: Sequence[int], dtype: torch.dtype
) -> Steps[Plain]:
    """Returns what `owner` gives: values at the enclaves, a shape at the parties.

    1 round; in pieces if memory is limited, 1 round for each.
    """
    shape = torch.Size(shape)
    if p.rank == owner and (value is None or value.shape != shape):
        raise ConfigError(
            "the owner, " + Party(owner) + f", has to give a value of shape {tuple(shape)}"
        )
    whole = p.new_tensor("share", shape, dtype)
    flat = None if value is None else value.detach().reshape(-1)
    for part in p.pieces(shape, dtype):
        if p.is_enclave:
            spec = Spec((part.stop - part.start,), dtype)
            into = whole.view(-1)[part]
            with p.memory.working("share", 2 * into.nbytes):  # here, and on its way inside
                received = yield Round(receive={owner: [spec]})
                with p.memory.opened("share", [into], write=True):
                    into.copy_(received.pop(owner).pop())
        elif p.rank == owner and flat is not None:
            # Copies: what was sent must not be written to, and each enclave writes to its own.
            sent = {enclave: [flat[part].to(dtype, copy=True)] for enclave in p.enclaves}
            yield Round(send=sent)
        else:
            yield PASS
    return Plain(whole, p.memory)


def reveal(
    p: Enclave, x: Plain, to: int | None = None, *, dtype: torch.dtype, to_dealer: bool = False
) -> Steps[Tensor | None]:
    """Returns the values at party `to`; without it, at every party and at the enclaves.

    A program that writes down what is revealed to one party does so nowhere else: a file that an
    enclave writes lies with its host. 1 round; in pieces if memory is limited, 1 round for each.
    The first enclave sends them. Each receiver gets an empty message of all other members, so that
    it compares its public record with theirs.
    """
    p.context.admit_reveal(x, to, dtype)
    receivers = range(p.parties) if to is None else (to,)
    first, mine = p.enclaves[0], p.rank in receivers or (p.is_enclave and to is None)
    others = [rank for rank in range(p.context.mesh.parties) if rank != p.rank]
    flat = x.map(lambda tensor: tensor.reshape(-1)).tensor
    opened = torch.empty(x.shape, dtype=x.tensor.dtype) if mine else None
    for part in p.pieces(x.shape, flat.dtype):
        piece = flat[part]
        with p.memory.opened("reveal", [piece]), p.memory.working("reveal", piece.nbytes):
            send = {rank: [piece.clone()] if p.rank == first else [] for rank in receivers}
            spec = Spec(tuple(piece.shape), piece.dtype)
            receive = {rank: [spec] if rank == first else [] for rank in others}
            received = yield Round(
                send={rank: sent for rank, sent in send.items() if rank != p.rank},
                receive=receive if p.rank in receivers else {},
            )
            if p.memory.limit is not None:
                p.context.mesh.flush()  # what waits to be sent is inside, in plain
            if opened is not None:
                opened.view(-1)[part] = piece if p.is_enclave else received[first][0]
    return opened


class Enclave(Protocol):
    """The parties of a session with one or two enclaves.

    multiply: how products of floating-point tensors are computed at an enclave: floats, or integers
    that are to be read as float32.
    show: called at an enclave with each parameter of a module that its owner shares; workers may
    see it if the settings say so. precompute: see `Session.precompute`.
    memory: that of an enclave for secret tensors; without a limit at a party.
    """

    name = "enclave"
    form = "enclave"
    is_recordable = False
    can_interleave = False

    share = Interactive(share, Plain, owned=True)  # type: ignore[assignment]
    reveal = Interactive(reveal)
    multiply: Multiply = staticmethod(in_floats)
    show: Callable[[Tensor], None] = staticmethod(lambda weight: None)
    precompute: Callable[[int], None] = staticmethod(lambda calls: None)
    memory: PlainMemory = UNLIMITED

    def __init__(self, context: Context, *, enclaves: int = 1, exact: bool = True) -> None:
        self.helpers = enclaves  # type: ignore[misc]  # of this session
        super().__init__(context, exact=exact)

    @property
    def enclaves(self) -> range:
        """The ranks of the enclaves."""
        return range(self.parties, self.context.mesh.parties)

    @property
    def is_enclave(self) -> bool:
        """Whether this member holds the values."""
        return self.rank in self.enclaves

    def new_tensor(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Returns a tensor for values that are written next; a shape alone at a party."""
        if self.is_enclave:
            return self.memory.new(name, shape, dtype)
        return torch.empty(shape, dtype=dtype, device="meta")

    def pieces(self, shape: torch.Size, dtype: torch.dtype) -> list[slice]:
        """Returns the parts in which a flat tensor passes between members: one without a limit."""
        limit, size = self.context.memory_limit, max(shape.numel(), 1)
        step = size if limit is None else max(limit // PIECES // dtype.itemsize, 1)
        return [slice(i, min(i + step, shape.numel())) for i in range(0, size, step)]

    @property
    def own_parts(self) -> Sequence[int]:
        return (Plain.VALUE,) if self.is_enclave else ()

    def file_key(self, key: bytes | str) -> bytes | str:
        """Returns the party's own key; at an enclave, one made of secrets of all parties. 1 round.

        NOTE [files of an enclave]: its files lie with its host, and so would a key beside them. So
        each party sends the enclaves a secret that follows from its own key. Whoever wants to open
        what they keep needs those of all parties, and the code of an enclave that they accept.
        """
        mesh = self.context.mesh
        if self.is_enclave:
            parts = mesh.exchange_bytes({}, range(self.parties))
            return joint_key([parts[rank] for rank in range(self.parties)])
        part = part_of_joint_key(key)
        mesh.exchange_bytes(dict.fromkeys(self.enclaves, part), [])
        return key

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        return (Plain.VALUE,)

    def constant(self, value: Tensor, *, limit: int) -> Arith:
        raise NotImplementedError

    def constant_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        raise NotImplementedError
