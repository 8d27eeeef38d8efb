"""Three colleagues learn the mean of their salaries, and nobody learns a salary.

python examples/01_hello.py
"""

import torch

import tacit

SALARIES = [41_000.0, 58_500.0, 47_500.0]  # each known to one party


def main(session: tacit.Session) -> torch.Tensor:
    """The program of every party."""
    mine = torch.tensor(SALARIES[session.rank])
    secrets = [session.share(mine, owner=owner) for owner in range(session.parties)]
    print(f"party {session.rank} sees {secrets[0]}")
    return session.reveal(sum(secrets) / session.parties)


if __name__ == "__main__":
    for rank, mean in enumerate(tacit.run(main)):
        print(f"party {rank} learns that the mean is {mean:,.0f}")
