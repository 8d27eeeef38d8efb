"""Three processes, TLS between them, a private sum and a private product of two matrices.

Party 0 has the matrix A and party 1 the matrix B; party 2 has nothing and helps. Each matrix X is
cut into X0 + X1 + X2 mod 2^64, and party i holds Xi and Xi+1: what one party holds is random.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, NamedTuple

import torch

import tacit
from tacit.kernels import matmul, stream
from tacit.transport import Spec

SIZE = 256
MATRIX = Spec((SIZE, SIZE), torch.int64)
A = torch.arange(SIZE * SIZE).view(SIZE, SIZE)
B = A**5 - 7  # wraps around 2^64


class Share(NamedTuple):
    """Xi and Xi+1 at party i."""

    first: torch.Tensor
    second: torch.Tensor


def common(session: tacit.Session, peer: int, operation: int) -> torch.Tensor:
    """A matrix of random words that this party and one peer know, and the third does not."""
    key = session.keys.key({session.rank, peer})
    return stream(key.aes, torch.empty(MATRIX.shape, dtype=MATRIX.dtype), operation=operation)


def share(session: tacit.Session) -> tuple[dict[int, Share], dict[int, list[int]]]:
    """Shares of A and B by owner, and the first words that came from each owner. One round.

    Owner o sends X - Xo - Xo+1 to both others, each of whom knows just one of the two masks.
    """
    rank, after, before = session.rank, (session.rank + 1) % 3, (session.rank - 1) % 3
    shares, send = {}, {}
    mine = {0: A, 1: B}.get(rank)
    if mine is not None:
        shares[rank] = Share(common(session, before, rank), common(session, after, rank))
        masked = mine - shares[rank].first - shares[rank].second
        send = {after: [masked], before: [masked]}
    arrived = session.mesh.exchange(send, {owner: [MATRIX] for owner in {0, 1} - {rank}})
    for owner, (masked,) in arrived.items():
        known = common(session, owner, owner)
        shares[owner] = Share(known, masked) if owner == before else Share(masked, known)
    return shares, {owner: masked[0, :3].tolist() for owner, (masked,) in arrived.items()}


def multiply(session: tacit.Session, a: Share, b: Share) -> torch.Tensor:
    """One of three parts of A @ B: one local product, hidden by a random part of zero."""
    left = torch.cat([a.first, a.second], dim=1)
    right = torch.cat([b.first + b.second, b.first])
    after, before = (session.rank + 1) % 3, (session.rank - 1) % 3
    return matmul(left, right) + common(session, after, 2) - common(session, before, 2)


def reveal(
    session: tacit.Session, added: Share, part: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum and the product, to everybody. One round."""
    after, before = (session.rank + 1) % 3, (session.rank - 1) % 3
    send = {after: [part], before: [part, added.second]}
    got = session.mesh.exchange(send, {after: [MATRIX, MATRIX], before: [MATRIX]})
    (after_part, missing), (before_part,) = got[after], got[before]
    return added.first + added.second + missing, part + after_part + before_part


def main(session: tacit.Session) -> dict[str, Any]:
    """The program of every party."""
    start = time.perf_counter()
    with session.stats.scope("demo") as cost:
        shares, seen = share(session)
        added = Share(*(a + b for a, b in zip(shares[0], shares[1], strict=True)))
        total, product = reveal(session, added, multiply(session, shares[0], shares[1]))
    seconds = time.perf_counter() - start
    return {"sum": total, "product": product, "seen": seen, "seconds": seconds, "cost": cost}


def fail(session: tacit.Session) -> None:
    """A program in which party 2 is killed while the others wait for it."""
    share(session)
    if session.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    session.mesh.exchange({}, {2: [MATRIX]})


def show_costs(parties: list[dict[str, Any]]) -> None:
    print(f"\n{'party':<8}{'sent':>12}{'received':>14}{'messages':>10}{'rounds':>8}{'time':>11}")
    for rank, party in enumerate(parties):
        cost = party["cost"]
        print(
            f"{rank:<8}{cost.bytes_sent:>10,} B{cost.bytes_received:>12,} B"
            f"{cost.messages:>10}{cost.rounds:>8}{party['seconds'] * 1e3:>8.0f} ms"
        )


def show_secrecy(parties: list[dict[str, Any]]) -> None:
    """Both receivers see the same words, and each lacks one of the two masks."""
    for owner, (name, secret) in enumerate({"A": A, "B": B}.items()):
        print(f"\n{name} at party {owner}   {words(secret[0, :3].tolist())} ...")
        for rank, party in enumerate(parties):
            if owner in party["seen"]:
                print(f"party {rank} sees   {words(party['seen'][owner])} ...")


def words(values: list[int]) -> str:
    return " ".join(f"{value % 2**64:016x}" for value in values)


def show_results(parties: list[dict[str, Any]]) -> None:
    print()
    for name, plain in {"sum": A + B, "product": A @ B}.items():
        if not all(torch.equal(party[name], plain) for party in parties):
            raise SystemExit(f"{name}: WRONG")
        print(f"{name:<8} of A and B: the same as in plain, bit for bit")


if __name__ == "__main__":
    print(f"Three processes, TLS 1.3 between them, matrices of {SIZE} x {SIZE} 64-bit words.")
    results = tacit.run(main, transport="processes")
    show_costs(results)
    show_secrecy(results)
    show_results(results)
    print("\nOnce more, but party 2 is killed in the middle:\n")
    try:
        tacit.run(fail, transport="processes")
    except tacit.errors.PartyFailed as error:
        print(error, *error.__notes__, sep="\n")
