"""Networks with random weights, whose activations keep a usual size in every layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def initialise(model: nn.Module, inputs: Tensor) -> nn.Module:
    """Gives a network Kaiming's weights and the running statistics of `inputs`; in eval mode."""
    for part in model.modules():
        if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # the statistics become those of the next batch
    with torch.no_grad():
        model.train()(inputs)
    return model.eval()
