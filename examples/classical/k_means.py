"""Two shops find groups among the customers of both, whom they show to nobody.

    python examples/classical/k_means.py

k-means of `tacit.stats` with a public number of steps, from rows that a public permutation chooses.
The centres are revealed to all; each shop learns the groups of its own customers only.
"""

import torch
from sklearn.datasets import load_iris
from torch import Tensor

import tacit
from tacit import stats

ROWS, GROUPS, STEPS = 75, 3, 8  # ROWS for each shop


def customers(shop: int) -> Tensor:
    """Four numbers of each customer; flowers, as they are a set that everybody has."""
    order = torch.randperm(2 * ROWS, generator=torch.Generator().manual_seed(0))
    x = torch.tensor(load_iris().data).float()[order]
    return x[shop * ROWS : (shop + 1) * ROWS]


def clustered(x: Tensor) -> stats.Clusters:
    """The same for secrets and for plain tensors."""
    chosen = torch.randperm(2 * ROWS, generator=torch.Generator().manual_seed(8))[:GROUPS]
    return stats.k_means(x, x[chosen], STEPS)


def main(session: tacit.Session) -> tuple[Tensor, list[Tensor | None]]:
    secret = [
        session.share(customers(shop) if session.rank == shop else None, shop, (ROWS, 4))
        for shop in (0, 1)
    ]
    found = clustered(torch.cat(secret))
    own = [session.reveal(part, to=shop) for shop, part in enumerate(found.labels.split(ROWS))]
    return session.reveal(found.centres), own


if __name__ == "__main__":
    parties = tacit.run(main)
    plain = clustered(torch.cat([customers(0), customers(1)]))
    groups = torch.cat([parties[shop][1][shop] for shop in (0, 1)])
    for group, centre in enumerate(parties[0][0]):
        numbers = ", ".join(f"{number:.2f}" for number in centre)
        print(f"group {group}: {int((groups == group).sum())} customers around {numbers}")
    same, error = int((groups == plain.labels).sum()), (parties[0][0] - plain.centres).abs().max()
    print(f"{same} of {2 * ROWS} in the group of a plain run, centres within {error:.6f}")
