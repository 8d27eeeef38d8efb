"""The same program on a GPU, where there is one: LeNet-5 on a batch, with what it costs.

python examples/05_gpu.py
"""

import time

import torch
from torch import Tensor

import tacit
from tacit import zoo

GPU = torch.cuda.is_available()
BATCH = 64 if GPU else 4


def main(session: tacit.Session, model: torch.nn.Module, pictures: Tensor) -> Tensor | None:
    mine = model if session.rank == 0 else zoo.lenet5().eval()
    network = session.share(mine, owner=0)
    x = session.share(pictures if session.rank == 1 else None, owner=1, shape=(BATCH, 1, 28, 28))
    with torch.no_grad():
        network(x)  # the first call compiles kernels
        start = time.perf_counter()
        with session.stats.scope("inference") as cost:
            scores = session.reveal(network(x), to=1)
    if session.rank == 1:
        seconds = time.perf_counter() - start
        print(
            f"{BATCH} pictures, shares on {session.device}: {seconds:.3f} s, "
            f"{cost.bytes_sent / 1e6:.1f} MB sent, {cost.rounds} rounds"
        )
    return scores


if __name__ == "__main__":
    if not GPU:
        print("torch finds no GPU here: this runs on the CPU.")
    torch.manual_seed(0)
    model, pictures = zoo.lenet5().eval(), torch.rand(BATCH, 1, 28, 28)
    plain = model(pictures)
    scores = tacit.run(main, model, pictures, device="cuda" if GPU else "cpu")[1]
    print(f"largest difference from the plain network: {(scores - plain).abs().max():.1e}")
