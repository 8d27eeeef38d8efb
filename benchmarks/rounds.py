"""Rounds and bytes of the functions and layers that take many rounds: `trio`, three threads.

Each is called as it is, and recorded (`session.repeated`), where rounds that do not depend on each
other are merged. The rounds are those until the result can be revealed, its division included, and
do not depend on the machine. A row is beside what the same program counted at commit d794c6b.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn import functional as F

import tacit

ROWS, TOKENS, WIDTH, HEADS, HIDDEN = 4, 128, 64, 4, 128


class LlamaLayer(nn.Module):
    """A decoder layer as in LLaMA: RMS norms, rotary positions, causal attention, a gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        size = WIDTH // HEADS
        angles = torch.arange(TOKENS)[:, None] * 1e4 ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention_norm(x)
        q, k, v = (self._heads(projection(y)) for projection in (self.q, self.k, self.v))
        q, k = self._rotated(q), self._rotated(k)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(heads.transpose(1, 2).reshape(x.shape))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def _rotated(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin


class Case(NamedTuple):
    """A function or module, the shape of its argument, and rounds.

    before: at commit d794c6b. most: what a test allows as it is, and recorded. target: of the
    recorded call, if there is one.
    """

    call: Callable[[Tensor], Any]
    shape: tuple[int, ...]
    before: int
    most: tuple[int, int]
    target: int | None = None


def softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def argmax(x: Tensor) -> Tensor:
    return x.argmax(-1)


def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, activation="gelu", batch_first=True)


ROW, SEQUENCE = (ROWS, TOKENS), (1, TOKENS, WIDTH)
CASES: dict[str, Case] = {
    "softmax of 8": Case(softmax, (ROWS, 8), 31, (12, 12)),
    "softmax of 128": Case(softmax, ROW, 47, (17, 17), 24),
    "softmax of 200": Case(softmax, (ROWS, 200), 51, (20, 20)),
    "argmax of 50,000": Case(argmax, (1, 50000), 64, (21, 21)),
    "reciprocal": Case(torch.reciprocal, ROW, 14, (8, 8)),
    "rsqrt": Case(torch.rsqrt, ROW, 14, (3, 3)),
    "exp": Case(torch.exp, ROW, 4, (3, 3)),
    "GELU": Case(F.gelu, ROW, 4, (3, 3)),
    "SiLU": Case(F.silu, ROW, 4, (3, 3)),
    "sigmoid": Case(torch.sigmoid, ROW, 4, (2, 2)),
    "LayerNorm": Case(nn.LayerNorm(TOKENS), ROW, 21, (9, 9)),
    "RMSNorm": Case(nn.RMSNorm(TOKENS), ROW, 20, (8, 8)),
    "LSTM cell": Case(nn.LSTMCell(16, 16), (2, 16), 24, (6, 6), 6),
    "GRU cell": Case(nn.GRUCell(16, 16), (2, 16), 16, (7, 7)),
    "LSTM of 2 layers, 8 steps": Case(nn.LSTM(16, 16, 2), (8, 2, 16), 226, (54, 54)),
    "BERT layer": Case(encoder_layer(), SEQUENCE, 107, (51, 50), 60),
    "LLaMA layer": Case(LlamaLayer(), SEQUENCE, 120, (65, 54), 60),
}
WAYS = ("as it is", "recorded")


class Count(NamedTuple):
    """What one call cost one party."""

    rounds: int
    sent: int


def count(session: tacit.Session, names: list[str]) -> dict[str, dict[str, Count]]:
    """Returns the costs of each case by way, at this party."""
    return {name: _both_ways(session, CASES[name]) for name in names}


def _both_ways(session: tacit.Session, case: Case) -> dict[str, Count]:
    torch.manual_seed(1)
    secret = session.share(torch.rand(case.shape) + 0.5, owner=0)
    call = case.call
    if isinstance(call, nn.Module):
        call = session.share(deepcopy(call).eval(), owner=0)

    def result(x: Tensor) -> Tensor:
        made = call(x)
        while isinstance(made, tuple):
            made = made[0]
        return made

    recorded = session.repeated(result)
    with torch.no_grad():
        found = {"as it is": _counted(session, result, secret)}
        for _ in range(3):  # the first calls record, and check the recording
            recorded(secret)
        return found | {"recorded": _counted(session, recorded, secret)}


def _counted(session: tacit.Session, call: Callable[[Tensor], Tensor], x: Tensor) -> Count:
    with session.stats.scope("case") as cost:
        session.reveal(call(x), to=0)
    return Count(cost.rounds, cost.bytes_sent)


def measured(names: list[str]) -> dict[str, dict[str, list[Count]]]:
    """Returns the costs of each case by way and party."""
    parties = tacit.run(count, names, parties=3, transport="threads", protocol="trio")
    return {name: {way: [one[name][way] for one in parties] for way in WAYS} for name in names}


def rows() -> list[Row]:
    """Returns a row for each case and way; `python -m benchmarks rounds` prints them."""
    return [
        _row(f"{name}, {way}", CASES[name], found[way], recorded=way == "recorded")
        for name, found in measured(list(CASES)).items()
        for way in WAYS
    ]


def _row(name: str, case: Case, counts: list[Count], *, recorded: bool) -> Row:
    target = case.target / case.before if recorded and case.target else None
    sent = ", ".join(f"{one.sent / 2**10:,.0f}" for one in counts)
    return Row(
        name=name,
        value=max(one.rounds for one in counts),
        unit="rounds",
        baseline="at d794c6b",
        baseline_value=case.before,
        note=f"KiB sent by parties 0 (ahead), 1 and 2: {sent}",
        target=target,
        lower_is_better=True,
    )
