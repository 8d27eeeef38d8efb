"""The models on secrets agree with their plain runs, forward, backward and in training."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm, validate
from tacit.zoo.resnet import BasicBlock, Bottleneck

SEED = torch.Generator().manual_seed(5)


def draw(*shape):
    return torch.randn(shape, generator=SEED)


def settled(model: nn.Module) -> nn.Module:
    """With weights that do not depend on torch's global state, in eval mode."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            fan_in = parameter[0].numel()
            parameter.data = draw(*parameter.shape) / fan_in**0.5
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.add_(torch.rand(buffer.shape, generator=SEED) / 4)
    return model.eval()


def private(model, *inputs, protocol="trio", **settings):
    """The model's result on secrets, model and inputs of different parties."""

    def main(session):
        own = session.share(copy.deepcopy(model), owner=0)
        secrets = session.share(list(inputs), owner=session.parties - 1)
        with torch.no_grad():
            return session.reveal(own(*secrets))

    parties = 1 if protocol == "cleartext" else 3
    return tacit.run(main, protocol=protocol, parties=parties, **settings)[0]


def agree(model, *inputs, protocol="trio"):
    with torch.no_grad():
        want = model(*inputs)
    got = private(model, *inputs, protocol=protocol)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for one, expected in pairs:
        limit = 1e-2 * expected.abs().max().item()
        torch.testing.assert_close(one, expected, atol=limit, rtol=0)


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
@pytest.mark.parametrize("pool", ["avg", "max"])
def test_lenet(protocol, pool):
    agree(settled(zoo.lenet5(pool=pool)), draw(2, 1, 28, 28), protocol=protocol)


def test_the_large_lenet():
    agree(settled(zoo.lenet()), draw(1, 1, 28, 28))


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
def test_residual_networks(block):
    model = settled(zoo.ResNet(block, (1, 1, 1, 1), num_classes=10, width=8))
    x = draw(1, 3, 32, 32)
    agree(model, x)
    agree(fold_batch_norm(model), x)


def test_vision_transformer():
    sizes = {"image_size": 16, "patch_size": 8, "depth": 2, "width": 16, "heads": 2, "hidden": 32}
    agree(settled(zoo.VisionTransformer(**sizes, num_classes=5)), draw(1, 3, 16, 16))


def test_bert_with_secret_words():
    model = settled(zoo.bert(words=20, positions=8, depth=2, width=16, heads=2, hidden=32))
    agree(model, torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]]))


def test_gpt2_with_secret_words():
    model = settled(zoo.gpt2(words=20, positions=8, depth=2, width=16, heads=2))
    agree(model, torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]]))


def test_text_sentiment():
    counts = torch.randint(0, 3, (2, 300), generator=SEED).float()
    agree(settled(zoo.text_sentiment(words=300)), counts)


@pytest.mark.full("smaller networks here, larger ones in debug mode")
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (lambda: zoo.small_alexnet(pool="max"), (1, 3, 32, 32)),
        (zoo.small_vgg, (1, 3, 32, 32)),
        (lambda: zoo.wav2letter(num_classes=5), (1, 1, 800)),
    ],
)
def test_larger_networks_in_clear(model, shape):
    """The same rules and roundings as three parties', by one."""
    agree(settled(model()), draw(*shape), protocol="cleartext")


def test_training_mode_has_no_problems():
    model = zoo.ResNet(BasicBlock, (1, 1, 1, 1), num_classes=4, width=4).train()
    assert validate(model, draw(2, 3, 32, 32)) == []
    assert validate(zoo.lenet5(pool="max").train(), draw(1, 1, 28, 28)) == []


def nearest_tie(model, x):
    """How near inputs of ReLUs come to zero, and the largest two under a pool to each other."""
    found = []

    def look(layer, inputs, _):
        (x,) = inputs
        if isinstance(layer, nn.ReLU):
            found.append(x.abs().min())
        if isinstance(layer, nn.MaxPool2d):
            assert (layer.kernel_size, layer.padding) == (layer.stride, 0)
            size = layer.kernel_size
            windows = x.unfold(2, size, size).unfold(3, size, size).flatten(4)
            first, second = windows.topk(2).values.unbind(-1)
            found.append((first - second)[first > 0].min())

    hooks = [layer.register_forward_hook(look) for layer in model.modules()]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return min(found).item()


def draw_clear(model, *shape):
    """Inputs of which roundings don't decide which way a gradient takes."""
    while True:
        x = draw(*shape)
        if nearest_tie(model, x) > 2**-12:
            return x


@pytest.mark.parametrize("secret_labels", [True, False])
def test_one_step_of_training(secret_labels):
    model = settled(zoo.lenet5(pool="max")).train()
    x, labels = draw_clear(model, 2, 1, 28, 28), torch.tensor([3, 1])
    targets = F.one_hot(labels, 10).float() if secret_labels else labels

    def step(net, x, y):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def main(session):
        net = session.share(copy.deepcopy(model), owner=0)
        y = session.share(targets, owner=2) if secret_labels else targets
        loss = step(net, session.share(x, owner=1), y)
        return session.reveal(loss), session.reveal(net)

    plain = copy.deepcopy(model)
    want = step(plain, x, targets)
    loss, got = tacit.run(main)[1]
    torch.testing.assert_close(loss, want.detach(), atol=1e-2, rtol=1e-2)
    for (name, one), expected in zip(got.named_parameters(), plain.parameters(), strict=True):
        moved = (expected - model.get_parameter(name)).abs().max().item()
        torch.testing.assert_close(one, expected, atol=5e-3 * moved + 2**-13, rtol=0, msg=name)
