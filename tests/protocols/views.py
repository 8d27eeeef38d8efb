"""What a party sees: programs of one operation each, and a recorder of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tacit import Session
from tacit.kernels import bit_planes
from tacit.protocols import BitSum, clients
from tacit.protocols.quad.verification import TOTAL

SHIFT = 6
Message = tuple[int, Tensor]  # sender and tensor, in the order in which a party received them
Operation = Callable[[Any, Tensor], object]

# Each operation by itself: on secrets that are all equal to the values, for |values| < 2^20. -----


def shared(p: Any, v: Tensor, owner: int = 1) -> Any:
    return p.share(v, owner, limit=1 << 20)


def flags(p: Any, v: Tensor, owner: int = 1, width: int = 1) -> Any:
    return p.share_bits(bit_planes(v, width), owner, v.shape, width)


def product(p: Any, v: Tensor, shift: int = 0) -> Any:
    return p.mul(shared(p, v, 1), shared(p, v, 2), shift=shift)


def of_all_owners(p: Any, v: Tensor) -> None:
    for owner in range(p.parties):
        p.share(v, owner)
        flags(p, v, owner, 16)


def mixed(p: Any, v: Tensor) -> None:
    """Operations on results of operations, in one block and one after the other."""
    x, y = product(p, v, SHIFT), shared(p, v, 0)
    with p.parallel():
        negative, zero, z = p.sign(x), p.is_zero(y), p.mul(x, y)
    w = p.inject(p.bit_and(negative, p.bit_not(zero)), p.add(z, y))
    p.mul(w, p.truncate(p.mul(w, w, shift=SHIFT)))


def rows(v: Tensor) -> Tensor:
    return v[: len(v) // 4 * 4].reshape(-1, 4)


def of_a_client(p: Any, v: Tensor) -> None:
    """What a client gave is squared and goes back to it. Its seeds are fixed here."""
    held, sent = p.parts_held(p.parties), p.sent_part(p.parties)
    parts = {part for member in held for part in member} - {sent}
    seeds = {part: bytes([part]) * clients.SEED_BYTES for part in sorted(parts)}
    rest = v - sum(clients.expand(seed, v.shape, p.ring) for seed in seeds.values())
    own = {part: seed for part, seed in seeds.items() if part in held[p.rank]}
    masked = rest if sent in held[p.rank] else None
    message = clients.ClientInput(tuple(v.shape), p.ring.bits, own, masked)
    p.for_client(p.square(p.from_client(message, limit=1 << 20)))


def taken_over(p: Any, v: Tensor) -> None:
    """Parts of a secret and of its bits are shared anew, as those of another form are."""
    x, bits = shared(p, v), flags(p, v, 1, 16)
    held = p.parts_held(p.parties)
    p.from_parts(x.parts, held, x.shape)
    p.from_bit_parts(bits.parts, held, bits.shape, bits.width)


def hidden_rows(p: Any, v: Tensor) -> None:
    """A table whose rows each party may take."""
    for owner in range(p.parties):
        hidden_rows_of(owner)(p, v)


def hidden_rows_of(owner: int) -> Operation:
    """A table whose rows one party may take, if the protocol lets it."""

    def hide(p: Any, v: Tensor) -> None:
        if p.can_hide_rows(owner):
            p.hide_rows(shared(p, rows(v)), owner)

    return hide


OPERATIONS: dict[str, Operation] = {
    "share": of_all_owners,
    "mul": product,
    "square": lambda p, v: p.square(shared(p, v)),
    "matmul": lambda p, v: p.matmul(
        shared(p, v.reshape(-1, 8), 0), shared(p, v.reshape(8, -1)[:, :64], 2)
    ),
    "mul, divided": lambda p, v: p.settled(product(p, v, SHIFT)),
    "truncate": lambda p, v: p.truncate(shared(p, v).divided(SHIFT), exact=True),
    "truncate, probabilistic": lambda p, v: p.truncate(shared(p, v).divided(SHIFT), exact=False),
    "bit_and": lambda p, v: p.bit_and(flags(p, v, 1, 16), flags(p, v, 2, 16)),
    "bit_and of 4": lambda p, v: p.bit_and(*[flags(p, v, i % 3, 16) for i in range(4)]),
    "sign": lambda p, v: p.sign(p.share(v, 1)),
    "narrow sign": lambda p, v: p.sign(shared(p, v, 2)),
    "sign of a quotient": lambda p, v: p.sign(product(p, v, SHIFT)),
    "signs": lambda p, v: p.signs(shared(p, v), [0, 7, -9]),
    "is_zero": lambda p, v: p.is_zero(shared(p, v)),
    "inject": lambda p, v: p.inject(flags(p, v, 0), shared(p, v)),
    "inject of a quotient": lambda p, v: p.inject(flags(p, v, 2), product(p, v, SHIFT)),
    "inject_sums": lambda p, v: p.inject_sums(
        [flags(p, v, 0), flags(p, v, 1)],
        shared(p, v),
        [BitSum((1, -2), (3, 0)), BitSum((0, 0), (1, 1))],
    ),
    "relu": lambda p, v: p.relu(shared(p, v)),
    "relu of a quotient": lambda p, v: p.relu(product(p, v, SHIFT)),
    "max": lambda p, v: p.max(shared(p, v.reshape(-1, 4)), 1),
    "fourier": lambda p, v: p.fourier(shared(p, v), [0.5, 0.25], period_bits=20, fraction_bits=8),
    "exp_negative": lambda p, v: p.exp_negative(shared(p, v), fraction_bits=8),
    "saturated": lambda p, v: p.saturated(
        shared(p, v[:1024]), [0.5, 0.25], period_bits=12, fraction_bits=8, tails=(-256, 256)
    ),
    "hide_rows": hidden_rows,
    "hide_rows of party 2": hidden_rows_of(2),
    "mixed": mixed,
}

# What the protocols derive from their core. Rows have 4 elements.
DERIVED: dict[str, Operation] = {
    "sign, low": lambda p, v: p.sign(shared(p, v), low=3),
    "relu, low": lambda p, v: p.relu(product(p, v, SHIFT), low=2),
    "relu_with_bit": lambda p, v: p.relu_backward(p.relu_with_bit(shared(p, v))[1], shared(p, v)),
    "max, radix 4": lambda p, v: p.max(shared(p, rows(v)), 1, radix=4),
    "argmax": lambda p, v: p.argmax(shared(p, rows(v)), 1),
    "one_hot_argmax": lambda p, v: p.one_hot_argmax(shared(p, rows(v)), 1, radix=4),
    "sort": lambda p, v: p.sort(shared(p, rows(v)), 1),
    "topk": lambda p, v: p.topk(shared(p, rows(v)), 2, 1),
    "select": lambda p, v: p.select(flags(p, v), shared(p, v), shared(p, v, 2)),
    "equal": lambda p, v: p.equal(shared(p, v), shared(p, v, 0)),
    "refresh": lambda p, v: p.mul(p.refresh(shared(p, v)), p.refresh(shared(p, v, 2))),
    "random": lambda p, v: p.mul(p.random(v.shape), shared(p, v)),
    "clients": of_a_client,
    "from_parts": taken_over,
}


EVERY = OPERATIONS | DERIVED


# Recording --------------------------------------------------------------------------------------


class Recorder:
    """Keeps copies of the messages that a session receives from now on.

    A comparison of views is left out: what arrives adds up to what the receiver knows
    (tests/protocols/test_quad.py).
    """

    def __init__(self, session: Session) -> None:
        self.messages: list[Message] = []
        mesh: Any = session.mesh
        exchange = mesh.exchange

        def recording(send: Any, receive: Any, **kwargs: Any) -> dict[int, list[Tensor]]:
            received = exchange(send, receive, **kwargs)
            numbers = [[TOTAL]] * (session.parties - 1)
            compares = [list(specs) for specs in receive.values()] == numbers
            for peer, tensors in () if compares else sorted(received.items()):
                self.messages += [(peer, tensor.clone()) for tensor in tensors]
            return received

        mesh.exchange = recording

    def take(self) -> list[Message]:
        taken, self.messages = self.messages, []
        return taken


def rotated(session: Session, by: int) -> Any:
    """Returns the session's protocol with its roles rotated by `by` parties, if it has any."""
    protocol: Any = session.protocol
    return protocol.rotated(by) if hasattr(protocol, "rotated") else protocol


def views(session: Session, names: Sequence[str], value: int | Tensor, turn: int, n: int):
    """Returns what this party receives in each operation."""
    p = rotated(session, turn)
    v = torch.full((n,), value, dtype=p.ring.dtype) if isinstance(value, int) else value
    recorder, found = Recorder(session), {}
    for name in names:
        EVERY[name](p, v)
        found[name] = recorder.take()
    return found
