"""AlexNet: torchvision's for 224 x 224, and the narrower one of the papers on private training."""

from __future__ import annotations

from torch import Tensor, nn

from .pooling import CLASSES, check_data, dense, pooling

# For each data set the last pooling, and what is left then: channels times pixels.
ENDS = {"cifar10": (1, 256), "tiny_imagenet": (2, 1024), "imagenet": (4, 9216)}
HIDDEN = {"cifar10": 256, "tiny_imagenet": 1024, "imagenet": 4096}


class AlexNet(nn.Module):
    """Convolutions, an average over what is left, and dense layers."""

    def __init__(self, features: nn.Module, avgpool: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.avgpool = avgpool
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores


def _convolutions(layers: list[tuple[int, int, int, int, int]]) -> list[nn.Sequential]:
    """A convolution and a ReLU for each (inputs, outputs, kernel, stride, padding)."""
    return [nn.Sequential(nn.Conv2d(i, o, k, s, p), nn.ReLU()) for i, o, k, s, p in layers]


def alexnet(*, num_classes: int = 1000, pool: str = "max", dropout: float = 0.5) -> AlexNet:
    """The form of torchvision, with its names. Input (N, 3, 224, 224)."""
    one, two, three, four, five = _convolutions(
        [
            (3, 64, 11, 4, 2),
            (64, 192, 5, 1, 2),
            (192, 384, 3, 1, 1),
            (384, 256, 3, 1, 1),
            (256, 256, 3, 1, 1),
        ]
    )
    pools = [pooling(pool, 3, 2) for _ in range(3)]
    features = nn.Sequential(*one, pools[0], *two, pools[1], *three, *four, *five, pools[2])
    classifier = nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(256 * 6 * 6, 4096),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, num_classes),
    )
    return AlexNet(features, nn.AdaptiveAvgPool2d((6, 6)), classifier)


def small_alexnet(data: str = "cifar10", *, pool: str = "avg") -> AlexNet:
    """The form of CryptGPU for "cifar10" (32 x 32), "tiny_imagenet" (64) or "imagenet" (224)."""
    check_data(data)
    one, two, three, four, five = _convolutions(
        [
            (3, 96, 11, 4, 9),
            (96, 256, 5, 1, 1),
            (256, 384, 3, 1, 1),
            (384, 384, 3, 1, 1),
            (384, 256, 3, 1, 1),
        ]
    )
    features = nn.Sequential(
        *one, pooling(pool, 3, 2), *two, pooling(pool, 2, 1), *three, *four, *five
    )
    (last, size), hidden = ENDS[data], HIDDEN[data]
    end = nn.Identity() if last == 1 else pooling(pool, last)
    return AlexNet(features, end, nn.Sequential(*dense(size, hidden, hidden, CLASSES[data])))
