"""Operations of neural-network layers and losses."""

from . import (
    attention,
    batch_norm,
    conv,
    dropout,
    embedding,
    embedding_bag,
    interpolate,
    layer_norm,
    loss,
    margin_loss,
    nll_loss,
    pad,
    pool,
    recurrent,
    softmax,
    weight_norm,
)

__all__ = [
    "attention",
    "batch_norm",
    "conv",
    "dropout",
    "embedding",
    "embedding_bag",
    "interpolate",
    "layer_norm",
    "loss",
    "margin_loss",
    "nll_loss",
    "pad",
    "pool",
    "recurrent",
    "softmax",
    "weight_norm",
]
