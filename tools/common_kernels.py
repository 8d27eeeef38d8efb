"""Writes the list of kernels that a GPU compiles ahead where nothing ran before.

    TACIT_KERNELS=triton TRITON_INTERPRET=0 python -m tools.common_kernels

Networks run on a CPU, with numbers that mean nothing: a launch only notes its kernel. They come in
the order of the list, the smallest first.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.kernels import compile_ahead, compile_gpu
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.kernels.gpu.specifications import COMMON, line
from tacit.nn import fold_batch_norm
from tacit.runtime.launch import local_run

Network = tuple[Callable[[], nn.Module], Callable[[], Tensor]]
NETWORKS: tuple[Network, ...] = (
    (zoo.lenet, lambda: torch.rand(1, 1, 28, 28)),
    (zoo.small_vgg, lambda: torch.rand(1, 3, 32, 32)),
    (zoo.small_vgg, lambda: torch.rand(64, 3, 32, 32)),
    (zoo.resnet18, lambda: torch.rand(1, 3, 224, 224)),
    (lambda: zoo.bert(depth=1), lambda: torch.randint(1, 30_000, (1, 128))),
)
PROTOCOLS = (("trio", 3), ("additive", 2))


def infer(session: tacit.Session, network: Network) -> None:
    make, inputs = network
    own = session.share(fold_batch_norm(make().eval()), owner=0)
    x = inputs()
    with torch.no_grad():
        own(session.share(x, owner=1) if x.is_floating_point() else x)


def main() -> None:
    compile_ahead.pretend()
    compile_gpu.call_streams()
    local_run.cipher_for = lambda *_: "chacha20"  # type: ignore[assignment]  # as on a GPU
    for network in NETWORKS:
        for protocol, parties in PROTOCOLS:
            tacit.run(infer, network, protocol=protocol, parties=parties, deadline=600.0)
    COMMON.write_text("".join(map(line, compile_ahead.wanted)))
    print(f"{len(compile_ahead.wanted)} kernels in {COMMON}")


if __name__ == "__main__":
    main()
