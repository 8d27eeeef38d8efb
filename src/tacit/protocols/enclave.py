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
from ..transport import Spec
from .base import Protocol
from .context import Context
from .products.bilinear import Bilinear
from .products.floats import in_floats
from .share import Arith, Bool, Plain
from .steps import PASS, Interactive, Round, Steps

Multiply = Callable[[Bilinear, Tensor, Tensor], Tensor]


def share(
    p: Enclave, value: Tensor | None, owner: int, shape: Sequence[int], dtype: torch.dtype
) -> Steps[Plain]:
    """Returns what `owner` gives: values at the enclaves, a shape at the parties. 1 round."""
    spec = Spec(tuple(shape), dtype)
    if p.is_enclave:
        return Plain((yield Round(receive={owner: [spec]}))[owner][0])
    if p.rank != owner:
        yield PASS
    elif value is None or tuple(value.shape) != spec.shape:
        raise ConfigError(
            "the owner, " + Party(owner) + f", has to give a value of shape {spec.shape}"
        )
    else:
        # Copies: what was sent must not be written to, and each enclave writes to its own.
        yield Round(send={enclave: [value.to(dtype, copy=True)] for enclave in p.enclaves})
    return Plain(torch.empty(spec.shape, dtype=dtype, device="meta"))


def reveal(
    p: Enclave, x: Plain, to: int | None = None, *, dtype: torch.dtype, to_dealer: bool = False
) -> Steps[Tensor | None]:
    """Returns the values at party `to`, or at every party; and at the enclaves. 1 round.

    The first enclave sends them. Each receiver gets an empty message of all other members, so that
    it compares its public record with theirs.
    """
    p.context.admit_reveal(x, to, dtype)
    receivers = range(p.parties) if to is None else (to,)
    others = [rank for rank in range(p.context.mesh.parties) if rank != p.rank]
    is_sender = p.rank == p.enclaves[0]
    send = {rank: [x.tensor.clone()] if is_sender else [] for rank in receivers if rank != p.rank}
    spec = Spec(tuple(x.shape), x.tensor.dtype)
    receive = {rank: [spec] if rank == p.enclaves[0] else [] for rank in others}
    received = yield Round(send=send, receive=receive if p.rank in receivers else {})
    if p.is_enclave:
        return x.tensor.clone()
    return received[p.enclaves[0]][0] if p.rank in receivers else None


class Enclave(Protocol):
    """The parties of a session with one or two enclaves.

    multiply: how products of floating-point tensors are computed at an enclave.
    """

    name = "enclave"
    form = "enclave"
    is_recordable = False
    can_interleave = False

    share = Interactive(share, Plain, owned=True)  # type: ignore[assignment]
    reveal = Interactive(reveal)
    multiply: Multiply = staticmethod(in_floats)

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
