"""The first call on a GPU: from an empty cache of compiled kernels, and from a full one.

Each figure is of a new process, or of new processes of the parties, which share a model and a
picture, compute the scores and reveal them. From an empty cache kernels are compiled meanwhile; the
second run has what the first compiled. The figure counts from the beginning of a party's function:
the note has the seconds in which it made its model and the driver's context, and those of the whole
program, which imports torch and Tacit, starts parties, and opens their sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from benchmarks.measure import Row
from torch import nn

import tacit
from tacit import zoo

TARGETS = {"empty": 8.0, "full": 1.0}  # seconds
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LeNet": (zoo.lenet, (1, 1, 28, 28)),
    "VGG-16": (zoo.small_vgg, (1, 3, 32, 32)),
    "ResNet-50": (zoo.resnet50, (1, 3, 224, 224)),
}
CASES = [("LeNet", "threads"), ("VGG-16", "threads"), ("VGG-16", "processes")]
CASES += [("ResNet-50", "processes")]


def party(session: tacit.Session, network: str) -> tuple[float, float]:
    """Seconds until the scores of the first picture are known, and until model and context are."""
    begin = time.perf_counter()
    make, shape = NETWORKS[network]
    model, picture = make().eval(), torch.rand(*shape)
    torch.zeros(1, device=session.device).item()  # makes the driver's context
    made = time.perf_counter() - begin
    own, x = session.share(model, owner=0), session.share(picture, owner=1)
    with torch.no_grad():
        session.reveal(own(x))
    return time.perf_counter() - begin, made


def first_call(network: str, transport: str, cache: str) -> tuple[float, float, float]:
    """What the slowest party says, and the seconds of the whole program."""
    begin = time.perf_counter()
    program = [sys.executable, "-m", "benchmarks.first_calls", network, transport]
    done = subprocess.run(
        program, env=os.environ | {"TRITON_CACHE_DIR": cache}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"the first call of {network} failed: {done.stderr[-2000:]}")
    seconds, made = json.loads(done.stdout.splitlines()[-1])
    return seconds, made, time.perf_counter() - begin


def rows() -> Iterator[Row]:
    if not torch.cuda.is_available():
        return
    for network, transport in CASES:
        with tempfile.TemporaryDirectory() as cache:
            for state, target in TARGETS.items():
                seconds, made, whole = first_call(network, transport, cache)
                yield Row(
                    name=f"first call, {network}, {transport}, {state} cache",
                    value=seconds,
                    unit="s",
                    baseline="target",
                    baseline_value=target,
                    target=1.0,
                    lower_is_better=True,
                    note=f"{len(os.sched_getaffinity(0))} cores; {made:.1f} s for model and "
                    f"context, the whole program {whole:.1f} s; "
                    "27 to 30 s before kernels were compiled ahead",
                )


def main(network: str, transport: str) -> None:
    seconds = tacit.run(partial(party, network=network), device="cuda", transport=transport)
    print(json.dumps(max(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
