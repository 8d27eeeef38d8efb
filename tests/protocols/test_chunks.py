"""A memory limit cuts operations into chunks, equally at all parties, and changes no result."""

import copy

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import ConfigError
from tacit.protocols.products.bilinear import MUL, Conv, ConvGradInput, ConvGradWeight, MatMul
from tacit.protocols.products.executor import ProductExecutor
from tacit.protocols.steps import Interactive
from tacit.ring import Window

LIMIT = 1 << 20


def net() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8 * 16 * 16, 5), nn.LogSoftmax(1))


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_a_network_in_chunks_gives_what_the_whole_gives(protocol):
    model, x = net().eval(), torch.randn(5, 3, 32, 32)

    def main(session):
        own = session.share(copy.deepcopy(model), owner=0)
        image = session.share(x if session.rank == 1 else None, owner=1, shape=x.shape)
        with session.stats.scope("run") as cost:
            found = own(image)
            loss = found[:, 0].sum()
        loss.backward()
        return session.reveal(found, to=1), cost.rounds, session.reveal(own[0].weight.grad)

    _, (whole, rounds, grad), _ = tacit.run(main, protocol=protocol)
    _, (cut, more, cut_grad), _ = tacit.run(main, protocol=protocol, memory_limit=LIMIT)
    assert more > rounds
    plain = model(x)
    plain[:, 0].sum().backward()
    for found, found_grad in ((whole, grad), (cut, cut_grad)):
        torch.testing.assert_close(found, plain.detach(), atol=2e-3, rtol=0)
        torch.testing.assert_close(found_grad, model[0].weight.grad, atol=1e-2, rtol=0)
    torch.testing.assert_close(cut, whole, atol=2e-3, rtol=0)
    torch.testing.assert_close(cut_grad, grad, atol=1e-2, rtol=0)


def test_the_operations_of_a_limit_are_cut_at_words():
    cut = []

    def body(p, x):
        cut.append(tuple(x.shape))
        return x
        yield

    def main(session):
        x = session.protocol.share(torch.arange(1000), 0, (1000,))
        steps = Interactive(body, chunk_bytes=LIMIT // 200).__get__(session.protocol).steps(x)
        with pytest.raises(StopIteration) as end:
            next(steps)
        return session.protocol.reveal(end.value.value)

    [found] = tacit.run(main, parties=1, protocol="cleartext", memory_limit=LIMIT)
    assert cut == [(192,)] * 5 + [(40,)]
    assert found.equal(torch.arange(1000))


WINDOW = Window.make(2, 2, 1, 1, 1)
CASES = {
    "conv": (Conv(WINDOW), (6, 3, 9, 9), (4, 3, 3, 3)),
    "grad input": (ConvGradInput(WINDOW, (6, 3, 9, 9)), (4, 3, 3, 3), (6, 4, 5, 5)),
    "grad weight": (ConvGradWeight(WINDOW, (4, 3, 3, 3)), (6, 3, 9, 9), (6, 4, 5, 5)),
    "matmul": (MatMul(), (6, 7), (7, 5)),
    "scalars": (MUL, (), ()),
    "vector": (MatMul(), (7,), (7, 200)),
    "many columns": (MatMul(), (2, 7), (7, 300)),
    "batches": (MatMul(), (6, 2, 7), (6, 7, 5)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("offload", [None, torch.device("cpu")])
def test_chunks_of_products_add_up_to_them(name, offload, monkeypatch):
    op, a, b = CASES[name]
    generator = torch.Generator().manual_seed(1)
    a, b, c = (torch.randint(-(2**62), 2**62, s, generator=generator) for s in (a, b, b))
    executor, calls = ProductExecutor(memory_limit=1 << 10, offload=offload), []
    get = executor.cache.get
    monkeypatch.setattr(executor.cache, "get", lambda op, *_: calls.append(op) or get(op, *_))
    assert executor.sum(op, [(a, [b, c])]).equal(op(a, b + c))
    whole = {"scalars", "batches"} | ({"vector"} if offload is None else set())
    assert (len(calls) > 1) == (name not in whole)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1GB"])
def test_a_limit_is_a_number_of_bytes(limit):
    with pytest.raises(ConfigError, match="memory_limit"):
        tacit.run(lambda session: None, memory_limit=limit)
