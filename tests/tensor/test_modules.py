"""Every module that the library promises, forward and backward on secrets, beside plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.tensor.module_comparison import Call, agree
from torch import Tensor, nn

import tacit

Case = tuple[Callable[[], nn.Module], tuple[Tensor, ...]]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def chances(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(3)) * 0.9 + 0.05


X, Y, Z = (normal(4, 5, seed=seed) for seed in (1, 2, 3))
IMAGE, LINE, CUBE = normal(2, 4, 6, 6), normal(2, 4, 8), normal(1, 2, 4, 4, 4)
WORDS, MORE_WORDS = normal(2, 3, 8), normal(2, 4, 8, seed=1)
LABELS = torch.tensor([1, 0, 4, 2])
SIDES = torch.tensor([1.0, -1, 1, -1])


def held(function: Callable[..., Any], *modules: nn.Module) -> Callable[[], nn.Module]:
    return lambda: Call(function, *modules)


def labelled(loss: nn.Module) -> Callable[[], nn.Module]:
    """A loss with public labels."""
    return held(lambda loss, x: loss(x, LABELS), loss)


LAYERS: dict[str, Case] = {
    "Identity": (nn.Identity, (X,)),
    "Linear": (lambda: nn.Linear(5, 3), (X,)),
    "Bilinear": (lambda: nn.Bilinear(5, 5, 2), (X, Y)),
    "Flatten": (nn.Flatten, (IMAGE,)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), (IMAGE,)),
    "Conv1d": (lambda: nn.Conv1d(4, 2, 3), (LINE,)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (IMAGE,)),
    "Conv3d": (lambda: nn.Conv3d(2, 2, 2), (CUBE,)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 2, 3, stride=2), (LINE,)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1), (IMAGE,)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(5), (X,)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), (IMAGE,)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(2), (CUBE,)),
    "BatchNorm1d, evaluated": (lambda: nn.BatchNorm1d(5).eval(), (X,)),
    "BatchNorm2d, evaluated": (lambda: nn.BatchNorm2d(4).eval(), (IMAGE,)),
    "LayerNorm": (lambda: nn.LayerNorm(8), (WORDS,)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (IMAGE,)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), (LINE,)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), (IMAGE,)),
    "InstanceNorm2d, tracked": (lambda: nn.InstanceNorm2d(4, track_running_stats=True), (IMAGE,)),
    "RMSNorm": (lambda: nn.RMSNorm(8), (WORDS,)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), (IMAGE,)),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), (LINE,)),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, padding=1), (IMAGE,)),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), (CUBE,)),
    "AvgPool1d": (lambda: nn.AvgPool1d(2), (LINE,)),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, padding=1), (IMAGE,)),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), (CUBE,)),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), (IMAGE.abs() + 0.5,)),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(3), (LINE,)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((4, 1)), (IMAGE,)),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(3), (CUBE,)),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(3), (LINE,)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(4), (IMAGE,)),
    "AdaptiveMaxPool3d": (lambda: nn.AdaptiveMaxPool3d(2), (CUBE,)),
    "Dropout, evaluated": (lambda: nn.Dropout(0.5).eval(), (X,)),
    "Embedding": (held(lambda table: table(LABELS), nn.Embedding(5, 3)), ()),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), (IMAGE,)),
    "Upsample, bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (IMAGE,)),
    "Upsample, linear": (lambda: nn.Upsample(size=11, mode="linear"), (LINE,)),
    "Upsample, trilinear": (lambda: nn.Upsample(size=5, mode="trilinear"), (CUBE,)),
    "Upsample, aligned": (
        lambda: nn.Upsample(size=(9, 4), mode="bilinear", align_corners=True),
        (IMAGE,),
    ),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (IMAGE,)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (IMAGE,)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (IMAGE,)),
    "Unfold": (lambda: nn.Unfold(2), (IMAGE,)),
    "Fold": (lambda: nn.Fold(4, 2), (normal(1, 8, 9),)),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(1), (IMAGE,)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), (IMAGE,)),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(1), (IMAGE,)),
    "CosineSimilarity": (nn.CosineSimilarity, (X, Y)),
    "PairwiseDistance": (nn.PairwiseDistance, (X, Y)),
}

SEQUENCES: dict[str, Case] = {
    "MultiheadAttention": (
        held(lambda m, x: m(x, x, x)[0], nn.MultiheadAttention(8, 2, batch_first=True)),
        (WORDS,),
    ),
    "MultiheadAttention, cross": (
        held(
            lambda m, x, y: m(x, y, y, need_weights=False)[0],
            nn.MultiheadAttention(8, 2, batch_first=True),
        ),
        (WORDS, MORE_WORDS),
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (WORDS,),
    ),
    "TransformerEncoderLayer, gelu": (
        lambda: nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        ),
        (WORDS,),
    ),
    "TransformerEncoderLayer, evaluated": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        (WORDS,),
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (WORDS, MORE_WORDS),
    ),
    "TransformerDecoderLayer, evaluated": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).eval(),
        (WORDS, MORE_WORDS),
    ),
    "RNN": (lambda: nn.RNN(8, 4), (WORDS,)),
    "LSTM": (lambda: nn.LSTM(8, 4), (WORDS,)),
    "LSTM, both ways": (lambda: nn.LSTM(8, 4, 2, bidirectional=True, batch_first=True), (WORDS,)),
    "GRU": (lambda: nn.GRU(8, 4, num_layers=2), (WORDS,)),
    "RNNCell": (lambda: nn.RNNCell(5, 3), (X,)),
    "LSTMCell": (lambda: nn.LSTMCell(5, 3), (X,)),
    "GRUCell": (lambda: nn.GRUCell(5, 3), (X,)),
}

ACTIVATIONS: dict[str, Case] = {
    name: (getattr(nn, name), (X * 3,))
    for name in [
        "ReLU",
        "ReLU6",
        "LeakyReLU",
        "ELU",
        "SELU",
        "CELU",
        "GELU",
        "SiLU",
        "Mish",
        "Hardswish",
        "Hardsigmoid",
        "Hardtanh",
        "Sigmoid",
        "LogSigmoid",
        "Tanh",
        "Softplus",
        "Softsign",
        "PReLU",
        "Tanhshrink",
        "Softshrink",
        "Hardshrink",
    ]
} | {
    "GELU, tanh": (lambda: nn.GELU(approximate="tanh"), (X * 3,)),
    "Threshold": (lambda: nn.Threshold(0.1, -0.5), (X,)),
    "GLU": (nn.GLU, (normal(3, 4),)),
    "Softmax": (lambda: nn.Softmax(-1), (X,)),
    "Softmin": (lambda: nn.Softmin(-1), (X,)),
    "Softmax2d": (nn.Softmax2d, (IMAGE,)),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), (X,)),
}

LOSSES: dict[str, Case] = {
    "CrossEntropyLoss": (labelled(nn.CrossEntropyLoss()), (X,)),
    "CrossEntropyLoss, smoothed": (labelled(nn.CrossEntropyLoss(label_smoothing=0.1)), (X,)),
    "CrossEntropyLoss, chances": (nn.CrossEntropyLoss, (X, Y.softmax(1))),
    "NLLLoss": (labelled(nn.NLLLoss()), (X,)),
    "BCELoss": (nn.BCELoss, (chances(4, 5), Y.sigmoid())),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, (X, Y.sigmoid())),
    "MSELoss": (nn.MSELoss, (X, Y)),
    "L1Loss": (nn.L1Loss, (X, Y)),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(beta=0.5), (X, Y)),
    "HuberLoss": (lambda: nn.HuberLoss(delta=0.7), (X, Y)),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), (X.log_softmax(1), Y.softmax(1))),
    "CosineEmbeddingLoss": (
        held(lambda loss, x, y: loss(x, y, SIDES), nn.CosineEmbeddingLoss()),
        (X, Y),
    ),
    "TripletMarginLoss": (nn.TripletMarginLoss, (X, Y, Z)),
    "MarginRankingLoss": (
        held(lambda loss, x, y: loss(x, y, SIDES), nn.MarginRankingLoss()),
        (normal(4), normal(4, seed=1)),
    ),
    "HingeEmbeddingLoss": (
        held(lambda loss, x: loss(x, SIDES), nn.HingeEmbeddingLoss()),
        (normal(4),),
    ),
    "SoftMarginLoss": (held(lambda loss, x: loss(x, SIDES), nn.SoftMarginLoss()), (normal(4),)),
    "MultiMarginLoss": (labelled(nn.MultiMarginLoss()), (X,)),
    "MultiLabelSoftMarginLoss": (
        held(lambda loss, x: loss(x, (Y > 0).to(x.dtype)), nn.MultiLabelSoftMarginLoss()),
        (X,),
    ),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, (X, Y)),
}

ALL = LAYERS | SEQUENCES | ACTIVATIONS | LOSSES
# With three parties: the ways that differ from each other.
TRIO = [
    "Linear",
    "Conv2d",
    "BatchNorm2d",
    "LayerNorm",
    "MaxPool2d",
    "AvgPool2d",
    "Embedding",
    "Upsample, bilinear",
    "CosineSimilarity",
    "TransformerEncoderLayer",
    "LSTM",
    "GELU",
    "Softplus",
    "PReLU",
    "Hardswish",
    "Softmax",
    "CrossEntropyLoss",
    "CrossEntropyLoss, chances",
    "BCELoss",
    "HuberLoss",
    "TripletMarginLoss",
]


def made(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    make, inputs = ALL[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make(), inputs


@pytest.mark.parametrize("name", ALL)
def test_modules(name):
    module, inputs = made(name)
    agree(module, *inputs)


@pytest.mark.parametrize("name", TRIO)
def test_modules_of_three_parties(name):
    module, inputs = made(name)
    agree(module, *inputs, protocol="trio")


DROPOUTS = {
    "Dropout": (nn.Dropout(0.25), (4000,)),
    "Dropout1d": (nn.Dropout1d(0.25), (40, 100, 2)),
    "Dropout2d": (nn.Dropout2d(0.25), (40, 100, 2, 2)),
    "Dropout3d": (nn.Dropout3d(0.25), (40, 100, 1, 2, 1)),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_is_drawn_alike_and_again_in_the_gradient(name):
    module, shape = DROPOUTS[name]

    def main(session):
        x = session.share(torch.ones(shape), owner=0).requires_grad_()
        y = module(x)
        y.sum().backward()
        return session.reveal(y), session.reveal(x.grad)

    (y, grad), *others = tacit.run(main)
    assert all(torch.equal(y, other[0]) for other in others)
    assert torch.allclose(y, grad, atol=2e-4)
    kept = y > 0.5
    assert torch.allclose(y, kept / 0.75, atol=2e-4)
    assert 0.7 < kept.float().mean() < 0.8
    assert torch.equal(kept.flatten(2).all(-1), kept.flatten(2).any(-1)) if y.dim() > 2 else True


@pytest.mark.parametrize("module", [nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.2)])
def test_alpha_dropout_keeps_mean_and_variance(module):
    x = normal(200, 50)

    def main(session):
        return session.reveal(module(session.share(x, owner=0)))

    [y] = tacit.run(main, protocol="cleartext", parties=1)
    assert abs(y.mean()) < 0.1
    assert abs(y.std() - 1) < 0.1
