"""A BERT-style encoder (Devlin et al. 2019) with the names of the published checkpoints."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

MASKED = -1e4  # added to the score of a token that is not there: exp() of it is 0


class Embeddings(nn.Module):
    """Words, positions and kinds of token, added and normalised."""

    def __init__(self, words: int, positions: int, width: int, dropout: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(words, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(positions, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        length = input_ids.shape[1]
        x = self.word_embeddings(input_ids) + self.position_embeddings.weight[:length]
        if token_type_ids is None:
            x = x + self.token_type_embeddings.weight[0]
        else:
            x = x + self.token_type_embeddings(token_type_ids)
        result: Tensor = self.dropout(self.LayerNorm(x))
        return result


class SelfAttention(nn.Module):
    """softmax(Q K^T / sqrt(size)) V for each head."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + mask
        weights = self.dropout(torch.softmax(scores, dim=-1))
        result: Tensor = (weights @ v).transpose(1, 2).flatten(2)
        return result

    def _split(self, x: Tensor) -> Tensor:
        """(N, tokens, width) as (N, heads, tokens, size)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Output(nn.Module):
    """A dense layer beside a shortcut, then a LayerNorm."""

    def __init__(self, inputs: int, width: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, shortcut: Tensor) -> Tensor:
        result: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + shortcut)
        return result


class Layer(nn.Module):
    """Attention and a dense network, each with its shortcut."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {
                "self": SelfAttention(width, heads, dropout),
                "output": Output(width, width, dropout),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, hidden)})
        self.activation = nn.GELU()
        self.output = Output(hidden, width, dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        hidden = self.activation(self.intermediate["dense"](x))
        result: Tensor = self.output(hidden, x)
        return result


class Bert(nn.Module):
    """The last layer's vector for each token, and that of the first through a dense layer.

    Input: token numbers (N, tokens), public or secret, and a mask of ones and zeros, 0 where there
    is no token.
    """

    def __init__(
        self,
        *,
        words: int = 30522,
        positions: int = 512,
        depth: int = 12,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(words, positions, width, dropout)
        layers = [Layer(width, heads, hidden, dropout) for _ in range(depth)]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        mask = None
        if attention_mask is not None:
            mask = (1.0 - attention_mask.to(torch.float32))[:, None, None, :] * MASKED
        x = self.embeddings(input_ids, token_type_ids)
        for layer in self.encoder["layer"]:  # type: ignore[attr-defined]
            x = layer(x, mask)
        return x, torch.tanh(self.pooler["dense"](x[:, 0]))


def bert(**sizes: int) -> Bert:
    """The base model, 109,482,240 parameters, unless other sizes are given."""
    return Bert(**sizes)
