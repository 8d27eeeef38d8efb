"""Three processes, TLS between them: handwritten digits are recognised without anybody seeing them.

Party 0 has a network that it trained on the digits bundled with scikit-learn, party 1 has digits
that the network never saw, party 2 has nothing and helps. The network is an ordinary torch module.
Party 1 learns what its pictures show; nobody learns the pictures, the weights, or anything else.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import tacit

MODEL, PICTURES = 0, 1  # who has what
COUNT = 64
SHADES = " .:-=+*#"


def digits() -> tuple[Tensor, Tensor]:
    """1797 pictures of 8 x 8 pixels, and what they show."""
    data = load_digits()
    return torch.tensor(data.images).float().unsqueeze(1) / 16, torch.tensor(data.target)


def network() -> nn.Sequential:
    """An ordinary network: nothing in it knows of secrets."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def trained() -> nn.Sequential:
    """What party 0 brings: the network after a plain training on all but the last pictures."""
    torch.manual_seed(1)
    model, (x, y) = network(), digits()
    x, y = x[:-COUNT], y[:-COUNT]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(6):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model.eval()


def main(session: tacit.Session) -> dict[str, Any]:
    """The program of every party."""
    torch.set_num_threads(1)
    plain = trained() if session.rank == MODEL else network().eval()
    picture = digits()[0][-COUNT:] if session.rank == PICTURES else torch.empty(COUNT, 1, 8, 8)
    model = session.share(plain, owner=MODEL)
    x = session.share(picture, owner=PICTURES)
    start = time.perf_counter()
    with torch.no_grad(), session.stats.scope("inference") as cost:
        answer = model(x).argmax(1)
    seconds = time.perf_counter() - start
    held = next(iter(x.value.arith.parts.values())).flatten()[:3].tolist()
    return {
        "answer": session.reveal(answer, to=PICTURES),
        "shown": repr(x),
        "held": held,
        "cost": cost,
        "time": seconds,
    }


def fail(session: tacit.Session) -> None:
    """A program in which party 2 is killed while the others wait for it."""
    x = session.share(torch.ones(64), owner=1)
    if session.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    session.reveal(x.relu())


def show_costs(parties: list[dict[str, Any]]) -> None:
    print(f"\n{'party':<20}{'sent':>12}{'received':>14}{'messages':>10}{'rounds':>8}")
    roles = ["0, deals, network", "1, pictures", "2, helps"]
    for role, party in zip(roles, parties, strict=True):
        cost = party["cost"]
        print(
            f"{role:<20}{cost.bytes_sent:>10,} B{cost.bytes_received:>12,} B"
            f"{cost.messages:>10}{cost.rounds:>8}"
        )
    print(f"{COUNT} pictures in {parties[2]['time']:.2f} s")


def show_secrecy(parties: list[dict[str, Any]]) -> None:
    """The first pixels, and what the parties without pictures hold of them."""
    plain = (digits()[0][-COUNT:] * (1 << 16)).round().long().flatten()[:3].tolist()
    print(f"\nthe pictures    {words(plain)} ...  {parties[0]['shown']}")
    for rank in (0, 2):
        print(f"party {rank} holds   {words(parties[rank]['held'])} ...")


def words(values: list[int]) -> str:
    return " ".join(f"{value % 2**64:016x}" for value in values)


def show_results(parties: list[dict[str, Any]]) -> None:
    x, labels = digits()
    x, labels = x[-COUNT:], labels[-COUNT:]
    plain, private = trained()(x).argmax(1), parties[PICTURES]["answer"]
    print("\nparty 1 sees and learns")
    for y in range(8):
        rows = ("".join(SHADES[min(int(v * 8), 7)] * 2 for v in picture[0, y]) for picture in x[:4])
        print("  " + "  ".join(rows))
    print("  " + "  ".join(f"{digit:^16}" for digit in private[:4].tolist()))
    same, right = int((private == plain).sum()), int((private == labels).sum())
    print(f"{same} of {COUNT} answers as the network gives in plain, {right} right")
    if same < COUNT:
        raise SystemExit("WRONG")


if __name__ == "__main__":
    print("Three processes, TLS 1.3 between them, protocol trio, 64-bit ring, 16 fraction bits.")
    results = tacit.run(main, transport="processes")
    show_costs(results)
    show_secrecy(results)
    show_results(results)
    print("\nOnce more, but party 2 is killed in the middle:\n")
    try:
        tacit.run(fail, transport="processes")
    except tacit.errors.PartyFailed as error:
        print(error, *error.__notes__, sep="\n")
