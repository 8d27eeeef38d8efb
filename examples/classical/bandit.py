"""A contextual bandit: a shop chooses what to offer, from what a visitor's browser keeps to itself.

    python examples/classical/bandit.py

A visitor's four numbers are one party's, whether an offer was liked another's. Each offer has a
ridge regression of its rewards, kept up to date on secrets. The offers that are made are revealed,
as somebody has to make them; numbers, rewards and regressions stay secret.
"""

from collections.abc import Callable

import torch
from sklearn.datasets import load_iris
from torch import Tensor
from torch.nn.functional import one_hot

import tacit

VISITORS, OFFERS, EXPLORED = 60, 3, 0.2  # EXPLORED: the part of offers made at random
BROWSER, SHOP = 0, 1


def visitors() -> tuple[Tensor, Tensor]:
    """Numbers, scaled, with a one, and which offers are liked; flowers and their kinds."""
    data, x = load_iris(), torch.tensor(load_iris().data).float()
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))[:VISITORS]
    x = torch.cat([(x - x.mean(0)) / x.std(0), torch.ones(150, 1)], dim=1)
    return x[order], one_hot(torch.tensor(data.target), OFFERS).float()[order]


def offered(x: Tensor, liked: Tensor, revealed: Callable[[Tensor], int]) -> list[int]:
    """The offers made; `revealed` opens an integer. The same for secrets and for plain tensors."""
    drawn = torch.Generator().manual_seed(1)
    inverse = torch.eye(x.shape[1]).repeat(OFFERS, 1, 1)  # of I + the sum of x x^T, by offer
    weights, made = torch.zeros(OFFERS, x.shape[1]), []
    for visitor, likes in zip(x, liked, strict=True):
        explores = torch.rand((), generator=drawn) < EXPLORED
        at_random = int(torch.randint(OFFERS, (), generator=drawn))
        offer = at_random if explores else revealed((weights @ visitor).argmax())
        chosen = one_hot(torch.tensor(offer), OFFERS).float()
        change = inverse[offer] @ visitor  # Sherman and Morrison's update of the inverse
        gain = change / (1 + visitor @ change)
        inverse = inverse - chosen.reshape(-1, 1, 1) * torch.outer(gain, change)
        surprise = likes[offer] - weights[offer] @ visitor
        weights = weights + torch.outer(chosen, surprise * gain)
        made.append(offer)
    return made


def main(session: tacit.Session) -> list[int]:
    x, liked = visitors()
    secret = session.share(x, owner=BROWSER), session.share(liked, owner=SHOP)
    return offered(*secret, lambda offer: int(session.reveal(offer)))


if __name__ == "__main__":
    made, (x, liked) = tacit.run(main)[SHOP], visitors()
    plain = offered(x, liked, int)
    likes, same = int(liked[range(VISITORS), made].sum()), sum(map(int.__eq__, made, plain))
    print(f"{likes} of {VISITORS} offers liked, {same} as a plain run makes them")
