"""Small programs, which yield what they open; each is also run on plain values.

They are written for four parties; of three, party 0 gives what party 3 would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from tacit import Session
from tacit.kernels import bit_planes
from tacit.protocols import BitSum
from tacit.testing import Program, run_corrupted

SHIFT = 5
VALUES = (5, -3, 0, 100, -70)

# One operation each, as a function of a protocol that returns a share ---------------------------


def given(p: Any, owner: int = 1, values: tuple[int, ...] = VALUES) -> Any:
    return p.share(torch.tensor(values, dtype=p.ring.dtype), owner % p.parties, limit=1 << 9)


def flags(p: Any, owner: int = 2, width: int = 1) -> Any:
    values = torch.tensor(VALUES)
    return p.share_bits(bit_planes(values, width), owner % p.parties, values.shape, width)


def long(p: Any) -> Any:
    """70 elements: two words of planes, one of which is not full."""
    return p.share(torch.arange(-35, 35, dtype=p.ring.dtype), 3 % p.parties, limit=1 << 9)


def of_all_owners(p: Any) -> Any:
    one, two, three, four = (given(p, owner) for owner in range(4))
    return p.add(p.add(one, two), p.add(three, four))


def bits_of_all_owners(p: Any) -> Any:
    one, two, three, four = (flags(p, owner, 3) for owner in range(4))
    return p.bit_xor(p.bit_xor(one, two), p.bit_xor(three, four))


def and_of(count: int) -> Callable[[Any], Any]:
    return lambda p: p.bit_and(*[flags(p, 2, 3), flags(p, 0, 3)] * (count // 2), *_odd(p, count))


def _odd(p: Any, count: int) -> list[Any]:
    return [flags(p, 3, 3)] if count % 2 else []


def sums(p: Any) -> Any:
    bits = [flags(p, 0), flags(p, 2)]
    one, two = p.inject_sums(bits, given(p), [BitSum((1, -2), (3, 0)), BitSum((0, 0), (1, 1))])
    return p.add(one, two)


def thresholds(p: Any) -> Any:
    one, two = p.signs(given(p), [4, -9])
    return p.bit_xor(one, two)


def matrices(p: Any) -> Any:
    x = given(p, 0, (1, 2, -3, 4, 5, -6))
    return p.matmul(x.map(lambda t: t.view(2, 3)), x.map(lambda t: t.view(3, 2)))


def convolution(p: Any) -> Any:
    image = given(p, 3, tuple(range(9))).map(lambda t: t.view(1, 1, 3, 3))
    return p.conv(image, given(p, 0, (1, -2, 3, 4)).map(lambda t: t.view(1, 1, 2, 2)), shift=SHIFT)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "share": of_all_owners,
    "share_bits": bits_of_all_owners,
    "mul": lambda p: p.mul(given(p), given(p, 0)),
    "mul, divided": lambda p: p.mul(given(p), given(p, 3), shift=SHIFT),
    "square": lambda p: p.square(given(p)),
    "matmul": matrices,
    "conv": convolution,
    "truncate": lambda p: p.truncate(given(p).divided(SHIFT), exact=True),
    "truncate, probabilistic": lambda p: p.truncate(given(p).divided(SHIFT), exact=False),
    "bit_and of 2": and_of(2),
    "bit_and of 3": and_of(3),
    "bit_and of 4": and_of(4),
    "sign": lambda p: p.sign(given(p)),
    "sign of 70": lambda p: p.sign(long(p)),
    "signs": thresholds,
    "is_zero": lambda p: p.is_zero(given(p)),
    "inject": lambda p: p.inject(flags(p), given(p)),
    "inject of a quotient": lambda p: p.inject(flags(p), p.square(given(p), shift=SHIFT)),
    "inject_sums": sums,
    "relu": lambda p: p.relu(given(p)),
    "relu of a quotient": lambda p: p.relu(p.mul(given(p), given(p, 0), shift=SHIFT)),
    "max": lambda p: p.max(given(p), 0),
    "sort": lambda p: p.sort(given(p, 0, (3, -1, 2)), 0),
    "refresh": lambda p: p.mul(p.refresh(given(p)), p.refresh(given(p, 2))),
}


def one_operation(name: str, session: Session) -> Iterator[Tensor]:
    """Opens the result of an operation to all."""
    p = session.protocol
    yield p.reveal(OPERATIONS[name](p))


# Several reveals, and modules of torch -----------------------------------------------------------


def reveals(session: Session) -> Iterator[Tensor | None]:
    """Opens to one party, then to all, numbers and bits, what depends on what came before."""
    p = session.protocol
    x = given(p, 0)
    yield p.reveal(x, 2)
    y = p.mul(x, given(p, 3))
    yield p.reveal(y)
    yield p.reveal(p.sign(y), 1)


def verified(session: Session) -> Iterator[Tensor]:
    """Opens nothing: compares all views, and goes on."""
    p: Any = session.protocol
    p.mul(given(p), given(p, 0))
    p.verify()
    yield torch.ones(1)


def sorting(session: Session) -> Iterator[Tensor]:
    x = session.share(torch.tensor([0.5, -1.0, 2.0, 0.25]), owner=1)
    yield session.reveal(x.sort()[0])


def inference(session: Session) -> Iterator[Tensor]:
    """A convolution, a ReLU, a pooling and a linear layer."""
    torch.manual_seed(1)
    layers = nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2, 2)
    model = session.share(nn.Sequential(*layers), owner=0)
    x = session.share(torch.linspace(-1, 1, 16).reshape(1, 1, 4, 4), owner=3 % session.parties)
    yield session.reveal(model(x))


def training_step(session: Session) -> Iterator[Tensor]:
    torch.manual_seed(1)
    model = session.share(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)), owner=0)
    x = session.share(torch.linspace(-1, 1, 6).reshape(2, 3), owner=1)
    y = session.share(torch.tensor([[0.5], [-0.5]]), owner=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    yield session.reveal(model[0].weight)


def mixed(session: Session) -> Iterator[Tensor | None]:
    """An inference, a step of training, a sort and reveals."""
    for program in (inference, training_step, sorting, reveals):
        yield from program(session)


PROGRAMS: dict[str, Program] = {
    **{name: partial(one_operation, name) for name in OPERATIONS},
    "reveals": reveals,
    "verified": verified,
    "sorting": sorting,
    "inference": inference,
    "training": training_step,
    "mixed": mixed,
}


# What they open ----------------------------------------------------------------------------------


@cache
def expected(name: str, ring: int, parties: int = 4) -> list[tuple[Any, ...]]:
    """What the program opens at each party on plain values."""
    endings = run_corrupted(
        PROGRAMS[name], None, protocol="cleartext", parties=parties, ring=ring, fraction_bits=8
    )
    assert all(ending.error is None for ending in endings)
    return [ending.opened for ending in endings]


def is_right(found: Any, plain: Any) -> bool:
    """Whether an opened value is that of plain values, but for the rounding of divisions."""
    if found is None or plain is None:
        return found is plain
    if found.is_floating_point():
        return bool(torch.allclose(found, plain, atol=0.06))
    return found.shape == plain.shape and bool((found.long() - plain.long()).abs().le(1).all())
