"""Linear and logistic regression, and dense networks."""

from __future__ import annotations

from torch import Tensor, nn

from .pooling import dense


class MLP(nn.Module):
    """Dense layers with a ReLU between each two; the last gives scores, not probabilities."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*dense(*sizes))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


def mlp(*sizes: int) -> MLP:
    """A dense network by the sizes of its layers: inputs, hidden units, outputs."""
    return MLP(*sizes)


def linear_regression(inputs: int, outputs: int = 1) -> nn.Linear:
    """Train it with MSELoss."""
    return nn.Linear(inputs, outputs)


def logistic_regression(inputs: int, num_classes: int = 2) -> nn.Linear:
    """Scores for BCEWithLogitsLoss, one for two classes; for CrossEntropyLoss with more."""
    return nn.Linear(inputs, 1 if num_classes == 2 else num_classes)
