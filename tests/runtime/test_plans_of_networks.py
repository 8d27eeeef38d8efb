"""Every kind of network of the zoo is recorded, and a replay has the bits of the network itself."""

from __future__ import annotations

import pytest
import torch
from tests.runtime.pretended_gpu import pretended, pretended_own
from torch import nn

import tacit
from tacit import zoo
from tacit.fixedpoint.flatten import tensors
from tacit.zoo.pooling import dense
from tacit.zoo.resnet import BasicBlock, Bottleneck

__all__ = ["pretended", "pretended_own"]

TOKENS = {"depth": 1, "width": 8, "heads": 2, "hidden": 16}
PICTURE = (1, 3, 32, 32)
NETWORKS = {
    "regression": (lambda: zoo.logistic_regression(6), (2, 6)),
    "mlp": (lambda: zoo.mlp(6, 8, 3), (2, 6)),
    "lenet5": (lambda: zoo.lenet5(pool="max"), (1, 1, 28, 28)),
    "text sentiment": (lambda: zoo.text_sentiment(words=30), (2, 30)),
    "basic blocks": (lambda: zoo.ResNet(BasicBlock, (1, 1), num_classes=3, width=4), PICTURE),
    "bottlenecks": (lambda: zoo.ResNet(Bottleneck, (1, 1), num_classes=3, width=4), PICTURE),
    "bert": (lambda: zoo.bert(words=10, positions=4, **TOKENS), (1, 3)),
    "gpt2": (lambda: zoo.gpt2(words=10, positions=4, depth=1, width=8, heads=2), (1, 3)),
    "vit": (
        lambda: zoo.VisionTransformer(image_size=8, patch_size=4, num_classes=3, **TOKENS),
        (1, 3, 8, 8),
    ),
    "goten vgg": (lambda: zoo.goten_vgg(width=4), PICTURE),
    "lenet": (zoo.lenet, (1, 1, 28, 28)),
    "alexnet": (zoo.small_alexnet, PICTURE),
    "vgg": (
        lambda: zoo.VGG(16, nn.Identity(), nn.Sequential(*dense(32, 6, 3)), "avg", width=4),
        PICTURE,
    ),
    "wav2letter": (lambda: zoo.wav2letter(num_classes=3, width=8, hidden=16), (1, 1, 800)),
}
LARGE = ["alexnet", "vgg", "goten vgg", "wav2letter"]
QUICK = ["mlp", "lenet5", "basic blocks"]
OTHERS = [name for name in NETWORKS if name not in QUICK]
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.full("others run")) for name in OTHERS)]


def made(name):
    """A network, and two inputs."""
    torch.manual_seed(4)
    make, shape = NETWORKS[name]
    if name in ("bert", "gpt2"):
        return make().eval(), torch.randint(0, 10, (2, *shape))
    return make().eval(), torch.randn(2, *shape)


def test_there_is_a_network_of_every_class():
    kinds = {kind for kind in vars(zoo).values() if isinstance(kind, type)}
    assert kinds <= {type(make()) for make, _ in NETWORKS.values()}
    assert all(issubclass(kind, nn.Module) for kind in kinds)


def as_list(results):
    return [x.detach() for x in results] if isinstance(results, tuple) else [results.detach()]


def compared(session, name):
    """Whether a replay has the words of a call under the same masks; and its results."""
    network, inputs = made(name)
    model = session.share(network, owner=0)

    def plain(x):
        return as_list(model(x))

    function = session.repeated(plain)
    with torch.no_grad():
        first, x = (session.share(x, owner=1) for x in inputs)
        for _ in range(3):
            function(first)
        streams = session.protocol.context.streams
        number = streams.number
        replayed = function(x)
        after, streams.number = streams.number, number
        called = plain(x)
        words = [[part for y in ys for part in tensors(y.value)] for ys in (called, replayed)]
    assert streams.number == after
    assert [one.num_replays for one in function.recordings] == [1]
    return all(map(torch.equal, *words)), session.reveal(replayed)


def check(found, name):
    network, inputs = made(name)
    with torch.no_grad():
        wanted = as_list(network(inputs[1]))
    for y, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(y, want, atol=0.02 * max(1.0, float(want.abs().max())), rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_replayed_network_has_the_bits_of_the_network(name):
    for same, found in tacit.run(compared, name):
        assert same
        check(found, name)


def many_compared(session, names):
    return {name: compared(session, name) for name in names}


@pytest.mark.full("the same in threads")
def test_a_replay_in_processes_has_the_bits_of_the_network():
    """Many networks in one run, as processes start slowly. Large ones have no other layers."""
    names = [name for name in NETWORKS if name not in LARGE]
    for by_name in tacit.run(many_compared, names, transport="processes"):
        for name, (same, found) in by_name.items():
            assert same, name
            check(found, name)


def replayed(session, name):
    """What the last of six calls gives: a replay."""
    network, inputs = made(name)
    model = session.share(network, owner=0)
    function = session.repeated(lambda x: as_list(model(x)))
    with torch.no_grad():
        for i in range(6):
            found = function(session.share(inputs[i % 2], owner=1))
    [recording] = function.recordings
    assert recording.num_replays >= 3
    return session.reveal(found)


@pytest.mark.parametrize("gpu", ["pretended", "pretended_own"])
def test_a_network_is_replayed_on_a_gpu_that_is_pretended(gpu, request):
    for found in request.getfixturevalue(gpu)(replayed, "mlp"):
        check(found, "mlp")
