"""Two companies sort support tickets, billing or technical, by TF-IDF weights of words of both.

    python examples/classical/tf_idf.py

A word is counted in one of 64 columns, by a hash that all know: no list of words is agreed on. How
rare a column is follows from the tickets of both. It stays secret, as do counts and the model.
"""

import zlib

import torch
from torch import Tensor, nn

import tacit

COLUMNS, TICKETS, TRAIN, STEPS = 64, 80, 60, 30  # TICKETS for each company
COMMON = "the a my please since with is and help again yesterday need your it page still"
BILLING = "invoice refund charged card price subscription payment paid twice tax"
TECHNICAL = "crash error login update slow screen install password server freezes"


def tickets(company: int) -> tuple[Tensor, Tensor]:
    """How often each column occurs in each ticket, and whether the ticket is technical."""
    drawn = torch.Generator().manual_seed(company)
    technical = torch.randint(2, (TICKETS, 1), generator=drawn)
    counts = torch.zeros(TICKETS, COLUMNS)
    for count, kind in zip(counts, technical, strict=True):
        known = f"{COMMON} {COMMON} {TECHNICAL if kind else BILLING}".split()
        for place in torch.randint(len(known), (12,), generator=drawn).tolist():
            count[zlib.crc32(known[place].encode()) % COLUMNS] += 1
    return counts, technical.float()


def scores(counts: Tensor, technical: Tensor) -> Tensor:
    """What a model trained on the first tickets says of the others; secrets or plain tensors."""
    seen = (counts[:, :TRAIN].flatten(0, 1) > 0).float().sum(0)
    rarity = torch.log((1 + 2 * TRAIN) / (1 + seen)) + 1
    x = nn.functional.normalize(counts * rarity, dim=-1)
    weight, bias = torch.zeros(COLUMNS, 1), torch.zeros(1)
    for _ in range(STEPS):
        wrong = torch.sigmoid(x[:, :TRAIN] @ weight + bias) - technical[:, :TRAIN]
        weight = weight - 8 * (x[:, :TRAIN].mT @ wrong).sum(0) / (2 * TRAIN)
        bias = bias - 8 * wrong.mean((0, 1))
    return x[:, TRAIN:] @ weight + bias


def main(session: tacit.Session) -> Tensor:
    parts = [session.share(tickets(company), owner=company) for company in (0, 1)]
    return session.reveal(scores(*(torch.stack(part) for part in zip(*parts, strict=True))))


if __name__ == "__main__":
    answers = tacit.run(main)[0] > 0
    counts, technical = (torch.stack(part) for part in zip(tickets(0), tickets(1), strict=True))
    plain, known = scores(counts, technical) > 0, technical[:, TRAIN:] > 0
    right, same = int((answers == known).sum()), int((answers == plain).sum())
    print(f"{right} of {known.numel()} tickets right, {same} as after a plain training")
