"""Operations of neural-network layers and losses."""

from . import (
    attention,
    batch_norm,
    conv,
    embedding,
    interpolate,
    layer_norm,
    loss,
    nll_loss,
    pad,
    pool,
    recurrent,
    softmax,
)

__all__ = [
    "attention",
    "batch_norm",
    "conv",
    "embedding",
    "interpolate",
    "layer_norm",
    "loss",
    "nll_loss",
    "pad",
    "pool",
    "recurrent",
    "softmax",
]
