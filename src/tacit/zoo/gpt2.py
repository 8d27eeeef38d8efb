"""A GPT-2-style decoder (Radford et al. 2019) with the names of the published checkpoints.

Their dense weights are the transposes of those here.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class CausalAttention(nn.Module):
    """Attention of each token to itself and to those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.c_attn(x).chunk(3, -1)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.c_proj(found.transpose(1, 2).flatten(2))
        return result


class Block(nn.Module):
    """Attention and a dense network, each after a LayerNorm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalAttention(width, heads)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)}
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        hidden = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        result: Tensor = x + self.mlp["c_proj"](hidden)
        return result


class Gpt2(nn.Module):
    """Scores of the next token, for each token of texts (N, tokens) of public or secret numbers."""

    def __init__(
        self,
        *,
        words: int = 50257,
        positions: int = 1024,
        depth: int = 12,
        width: int = 768,
        heads: int = 12,
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(width)
        for embedding in (self.wte, self.wpe):
            embedding.weight.data *= 0.02

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.wte(input_ids) + self.wpe.weight[: input_ids.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def gpt2(**sizes: int) -> Gpt2:
    """The small model, 124,439,808 parameters, unless other sizes are given."""
    return Gpt2(**sizes)
