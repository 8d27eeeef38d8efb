"""How well classes and their probabilities are predicted."""

from __future__ import annotations

import torch
from torch import Tensor

from ..tensor.row_shapes import require_one_a_row
from .class_dtypes import require_classes

SMALLEST = 2.0**-52  # plain probabilities are at least this; secret ones are at least 2^-f anyway


def accuracy(labels: Tensor, predicted: Tensor) -> Tensor:
    """Returns the share of predictions that equal their label. Both are numbers of classes.

    >>> accuracy(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2]))
    tensor(0.7500)
    """
    require_classes("accuracy", labels=labels, predicted=predicted)
    require_one_a_row("accuracy", labels, predicted=predicted)
    return (labels == predicted).to(torch.get_default_dtype()).mean()


def confusion_matrix(labels: Tensor, predicted: Tensor, num_classes: int) -> Tensor:
    """Returns how often class i (row) was predicted as class j (column).

    Classes are numbers from 0 to num_classes - 1; others count nowhere.

    >>> confusion_matrix(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), 2)
    tensor([[1, 0],
            [1, 1]])
    """
    require_classes("confusion_matrix", labels=labels, predicted=predicted)
    require_one_a_row("confusion_matrix", labels, predicted=predicted)
    classes = torch.arange(num_classes, device=labels.device)
    true, found = (x.unsqueeze(-1) == classes for x in (labels, predicted))
    return true.long().mT @ found.long()


def log_loss(labels: Tensor, probabilities: Tensor) -> Tensor:
    """Returns the mean of -log of the probability that was predicted for the true class.

    probabilities: (n,) of class 1, with labels 0 and 1; or (n, k). On secrets a probability below
    2^-f counts as 2^-f, 11.09 at 16 fraction bits. For scores instead of probabilities,
    `torch.nn.functional.cross_entropy` is more accurate.

    >>> log_loss(torch.tensor([1, 0]), torch.tensor([0.5, 0.5]))
    tensor(0.6931)
    """
    require_classes("log_loss", labels=labels)
    first = probabilities if probabilities.dim() == 1 else probabilities[:, 0]
    require_one_a_row("log_loss", labels, probabilities=first)
    if probabilities.dim() == 1:
        true = labels.to(probabilities.dtype)
        likely = 1 - probabilities + true * (2 * probabilities - 1)
    else:
        classes = torch.arange(probabilities.shape[1], device=labels.device)
        chosen = (labels.unsqueeze(-1) == classes).to(probabilities.dtype)
        likely = (chosen * probabilities).sum(1)
    return -(likely.clamp(min=SMALLEST)).log().mean()
