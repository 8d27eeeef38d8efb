"""One of the computing parties changes one bit of one message, in turn, to win an auction.

    python examples/08_one_of_four_cheats.py

Four companies bid; the program opens only the highest bid. With three parties (`trio`) the cheat
can make the result wrong, and nobody notices. With four (`quad`) the honest parties notice every
change, and open nothing wrong.
"""

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

import tacit
from tacit.testing import Corruption, manipulations_of, messages_of, run_corrupted

BIDS = torch.tensor([410.0, 405.0, 398.0, 403.0])
CHEAT = 2


def auction(session: tacit.Session) -> Iterator[Tensor]:
    """The program of all parties: yields what it opens."""
    bids = [session.share(bid, owner=i % session.parties) for i, bid in enumerate(BIDS)]
    yield session.reveal(torch.stack(bids).max())


def outcomes(protocol: str) -> Counter[tuple[str, bool]]:
    """How often the honest parties notice a changed bit, and open nothing wrong, by message."""
    found = Counter[tuple[str, bool]]()
    sent = [one for one in messages_of(auction, protocol=protocol) if one.party == CHEAT]
    for message in sent:
        for flip in manipulations_of(message, kinds=["flip a bit"]):
            ended = run_corrupted(auction, Corruption(CHEAT, (flip,)), protocol=protocol)
            honest = [one for rank, one in enumerate(ended) if rank != CHEAT]
            right = all(value == BIDS.max() for one in honest for value in one.opened)
            noticed = any(one.error is not None for one in honest)
            found["noticed" if noticed else "not noticed", right] += 1
    return found


if __name__ == "__main__":
    for protocol in ("trio", "quad"):
        for (how, right), count in sorted(outcomes(protocol).items()):
            opened = "nothing wrong was opened" if right else "a wrong bid was opened"
            print(f"{protocol}: {count} changes {how}, {opened}")
