"""Sentiment of film reviews, learnt on secrets: a logistic regression on MiniLM's embeddings.

The embeddings and what they say are one party's, the weights start as another's; nobody sees more.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit import zoo

from .language import Sentences, embedded, minilm, sentences

BATCH = 100
LENGTH = 32  # tokens of a review, at most


def train(model: nn.Module, data: list[tuple[Tensor, Tensor]], epochs: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0, momentum=0.9)
    for _ in range(epochs):
        for x, y in data:
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(model(x), y).backward()
            optimizer.step()


def accuracy(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float(((model(x).squeeze(1) > 0) == (labels == 1)).float().mean())


def learner(
    session: tacit.Session, model: nn.Module, data: list[tuple[Tensor, Tensor]], epochs: int
) -> nn.Module:
    own = session.share(copy.deepcopy(model), owner=0)
    train(own, [tuple(session.share(list(pair), owner=1)) for pair in data], epochs)
    trained: nn.Module = session.reveal(own)
    return trained


def learnt(
    features: Tensor, labels: Tensor, size: int, epochs: int, **parties: Any
) -> tuple[float, float]:
    """Accuracies on what is not among the first `size`: of a plain and of a private training."""
    model = zoo.logistic_regression(features.shape[1])
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    wanted = labels.float().unsqueeze(1)
    data = [(features[i : i + BATCH], wanted[i : i + BATCH]) for i in range(0, size, BATCH)]
    got = tacit.run(learner, model, data, epochs, deadline=600.0, **parties)[0]
    train(model, data, epochs)
    plain, private = (accuracy(net, features[size:], labels[size:]) for net in (model, got))
    return plain, private


def features(given: Sentences, batch: int = 50) -> Tensor:
    """The plain embeddings; sentences of about one length go together, and are not padded."""
    model, made = minilm(), torch.empty(len(given.ids), 384)
    for some in given.mask.sum(1).argsort().split(batch):
        longest = int(given.mask[some].sum(1).max())
        ids, mask = given.ids[some, :longest], given.mask[some, :longest]
        made[some] = embedded(model, mask, input_ids=ids)
    return made


def rows(size: int = 2000, tested: int = 1000, epochs: int = 5, **parties: Any) -> list[Row]:
    given = sentences(size + tested, LENGTH)
    plain, private = learnt(features(given), given.labels, size, epochs, **parties)
    row = Row(
        name=f"Sentiment of {size} reviews, trained privately",
        value=100 * private,
        unit="% right",
        baseline="plain training",
        baseline_value=100 * plain,
        target=(plain - 0.01) / plain,
        note=f"logistic regression on MiniLM's embeddings, {epochs} epochs of SGD with momentum, "
        f"{tested} other reviews",
    )
    return [row]
