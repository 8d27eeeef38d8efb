"""The vision transformer (Dosovitskiy et al. 2021) with the names of torchvision."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn


class EncoderBlock(nn.Module):
    """Attention and a dense network, each after a LayerNorm and beside a shortcut."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        normed = self.ln_1(x)
        attended, _ = self.self_attention(normed, normed, normed, need_weights=False)
        x = x + self.dropout(attended)
        result: Tensor = x + self.mlp(self.ln_2(x))
        return result


class Encoder(nn.Module):
    """Positions are added, then the blocks, then a LayerNorm."""

    def __init__(
        self, tokens: int, depth: int, width: int, heads: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, tokens, width))
        nn.init.trunc_normal_(self.pos_embedding, std=0.02)
        self.dropout = nn.Dropout(dropout)
        blocks = [
            (f"encoder_layer_{i}", EncoderBlock(width, heads, hidden, dropout))
            for i in range(depth)
        ]
        self.layers = nn.Sequential(OrderedDict(blocks))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.ln(self.layers(self.dropout(x + self.pos_embedding)))
        return result


class VisionTransformer(nn.Module):
    """Patches of a square picture as tokens, with one more token whose result is classified."""

    def __init__(
        self,
        *,
        image_size: int = 224,
        patch_size: int = 16,
        depth: int = 12,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        tokens = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(tokens, depth, width, heads, hidden, dropout)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(width, num_classes)))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)  # (N, patches, width)
        token = self.class_token.expand(patches.shape[0], -1, -1)
        tokens = self.encoder(torch.cat([token, patches], dim=1))
        scores: Tensor = self.heads(tokens[:, 0])
        return scores


def vit_b_16(*, num_classes: int = 1000, image_size: int = 224) -> VisionTransformer:
    """The base model with patches of 16 x 16: 86,567,656 parameters with 1000 classes."""
    return VisionTransformer(num_classes=num_classes, image_size=image_size)
