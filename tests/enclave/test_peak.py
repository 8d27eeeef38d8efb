"""An enclave with a limited memory grows by less than its limit, and computes the same.

The process of the enclave measures itself, in the kernel's count: all memory, whoever allocates it,
buffers of its connections too.
"""

from __future__ import annotations

import json

import pytest
import torch
from tests.enclave import peak_program

import tacit

LIMIT = 16_000_000
IN_PROCESSES = {"transport": "processes", "allow_simulated": True}
# What networks of an enclave alone take without a limit is measured; with workers it is more.
# Then the number of threads that open chunks ahead and seal behind.
SETTINGS = [
    ("none", {"lenet": 500, "vgg": 64, "dense": 1000}, 4),
    ("three-server", {"vgg": 16, "dense": 100}, 0),
]


def trained(folder, outsourcing, images, threads=0, **settings):
    """The weights of networks, and by how many bytes the enclave grew while it trained each."""
    settings = {"parties": 1, "protocol": "enclave", "outsourcing": outsourcing, **settings}
    [weights] = tacit.run(peak_program.main, str(folder), images, threads, **settings)
    return weights, json.loads((folder / "grown.json").read_text())


@pytest.mark.full("processes that train; test_limited_sessions.py has counters and weights")
@pytest.mark.parametrize(("outsourcing", "images", "threads"), SETTINGS)
def test_the_process_grows_by_less_than_the_limit(outsourcing, images, threads, tmp_path):
    limited = {"memory_limit": LIMIT, **IN_PROCESSES}
    found, grown = trained(tmp_path, outsourcing, images, threads, **limited)
    assert grown.keys() == images.keys()
    assert max(grown.values()) < LIMIT
    wanted, _ = trained(tmp_path, outsourcing, images)
    for one, other in zip(found, wanted, strict=True):
        if outsourcing == "none":  # sums are added up in blocks
            assert (one - other).abs().max() < 1e-5
        else:
            assert torch.equal(one, other)


@pytest.mark.full("the control of the test above")
def test_without_a_limit_it_grows_by_more(tmp_path):
    outsourcing, images, _ = SETTINGS[0]
    first = dict([*images.items()][:1])  # what is freed is kept, and used for the next
    _, grown = trained(tmp_path, outsourcing, first, **IN_PROCESSES)
    assert max(grown.values()) > 1.5 * LIMIT
