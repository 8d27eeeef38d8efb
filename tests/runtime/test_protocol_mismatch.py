"""Programs that use a session's protocol itself, and dtypes: what differs is caught there, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.runtime.mismatches import PROTOCOLS, Give, attempted, check
from torch import nn

import tacit
from tacit.errors import PartyFailed, PublicMismatch
from tacit.protocols import MATMUL, MUL, Arith, BitSum, Bool, Conv, Protocol
from tacit.protocols.steps import Interactive
from tacit.ring import Window
from tacit.runtime.session import Session

Case = Callable[[Any, Arith, int], Arith | Bool]

# The operation, its public operand, or its settings differ at the party with odd = 1.
FACTORS = torch.tensor([[5, 1, 2, 3], [5, 2, 2, 3]])  # the same largest one: limits do not tell
LOCAL: dict[str, Case] = {
    "add": lambda p, x, odd: p.add(x, x) if odd else p.sub(x, x),
    "sub": lambda p, x, odd: p.sub(x, p.neg(x)) if odd else p.sub(p.neg(x), x),
    "neg": lambda p, x, odd: p.neg(x) if odd else x,
    "add_public": lambda p, x, odd: p.add_public(x, 1 - 2 * odd),
    "add_public, tensor": lambda p, x, odd: p.add_public(x, FACTORS[odd]),
    "mul_public": lambda p, x, odd: p.mul_public(x, 1 - 2 * odd),
    "mul_public, tensor": lambda p, x, odd: p.mul_public(x, FACTORS[odd]),
    "bilinear_public": lambda p, x, odd: p.bilinear_public(
        MUL, x, torch.tensor([5, 1 + odd, 2, 3])
    ),
    "bilinear_public, side": lambda p, x, odd: p.bilinear_public(
        MATMUL, x.reshape(2, 2), torch.tensor([[1, 2], [2, 2]]), left=bool(odd)
    ),
    "bilinear_public, stride": lambda p, x, odd: p.bilinear_public(
        Conv(Window.make(1, 1, 0, 1 + odd)),
        x.reshape(1, 1, 4),
        torch.ones(1, 1, 1, dtype=torch.long),
    ),
    "bit_xor": lambda p, x, odd: p.bit_xor(p.sign(x), p.sign(x)) if odd else p.sign(x),
    "bit_xor_public": lambda p, x, odd: p.bit_xor_public(p.sign(x), torch.full((1, 1), odd)),
    "bit_and_public": lambda p, x, odd: p.bit_and_public(p.sign(x), torch.full((1, 1), odd)),
    "bit_not": lambda p, x, odd: p.bit_not(p.sign(x)) if odd else p.sign(x),
    "pack": lambda p, x, odd: p.bit_xor(p.sign(x), p.pack(torch.tensor([0, 0, 1, odd]))),
    "public": lambda p, x, odd: p.mul(x, p.public(FACTORS[odd])),
    "public_bits": lambda p, x, odd: p.inject(p.public_bits(torch.full((1, 1), odd), (4,)), x),
}
WITH_ROUNDS: dict[str, Case] = {
    "less_public": lambda p, x, odd: p.less_public(x, 2 + odd),
    "einsum": lambda p, x, odd: p.einsum(
        "ab,bc->ca" if odd else "ab,bc->ac", *[x.reshape(2, 2)] * 2
    ),
    "conv": lambda p, x, odd: p.conv(
        x.reshape(1, 1, 4), x.reshape(1, 1, 4)[..., :1], dilation=1 + odd
    ),
    "inject_sums": lambda p, x, odd: p.inject_sums([p.sign(x)], x, [BitSum((1 + odd,), (0,))])[0],
}
CALLS = LOCAL | WITH_ROUNDS


def revealed(s: Session, case: Case, odd: int) -> torch.Tensor | None:
    x = s.protocol.share(torch.tensor([3, -1, 4, -1]) if s.rank == 0 else None, 0, (4,), limit=8)
    found: torch.Tensor | None = s.protocol.reveal(case(s.protocol, x, odd))
    return found


@pytest.mark.parametrize("name", CALLS)
def test_every_party_finds_a_difference_in_a_call_of_the_protocol(name: str) -> None:
    which = list(CALLS).index(name)

    def program(s: Session, give: Give) -> None:
        give(revealed(s, CALLS[name], int(s.rank == which % 3)))

    check(program, PROTOCOLS[which % 2])
    tacit.run(lambda s: revealed(s, CALLS[name], 1), protocol="cleartext")  # equal: no error


def test_every_operation_of_a_protocol_is_recorded() -> None:
    """A new method is either interactive, local, or named here as one that meets no secret."""
    unrecorded = {"aligned", "constant", "constant_bits", "constant_parts", "parallel"}
    unrecorded |= {"verify", "wipe", "turn_roles", "file_key", "can_hide_rows"}
    unrecorded |= {"rounded_locally"}  # is a part of maxima
    derived = {"mul", "square", "matmul", "outer", "einsum", "conv"}  # call `bilinear`
    named = set(dir(Protocol)) - unrecorded - derived
    for name in named:
        method = vars(next(c for c in Protocol.__mro__ if name in vars(c))).get(name)
        if name.startswith("_") or not callable(method):
            continue
        assert isinstance(method, Interactive) or method.__module__.endswith("core"), name
        assert isinstance(method, Interactive) or hasattr(method, "__wrapped__"), name
    assert {name.partition(",")[0] for name in LOCAL} <= named


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_operator_of_torch_adds_one_entry(protocol: str) -> None:
    def program(s: Session) -> list[int]:
        x, counts = s.share(torch.ones(4, 4), owner=0), []
        record = s.protocol.context.record
        for call in (lambda: x * 0.3 + 1, lambda: x @ torch.eye(4), lambda: (x / 3).exp()):
            before = record.count
            call()
            counts.append(record.count - before)
        return counts

    assert tacit.run(program, protocol=protocol) == [[2, 1, 2]] * 3


def test_a_client_gets_nothing_that_the_parties_differ_about() -> None:
    def program(s: Session, give: Give) -> None:
        p = s.protocol
        x = p.share(torch.tensor([3, 4]) if s.rank == 0 else None, 0, (2,), limit=8)
        give(p.for_client(p.mul_public(x, 2 + (s.rank == 2))))

    for protocol in ("trio", "replicated"):
        check(program, protocol)


# Dtypes: that of a secret follows from the record -------------------------------------------------

integers, odd_at = torch.arange(6).reshape(2, 3), 1
DTYPES: dict[str, Callable[[torch.Tensor, bool], torch.Tensor]] = {
    "to": lambda x, odd: x.to(torch.int64 if odd else torch.float32),
    "to in place of another": lambda x, odd: x.float() if odd else x + 0,
    "bool": lambda x, odd: x.bool() if odd else x.to(torch.uint8),
    "type_as": lambda x, odd: x.type_as(torch.ones(1) if odd else torch.ones(1, dtype=torch.int32)),
    "scalar": lambda x, odd: x * (2.0 if odd else 2),
    "operand": lambda x, odd: x + torch.ones(3, dtype=torch.float32 if odd else torch.int64),
    "sum": lambda x, odd: x.sum(0, dtype=torch.float32 if odd else torch.int64),
    "zeros_like": lambda x, odd: torch.zeros_like(x, dtype=torch.float32 if odd else None),
    "new_ones": lambda x, odd: x.new_ones(2, dtype=torch.float32 if odd else torch.int64),
    "empty_like": lambda x, odd: torch.empty_like(x, dtype=torch.float32 if odd else None).fill_(1),
    "data": lambda x, odd: with_data(x, integers.float() if odd else integers),
}


def with_data(x: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    x.data = data
    return x


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_that_differs_is_found_where_it_arises(name: str) -> None:
    """The result has another dtype at one party, and is used before anything is revealed."""

    def program(s: Session, give: Give) -> None:
        x = DTYPES[name](s.share(integers, owner=0), s.rank == odd_at)
        give(s.reveal((x * 3).sum()))

    check(program, "cleartext")


def test_dtypes_are_compared_when_tensors_and_modules_are_shared() -> None:
    def tensor(s: Session, give: Give) -> None:
        value = integers if s.rank == 0 else None
        dtype = torch.float32 if s.rank == odd_at else torch.int64
        give(s.reveal(s.share(value, owner=0, shape=(2, 3), dtype=dtype)))

    for error, given in tacit.run(attempted, tensor):
        assert isinstance(error, PublicMismatch)
        assert "int64" in str(error)
        assert "float32" in str(error)
        assert not given
    with pytest.raises(PartyFailed, match="float64"):
        tacit.run(lambda s: s.share(nn.Linear(2, 2).to(WIDTHS[s.rank]), owner=0))


WIDTHS = (torch.float32, torch.float64, torch.float32)


@pytest.mark.full("test_a_dtype_that_differs_is_found_where_it_arises")
def test_another_default_dtype_is_found_by_the_reveal() -> None:
    """Real dtypes have the same fraction bits, so that nothing is wrong before."""
    with pytest.raises(PartyFailed) as caught:
        tacit.run(with_another_default, transport="processes")
    assert caught.value.kind == "PublicMismatch"
    assert caught.value.op == "reveal"


def with_another_default(s: Session) -> Any:
    if s.rank == odd_at:
        torch.set_default_dtype(torch.float64)
    return s.reveal(s.share(integers, owner=0) / 4)
