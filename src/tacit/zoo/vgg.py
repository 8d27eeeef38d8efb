"""VGG: torchvision's for 224 x 224, and the smaller heads of the papers on private training."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from .pooling import CLASSES, SIDES, check_data, dense, pooling

POOL = 0  # in a list of channels: halve the picture here
LAYERS = {
    11: (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL),
    16: (
        *(64, 64, POOL, 128, 128, POOL, 256, 256, 256, POOL),
        *(512, 512, 512, POOL, 512, 512, 512, POOL),
    ),
}
WIDTH = 64  # channels of the first layer
HIDDEN = {"cifar10": 256, "tiny_imagenet": 512, "imagenet": 4096}


class VGG(nn.Module):
    """Convolutions of 3 x 3, halved five times, an average, and three dense layers."""

    def __init__(
        self,
        depth: int,
        avgpool: nn.Module,
        classifier: nn.Module,
        pool: str,
        *,
        batch_norm: bool = False,
        width: int = WIDTH,
    ) -> None:
        super().__init__()
        channels = [count * width // WIDTH for count in LAYERS[depth]]
        self.features = nn.Sequential(*_features(channels, pool, batch_norm=batch_norm))
        self.avgpool = avgpool
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores


def _features(channels: Sequence[int], pool: str, *, batch_norm: bool) -> list[nn.Module]:
    layers: list[nn.Module] = []
    inputs = 3
    for outputs in channels:
        if outputs == POOL:
            layers.append(pooling(pool, 2))
        else:
            norm = [nn.BatchNorm2d(outputs)] if batch_norm else []
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), *norm, nn.ReLU()]
            inputs = outputs
    return layers


def _large(depth: int, num_classes: int, pool: str, dropout: float) -> VGG:
    classifier = nn.Sequential(
        nn.Linear(512 * 7 * 7, 4096),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(4096, num_classes),
    )
    return VGG(depth, nn.AdaptiveAvgPool2d((7, 7)), classifier, pool)


def vgg11(*, num_classes: int = 1000, pool: str = "max", dropout: float = 0.5) -> VGG:
    """The form of torchvision, with its names. Input (N, 3, 224, 224)."""
    return _large(11, num_classes, pool, dropout)


def vgg16(*, num_classes: int = 1000, pool: str = "max", dropout: float = 0.5) -> VGG:
    """The form of torchvision, with its names. Input (N, 3, 224, 224)."""
    return _large(16, num_classes, pool, dropout)


def goten_vgg(*, width: int = WIDTH) -> VGG:
    """VGG-11 with batch norms and one dense layer, as Goten trains it. Input (N, 3, 32, 32).

    The first layer has `width` channels, and the others in proportion.
    """
    return VGG(11, nn.Identity(), nn.Linear(8 * width, 10), "max", batch_norm=True, width=width)


def small_vgg(depth: int = 16, data: str = "cifar10", *, pool: str = "avg") -> VGG:
    """The form of CryptGPU for "cifar10" (32 x 32), "tiny_imagenet" (64) or "imagenet" (224)."""
    check_data(data)
    left = SIDES[data] // 32
    end = nn.Identity() if left == 1 else pooling(pool, 2)
    pixels = max(left // 2, 1) ** 2
    sizes = (512 * pixels, HIDDEN[data], HIDDEN[data], CLASSES[data])
    return VGG(depth, end, nn.Sequential(*dense(*sizes)), pool)
