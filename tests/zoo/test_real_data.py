"""Private training on real data reaches what plain training reaches, step for step."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit import zoo

BATCH = 128
TWO = {"protocol": "additive", "parties": 2}


def split(load, *, scale):
    """Rows in a fixed random order, normalised, a fifth of them for the test."""
    from sklearn import datasets  # takes seconds

    rows, labels = getattr(datasets, load)(return_X_y=True)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor(rows, dtype=torch.float32)[order], torch.tensor(labels)[order]
    x = scale(x)
    cut = len(x) // 5
    return x[cut:], y[cut:], x[:cut], y[:cut]


def batches(x, y, epochs):
    for _ in range(epochs):
        for start in range(0, len(x) - BATCH + 1, BATCH):
            yield x[start : start + BATCH], y[start : start + BATCH]


def seeded(model: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        noise = torch.rand(parameter.shape, generator=generator) * 2 - 1
        parameter.data.copy_(noise / parameter.shape[-1] ** 0.5)
    return model


def train(model, optimizer, loss, data):
    for x, y in data:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


def compare(model, make, loss, data, right, test, **settings):
    """Accuracies of a plain and of a private training, and the largest difference of a weight."""
    plain = copy.deepcopy(model)
    train(plain, make(plain.parameters()), loss, data)

    def main(session):
        net = session.share(copy.deepcopy(model), owner=0)
        other = session.parties - 1
        secret = [tuple(session.share(list(pair), owner=other)) for pair in data]
        train(net, make(net.parameters()), loss, secret)
        return session.reveal(net, to=0)

    got = tacit.run(main, **settings)[0]
    with torch.no_grad():
        accuracies = [right(net(test[0]), test[1]) for net in (plain, got)]
    pairs = zip(plain.parameters(), got.parameters(), strict=True)
    return (*accuracies, max(float((a - b).detach().abs().max()) for a, b in pairs))


def argmax_right(scores, labels):
    return float((scores.argmax(1) == labels).float().mean())


@pytest.mark.parametrize("parties", [{"protocol": "trio"}, TWO], ids=["trio", "additive"])
def test_a_dense_network_learns_digits(parties):
    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)

    x, y, test_x, test_y = split("load_digits", scale=lambda x: x / 16)
    data = list(batches(x, F.one_hot(y, 10).float(), epochs=3))
    model = seeded(zoo.mlp(64, 32, 10))
    test = test_x, test_y
    plain, got, off = compare(model, make, F.cross_entropy, data, argmax_right, test, **parties)
    assert plain > 0.85
    assert abs(plain - got) <= 0.01
    assert off < 0.1  # roundings are drawn anew in every run, and training magnifies them


def test_adam_learns_digits():
    """In clear, by one party: the same roundings as by three."""
    x, y, *test = split("load_digits", scale=lambda x: x / 16)
    data = list(batches(x, F.one_hot(y, 10).float(), epochs=2))

    def make(parameters):
        return torch.optim.Adam(parameters, lr=0.01)

    alone = {"protocol": "cleartext", "parties": 1}
    model = seeded(zoo.mlp(64, 32, 10))
    plain, got, _ = compare(model, make, F.cross_entropy, data, argmax_right, test, **alone)
    assert plain > 0.85
    assert abs(plain - got) <= 0.01


def test_logistic_regression_finds_breast_cancer():
    x, y, test_x, test_y = split("load_breast_cancer", scale=lambda x: (x - x.mean(0)) / x.std(0))
    data = list(batches(x, y.float().unsqueeze(1), epochs=5))

    def right(scores, labels):
        return float(((scores.squeeze(1) > 0) == (labels == 1)).float().mean())

    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.5)

    loss = F.binary_cross_entropy_with_logits
    model = seeded(zoo.logistic_regression(30))
    plain, got, off = compare(model, make, loss, data, right, (test_x, test_y))
    assert plain > 0.93
    assert abs(plain - got) <= 0.01
    assert off < 0.01
