"""The pretended device refuses what CUDA refuses while a graph is captured."""

from __future__ import annotations

import pytest
import torch
from tests.runtime import pretended_device as gpu
from tests.runtime.pretended_gpu import pretend

REFUSED = {
    "a copy to the device": lambda x: torch.ones(2).to(gpu.DEVICE),
    "a copy from the host": lambda x: x.copy_(torch.ones(2)),
    "a copy to the host": lambda x: x.cpu(),
    "a number that is read": lambda x: x.sum().item(),
    "an index of the host": lambda x: x[torch.tensor([1])],
    "a tensor of the host": lambda x: x + torch.ones(2),
    "waiting": lambda x: torch.cuda.synchronize(),
}


@pytest.fixture
def on_device(monkeypatch):
    """A stream in which tensors can be made on the device."""
    pretend(monkeypatch)
    with torch.cuda.stream(torch.cuda.Stream()):
        yield


@pytest.mark.usefixtures("on_device")
def test_a_graph_computes_when_it_is_started():
    x, graph = torch.zeros(2, device=gpu.DEVICE), gpu.Graph()
    graph.capture_begin(capture_error_mode="relaxed")
    y = (x.add_(1) * 2).view(2, 1)
    graph.capture_end()
    assert x.cpu().tolist() == [0, 0]
    assert y.flatten().cpu().tolist() == [gpu.NONSENSE] * 2
    graph.replay()
    graph.replay()
    assert x.cpu().tolist() == [2, 2]
    assert y.flatten().cpu().tolist() == [4, 4]


@pytest.mark.usefixtures("on_device")
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_what_a_capture_refuses(refused):
    x, graph = torch.zeros(2, device=gpu.DEVICE), gpu.Graph()
    graph.capture_begin(capture_error_mode="relaxed")
    with pytest.raises(RuntimeError, match=r"captur|same device"):
        refused(x)
    graph.capture_end()


@pytest.mark.usefixtures("on_device")
def test_a_number_of_the_host_is_that_of_the_capture():
    number, x, graph = torch.tensor(3.0), torch.ones(2, device=gpu.DEVICE), gpu.Graph()
    graph.capture_begin(capture_error_mode="relaxed")
    y = x * number
    graph.capture_end()
    number.fill_(5)
    graph.replay()
    assert y.cpu().tolist() == [3, 3]


@pytest.mark.usefixtures("on_device")
def test_views_share_their_memory():
    x = torch.zeros(2, 3, device=gpu.DEVICE)
    row = x[1]
    assert row.untyped_storage()._cdata == x.untyped_storage()._cdata
    row.add_(1)
    assert x.cpu().tolist() == [[0, 0, 0], [1, 1, 1]]
    assert (x.is_cuda, x.is_cpu, x.device) == (True, False, gpu.DEVICE)
