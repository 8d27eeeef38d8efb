"""Three processes, TLS between them, and a picture that is classified without anybody seeing it.

Party 0 has a trained network, party 1 has noisy pictures of digits, party 2 has nothing and helps.
The network runs on shares: convolution, ReLU, max-pooling, a linear layer and the position of the
largest score. Party 1 learns the digits; nobody learns the pictures, the weights, or anything else.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
from torch import Tensor, nn

import tacit
from tacit.protocols import Arith, Protocol

MODEL, PICTURES = 0, 1  # who has what
COUNT, SIZE, CHANNELS = 64, 8, 8
FRACTION_BITS = 16
SHAPES = {
    "0.weight": (CHANNELS, 1, 3, 3),
    "0.bias": (CHANNELS,),
    "4.weight": (10, CHANNELS * SIZE * SIZE // 4),
    "4.bias": (10,),
}
# The digits, five columns and seven rows each, as bits of rows.
GLYPHS = [
    "0E1113151911 0E", "04 0C0404040 40E", "0E11010204081F", "1F020402 01110E", "02060A121F0202",
    "1F101E 0101110E", "06 08101E11110E", "1F01020408 0808", "0E11110E11110E", "0E11110F01020C",
]  # fmt: skip


def pictures(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Digits with noise, and which they are."""
    generator = torch.Generator().manual_seed(seed)
    clean = torch.zeros(10, 1, SIZE, SIZE)
    for digit, text in enumerate(GLYPHS):
        for y, row in enumerate(bytes.fromhex(text.replace(" ", ""))):
            for x in range(5):
                clean[digit, 0, y, x + 1] = row >> (4 - x) & 1
    labels = torch.randint(10, (count,), generator=generator)
    noise = 0.35 * torch.randn(count, 1, SIZE, SIZE, generator=generator)
    return clean[labels] + noise, labels


def network() -> nn.Sequential:
    conv = nn.Conv2d(1, CHANNELS, 3, padding=1)
    linear = nn.Linear(CHANNELS * SIZE * SIZE // 4, 10)
    return nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)


def trained() -> nn.Sequential:
    """What party 0 brings: a network that it trained in plain."""
    torch.manual_seed(1)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(100):
        x, y = pictures(step, 128)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


def secret(p: Protocol, value: Tensor | None, owner: int, shape: tuple[int, ...]) -> Arith:
    """The owner's real numbers, below 8, as shares of integers with 16 fraction bits."""
    fixed = None if value is None else (value.detach() * (1 << FRACTION_BITS)).round().long()
    return p.share(fixed, owner, shape, limit=8 << FRACTION_BITS)


def classify(p: Protocol, x: Arith, weights: dict[str, Arith]) -> Arith:
    """The digit in each picture. Products stay undivided until the ReLU, which divides exactly."""
    features = p.conv(x, weights["0.weight"], padding=1, shift=FRACTION_BITS)
    features = p.relu(p.add(features, weights["0.bias"].reshape(1, CHANNELS, 1, 1)))
    half = SIZE // 2
    windows = features.reshape(COUNT, CHANNELS, half, 2, half, 2).permute(0, 1, 2, 4, 3, 5)
    pooled = p.max(windows.reshape(COUNT, CHANNELS, half, half, 4))
    flat = pooled.reshape(COUNT, CHANNELS * half * half)
    scores = p.matmul(flat, weights["4.weight"].transpose(0, 1), shift=FRACTION_BITS)
    return p.argmax(p.add(scores, weights["4.bias"]))


def main(session: tacit.Session) -> dict[str, Any]:
    """The program of every party."""
    p, rank = session.protocol, session.rank
    mine = trained().state_dict() if rank == MODEL else {}
    picture = pictures(seed=2026, count=COUNT)[0] if rank == PICTURES else None
    weights = {name: secret(p, mine.get(name), MODEL, shape) for name, shape in SHAPES.items()}
    x = secret(p, picture, PICTURES, (COUNT, 1, SIZE, SIZE))
    start = time.perf_counter()
    with session.stats.scope("inference") as cost:
        digits = classify(p, x, weights)
    seconds = time.perf_counter() - start
    held = next(iter(x.parts.values())).flatten()[:3].tolist()
    return {"digits": p.reveal(digits, to=PICTURES), "held": held, "cost": cost, "time": seconds}


def fail(session: tacit.Session) -> None:
    """A program in which party 2 is killed while the others wait for it."""
    x = secret(session.protocol, torch.ones(64) if session.rank == 1 else None, 1, (64,))
    if session.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    session.protocol.reveal(session.protocol.relu(x))


def show_costs(parties: list[dict[str, Any]]) -> None:
    print(f"\n{'party':<20}{'sent':>12}{'received':>14}{'messages':>10}{'rounds':>8}")
    roles = ["0, deals, model", "1, pictures", "2, helps"]
    for role, party in zip(roles, parties, strict=True):
        cost = party["cost"]
        print(
            f"{role:<20}{cost.bytes_sent:>10,} B{cost.bytes_received:>12,} B"
            f"{cost.messages:>10}{cost.rounds:>8}"
        )
    print(f"{COUNT} pictures in {parties[2]['time'] * 1e3:.0f} ms")


def show_secrecy(parties: list[dict[str, Any]]) -> None:
    """The first words of what the parties without pictures hold of them."""
    plain = (pictures(2026, COUNT)[0] * (1 << FRACTION_BITS)).round().long().flatten()[:3]
    print(f"\nthe pictures    {words(plain.tolist())} ...")
    for rank in (0, 2):
        print(f"party {rank} holds   {words(parties[rank]['held'])} ...")


def words(values: list[int]) -> str:
    return " ".join(f"{value % 2**64:016x}" for value in values)


def show_results(parties: list[dict[str, Any]]) -> None:
    x, labels = pictures(2026, COUNT)
    plain = trained()(x).argmax(1)
    digits = parties[PICTURES]["digits"]
    same = int((digits == plain).sum())
    print(f"\nparty 1 learns  {' '.join(map(str, digits[:20].tolist()))} ...")
    print(f"{same} of {COUNT} as the network says in plain, {int((digits == labels).sum())} right")
    if same < COUNT:
        raise SystemExit("WRONG")


if __name__ == "__main__":
    print("Three processes, TLS 1.3 between them, protocol trio, 64-bit ring.")
    results = tacit.run(main, transport="processes")
    show_costs(results)
    show_secrecy(results)
    show_results(results)
    print("\nOnce more, but party 2 is killed in the middle:\n")
    try:
        tacit.run(fail, transport="processes")
    except tacit.errors.PartyFailed as error:
        print(error, *error.__notes__, sep="\n")
