"""PIGEON's point: a batch that no GPU holds, with only the products on the GPU.

VGG-16 for ImageNet, 192 pictures, in small batches one after the other, `placement="linear"`:
shares and gates on the CPU, `memory_limit` for products on the GPU, and 1 GiB of kept weights a
party. The baseline is the GPU memory that PIGEON takes for this batch. One run: it takes minutes.
"""

from __future__ import annotations

import copy
import os
import time

import torch
from benchmarks.measure import Row
from benchmarks.real.fetch import Unavailable
from torch import Tensor, nn

import tacit
from tacit import zoo

BATCH, AT_ONCE = 192, 16
LIMIT = 1 << 29
RANGE_BITS = 12  # numbers in the network are promised to be below 2^12, which its output confirms
PIGEON_BYTES = 5.5e9


def party(session: tacit.Session, model: nn.Module, x: Tensor) -> tuple[Tensor, float]:
    own = session.share(copy.deepcopy(model), owner=0)
    begin = time.perf_counter()
    with torch.no_grad():
        parts = [own(session.share(part, owner=1)) for part in x.split(AT_ONCE)]
        scores = session.reveal(torch.cat(parts))
    return scores, time.perf_counter() - begin


def rows() -> list[Row]:
    if not torch.cuda.is_available():
        raise Unavailable("torch finds no GPU on this machine")
    os.environ.setdefault("TACIT_KEEP_MIB", "1024")
    torch.manual_seed(5)
    model, x = zoo.vgg16().eval(), torch.rand(BATCH, 3, 224, 224) * 2 - 1
    with torch.no_grad():
        plain = torch.cat([model.cuda()(part.cuda()).cpu() for part in x.split(AT_ONCE)])
    model.cpu()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    results = tacit.run(
        party,
        model,
        x,
        device="cuda",
        placement="linear",
        memory_limit=LIMIT,
        range_bits=RANGE_BITS,
        deadline=600.0,
    )
    memory = torch.cuda.max_memory_allocated()
    scores, seconds = results[0]
    error = float((scores - plain).abs().max() / plain.abs().max())
    same = float((scores.argmax(1) == plain.argmax(1)).float().mean())
    if error > 1e-2:
        raise SystemExit(f"VGG-16: off by {error:.3f} of the largest output")
    note = (
        f"{seconds:.0f} s, {BATCH / seconds:.2f} pictures/s, {AT_ONCE} at a time; all three "
        f"parties on the GPU; error {error:.1e} of the largest, top-1 equal {100 * same:.1f} %"
    )
    return [
        Row(
            name="VGG-16, ImageNet, batch 192: GPU memory",
            value=memory / 1e9,
            unit="GB",
            baseline="PIGEON",
            baseline_value=PIGEON_BYTES / 1e9,
            note=note,
            target=1.0,
            lower_is_better=True,
        )
    ]
