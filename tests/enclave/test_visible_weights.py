"""One worker that sees weights, and nothing else: results, what it receives, and lies."""

from __future__ import annotations

import gc

import pytest
import torch
from tests.enclave.limited import seal_everything_always
from tests.enclave.products import CASES, integers
from tests.enclave.test_outsourcing import BITS, EACH_PRECISION, exact, operands
from tests.enclave.trainings import network, train
from tests.enclave.workers import change_answers, changing, outsourcer, recording
from tests.protocols.uniformity import HIGHEST, LOWEST, SIGMAS, goodness, imbalance
from torch import nn

import tacit
from tacit.config import VISIBLE_WEIGHTS
from tacit.enclave import worker
from tacit.errors import CheatingDetected, ConfigError, PartyFailed
from tacit.protocols.products.bilinear import MATMUL, Conv, Einsum
from tacit.ring import Window

ENCLAVE = {"protocol": "enclave", "parties": 2}
WEIGHTS = {"matmul": 1, "one right matrix": 1, "conv": 1, "conv_grad_input": 0}


@EACH_PRECISION
@pytest.mark.parametrize("ahead", [0, 2])
def test_every_product_is_exact(precision, ahead):
    with outsourcer(VISIBLE_WEIGHTS, precision=precision) as enclave:
        cases = {name: operands(case, BITS[precision]) for name, case in CASES.items()}
        for name, side in WEIGHTS.items():
            enclave.show(cases[name][1 + side])
        for _ in range(3):
            for op, a, b in cases.values():
                assert torch.equal(enclave.product(op, a, b), exact(op, a, b))
            enclave.precompute(ahead)


@EACH_PRECISION
def test_no_bit_differs_from_two_workers(precision):
    """Also rounding: a term that is made ahead takes no number of it."""
    torch.manual_seed(1)
    window = Conv(Window.make(2, 1, 1))
    x, kernel = torch.randn(4, 3, 8, 8), torch.randn(5, 3, 3, 3)
    weight, batch = torch.randn(7, 6), [torch.randn(3, 6) for _ in range(4)]
    found = []
    for mode in ("two-server", VISIBLE_WEIGHTS):
        with outsourcer(mode, precision=precision) as enclave:
            enclave.show(weight)
            enclave.show(kernel)
            made = []
            for y in batch:
                made += [enclave.product(MATMUL, y, weight.T), enclave.product(window, x, kernel)]
                made.append(enclave.product(MATMUL, y, y.T))
                enclave.precompute(2)
            found.append(made)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def seen_by_worker(value, times, ahead=0, precision="fixed"):
    """What the worker receives of products of equal numbers with a weight, and the weight."""
    seen: list[torch.Tensor] = []
    weight = integers((32, 16), BITS[precision], 5)
    with outsourcer(VISIBLE_WEIGHTS, precision=precision, serve={0: recording(seen)}) as enclave:
        enclave.show(weight)
        for _ in range(times):
            x = torch.full((64, 32), value)
            enclave.product(MATMUL, x, weight)
            enclave.product(MATMUL, x, x.T)
            enclave.precompute(ahead)
    return seen, weight


@EACH_PRECISION
@pytest.mark.parametrize("ahead", [0, 2])
def test_the_worker_receives_the_weight_once_and_uniform_numbers(precision, ahead):
    for value in (0.0, 1.0, -127.0):
        seen, weight = seen_by_worker(value, 3, ahead, precision)
        masked, [shown] = [seen[0], *seen[2:]], seen[1:2]
        assert torch.equal(shown, weight.to(shown.dtype))
        assert [x.shape for x in masked] == [(64, 32)] * 3
        assert LOWEST < goodness([(0, x) for x in masked]) < HIGHEST
        assert all(imbalance(x) < SIGMAS for x in masked)


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_no_mask_is_used_twice(ahead):
    """Masked zeros are masks: their 64-bit words do not repeat by chance."""
    seen, _ = seen_by_worker(0.0, 5, ahead)
    words = torch.cat([x.reshape(-1) for x in [seen[0], *seen[2:]]])
    assert len(words.unique()) == len(words) == 5 * 64 * 32


def test_what_is_made_ahead_is_not_made_in_the_product(monkeypatch):
    with outsourcer(VISIBLE_WEIGHTS) as enclave:
        weight, x = integers((6, 4), 8, 1), integers((3, 6), 8, 2)
        enclave.show(weight)
        enclave.product(MATMUL, x, weight)
        enclave.precompute(2)
        made = []
        monkeypatch.setattr(enclave._weights, "_term", lambda *args: made.append(args))
        for _ in range(2):
            assert torch.equal(enclave.product(MATMUL, x, weight), x @ weight)
        assert not made
        with pytest.raises(AttributeError):  # the third needs a new one
            enclave.product(MATMUL, x, weight)


def test_a_copy_of_a_weight_is_not_shown():
    seen: list[torch.Tensor] = []
    with outsourcer(VISIBLE_WEIGHTS, serve={0: recording(seen)}) as enclave:
        weight, x = integers((6, 4), 8, 1), integers((3, 6), 8, 2)
        enclave.show(weight)
        for hidden in (weight.clone(), weight + 1, weight * 0.5):
            enclave.product(MATMUL, x, hidden)
        assert seen == []
        assert torch.equal(enclave.product(Einsum("ij,kj->ik"), x, weight.T), x @ weight)
        assert len(seen) == 2


def test_other_modes_show_nothing():
    seen: list[torch.Tensor] = []
    with outsourcer("one-worker", serve={0: recording(seen)}) as enclave:
        weight = torch.ones(64, 64)
        enclave.show(weight)
        enclave.product(MATMUL, torch.ones(64, 64), weight)
        enclave.precompute(3)
    assert len(seen) == 2
    assert all(imbalance(x) < SIGMAS for x in seen)


def test_the_worker_forgets_weights_that_are_freed(monkeypatch):
    made = []

    class Watched(worker.Worker):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(worker, "Worker", Watched)
    with outsourcer(VISIBLE_WEIGHTS) as enclave:
        for i in range(5):
            weight = integers((6, 4), 8, i)
            enclave.show(weight)
            enclave.product(MATMUL, torch.ones(3, 6), weight)
            del weight
            gc.collect()
        assert len(made[0]._kept) == 1  # the last one: no product followed that tells of it


def test_long_sums_are_cut():
    terms = 131072  # one more than the ring holds
    lowest = torch.tensor(-128.0 + 2.0**-40, dtype=torch.float64)
    weight = lowest.expand(terms, 1).contiguous()
    with outsourcer(VISIBLE_WEIGHTS) as enclave:
        enclave.show(weight)
        assert int(enclave.product(MATMUL, lowest.expand(1, terms), weight)) == terms << 14


@EACH_PRECISION
def test_a_wrong_answer_names_the_worker(precision):
    weight, x = integers((6, 4), 8, 1), integers((3, 6), 8, 2)
    for call in (1, 2):  # the second one with a term that was made ahead

        def lie(answer, left=[call]):  # noqa: B006  counts calls
            left[0] -= 1
            return answer + (left[0] == 0)

        serve = {0: changing(lie)}
        with outsourcer(VISIBLE_WEIGHTS, precision=precision, serve=serve) as enclave:
            enclave.show(weight)
            for _ in range(call - 1):
                enclave.product(MATMUL, x, weight)
                enclave.precompute(1)
            with pytest.raises(CheatingDetected, match="worker 0 answered with a wrong") as caught:
                enclave.product(MATMUL, x, weight)
        assert caught.value.workers == (0,)


# Sessions ----------------------------------------------------------------------------------------


def inference(session):
    """The outputs of a network for four batches, some of which an enclave can prepare."""
    torch.manual_seed(6)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = session.share(nn.Sequential(*layers, nn.Linear(64, 10)).eval(), owner=0)
    results = []
    with torch.no_grad():
        for _ in range(4):
            y = model(session.share(torch.rand(8, 1, 8, 8), owner=1)).softmax(-1)
            results.append(session.reveal(y @ y.T))
            session.precompute(2)
    return torch.stack(results)


@pytest.mark.parametrize("limit", [None, 1 << 22])
def test_inference_is_that_of_two_workers(limit, monkeypatch):
    """Also if everything is sealed after each operation: terms that were made ahead are opened."""
    if limit:
        seal_everything_always(monkeypatch)
    found, wanted = (
        tacit.run(inference, outsourcing=mode, memory_limit=limit, **ENCLAVE)[0]
        for mode in (VISIBLE_WEIGHTS, "two-server")
    )
    assert torch.equal(found, wanted)


def test_a_weight_that_has_to_be_cut_is_not_shown(monkeypatch):
    """Its product is computed inside, block by block, and is the same."""
    seen, honest = [], worker.serve
    monkeypatch.setattr(worker, "serve", lambda mesh, device: recording(seen, honest)(mesh))

    def main(session):
        torch.manual_seed(8)
        model = session.share(nn.Linear(512, 512), owner=0)
        x = session.share(torch.rand(4, 512), owner=1)
        with torch.no_grad():
            y = session.reveal(model(x))
        session.precompute(2)
        return y

    found = tacit.run(main, outsourcing=VISIBLE_WEIGHTS, memory_limit=1 << 20, **ENCLAVE)[0]
    assert seen == []
    assert torch.equal(found, tacit.run(main, outsourcing="two-server", **ENCLAVE)[0])


def test_the_worker_sees_what_the_owner_shared_and_nothing_of_the_training(monkeypatch):
    """After a step of the optimizer the weights depend on data: they are not sent any more."""
    seen, counts, honest = [], [], worker.serve
    monkeypatch.setattr(worker, "serve", lambda mesh, device: recording(seen, honest)(mesh))
    given = network()

    def main(session):
        torch.manual_seed(3)
        model = session.share(network().requires_grad_(True), owner=0)
        x = session.share(torch.rand(8, 1, 8, 8), owner=1)
        y = session.share(torch.arange(8), owner=0)
        if session.is_enclave:
            for one, secret in zip(given.parameters(), model.parameters(), strict=True):
                one.data.copy_(secret.value.share.tensor)
        for _ in range(3):
            train(model, x, y, steps=1)
            if session.is_enclave:
                counts.append(len(seen))
        with torch.no_grad():
            model(x)
        return session.reveal(model[0].weight.sum())

    tacit.run(main, outsourcing=VISIBLE_WEIGHTS, **ENCLAVE)
    assert counts[0] == counts[2] == len(seen)
    weights = [given[0].weight, given[6].weight]
    shown = [x for x in seen if x.abs().max() < 1 << 22]
    assert len(shown) == 3  # the dense layer's in both directions
    for one in shown:
        assert any(is_multiple(one, w) or is_multiple(one, w.mT) for w in weights)


def is_multiple(words, weight):
    """Whether integers are a weight times a power of two."""
    if words.shape != weight.shape:
        return False
    ratio = words.double() / weight.detach().double()
    return bool((ratio / ratio.mean() - 1).abs().max() < 1e-2)


def test_a_lying_worker_is_named(monkeypatch):
    honest = worker.serve

    def serve(mesh, device):
        change_answers(mesh, lambda answer: answer + 1)
        honest(mesh, device)

    monkeypatch.setattr(worker, "serve", serve)
    with pytest.raises(PartyFailed) as failed:
        tacit.run(inference, outsourcing=VISIBLE_WEIGHTS, **ENCLAVE)
    assert isinstance(failed.value.__cause__, CheatingDetected)
    assert "worker 0" in str(failed.value.__cause__)


def test_precompute_is_harmless_elsewhere():
    def main(session):
        session.precompute(2)
        with pytest.raises(ConfigError, match="calls=-1"):
            session.precompute(-1)
        return session.reveal(session.share(torch.ones(1), owner=0))

    assert tacit.run(main, parties=3)[0] == 1
    assert tacit.run(main, outsourcing="none", **ENCLAVE)[0] == 1
