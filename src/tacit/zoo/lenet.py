"""LeNet on 28 x 28 pictures: the large form of the papers on secure inference, and the classic."""

from __future__ import annotations

from torch import Tensor, nn

from .pooling import dense, pooling


class LeNet(nn.Module):
    """Two convolutions of 5 x 5 with pooling, then dense layers.

    channels: of the convolutions; hidden: of the dense layers between; padding: of the first
    convolution. Input (N, 1, 28, 28).
    """

    def __init__(
        self,
        channels: tuple[int, int],
        hidden: tuple[int, ...],
        *,
        num_classes: int = 10,
        padding: int = 0,
        pool: str = "avg",
    ) -> None:
        super().__init__()
        first, second = channels
        side = ((28 + 2 * padding - 4) // 2 - 4) // 2
        self.features = nn.Sequential(
            nn.Conv2d(1, first, 5, padding=padding),
            nn.ReLU(),
            pooling(pool, 2),
            nn.Conv2d(first, second, 5),
            nn.ReLU(),
            pooling(pool, 2),
        )
        sizes = (second * side * side, *hidden, num_classes)
        self.classifier = nn.Sequential(nn.Flatten(), *dense(*sizes))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(x))
        return scores


def lenet(*, num_classes: int = 10, pool: str = "avg") -> LeNet:
    """20 and 50 channels, 500 hidden units: the LeNet of CryptGPU and its peers."""
    return LeNet((20, 50), (500,), num_classes=num_classes, pool=pool)


def lenet5(*, num_classes: int = 10, pool: str = "avg") -> LeNet:
    """6 and 16 channels, 120 and 84 hidden units: LeCun's LeNet-5 with ReLU."""
    return LeNet((6, 16), (120, 84), num_classes=num_classes, padding=2, pool=pool)
