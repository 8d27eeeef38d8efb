"""Attention on secrets: masks, hidden rows, and the layers that arrive as one operation."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.tensor.module_comparison import Call, agree
from torch import nn
from torch.nn import functional as F

import tacit


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


QKV = [normal(2, 2, 3, 4, seed=seed) for seed in range(3)]
LATER = torch.ones(3, 3, dtype=torch.bool).triu(1)
PADDING = torch.tensor([[False, False, True], [False, False, False]])
WORDS = normal(2, 3, 8)


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
def test_scaled_dot_products(mask, protocol):
    settings = {
        "none": {},
        "causal": {"is_causal": True},
        "bool": {"attn_mask": ~LATER},
        "float": {"attn_mask": normal(3, 3, seed=5).masked_fill(LATER, float("-inf"))},
    }[mask]

    def attend(q, k, v):
        chosen = dict(settings)
        if mask == "float":
            chosen["attn_mask"] = chosen["attn_mask"].to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, **chosen)

    agree(attend, *QKV, protocol=protocol, absolute=1e-3)


def test_large_scores_choose_one_key():
    q, k, v = QKV
    agree(lambda q, k, v: F.scaled_dot_product_attention(q * 40, k, v), q, k, v, gradients=False)


def test_a_query_that_sees_nothing_gets_nothing():
    seen = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])

    def main(session):
        secrets = [session.share(x, owner=0) for x in QKV]
        return session.reveal(F.scaled_dot_product_attention(*secrets, attn_mask=seen))

    for got in tacit.run(main):
        assert not got[..., 1, :].any()
        wanted = F.scaled_dot_product_attention(*QKV, attn_mask=seen)
        assert (got[..., 0, :] - wanted[..., 0, :]).abs().max() < 1e-3


@pytest.mark.parametrize("mask", [normal(3, 3), ~LATER])
def test_a_secret_mask(mask):
    def main(session):
        secrets = [session.share(x, owner=0) for x in QKV]
        shared = session.share(mask, owner=0)
        return session.reveal(F.scaled_dot_product_attention(*secrets, attn_mask=shared))

    [got] = tacit.run(main, protocol="cleartext", parties=1)
    wanted = F.scaled_dot_product_attention(*QKV, attn_mask=mask)
    assert (got - wanted).abs().max() < 2e-3


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_multihead_attention(weights, masked):
    def attend(attention, x):
        mask = {"attn_mask": LATER, "key_padding_mask": PADDING} if masked else {}
        return attention(x, x, x, need_weights=weights, **mask)[0]

    agree(Call(attend, nn.MultiheadAttention(8, 2, batch_first=True)), WORDS, absolute=2e-3)


def test_attention_weights():
    agree(Call(lambda m, x: m(x, x, x)[1], nn.MultiheadAttention(8, 2, batch_first=True)), WORDS)


FUSED = {
    "plain": {},
    "gelu first": {"activation": "gelu", "norm_first": True},
}


def check_fused(form: str, masks: dict[str, torch.Tensor], protocol: str) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **FUSED[form]).eval()

    def main(session):
        own = session.share(copy.deepcopy(layer), owner=0)
        with torch.no_grad():
            return session.reveal(own(session.share(WORDS, owner=0), **masks))

    with torch.no_grad():
        wanted = layer(WORDS, **masks)
    shown = ~PADDING if "src_key_padding_mask" in masks else torch.ones_like(PADDING)
    for got in tacit.run(main, protocol=protocol, parties=1 if protocol == "cleartext" else 3):
        assert (got - wanted)[shown].abs().max() < 2e-3


@pytest.mark.parametrize("masks", [{}, {"src_mask": LATER}, {"src_key_padding_mask": PADDING}])
@pytest.mark.parametrize("form", FUSED)
def test_encoder_layers_in_one_operation(form, masks):
    """torch makes one of a layer in evaluation without gradients."""
    check_fused(form, masks, "cleartext")


def test_encoder_layers_in_one_operation_of_three_parties():
    check_fused("plain", {"src_mask": LATER}, "trio")


def test_multihead_attention_in_one_operation():
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    def call(m, x, y):
        projections = (m.in_proj_weight, m.in_proj_bias, m.out_proj.weight, m.out_proj.bias)
        result, weights = torch._native_multi_head_attention(x, y, y, 8, 2, *projections)
        return torch.cat([result.flatten(1), weights.flatten(1)], 1)

    agree(Call(call, attention), WORDS, WORDS + 1, gradients=False, absolute=1e-3)


def test_causal_language_model():
    """An encoder with a causal mask and is_causal, as decoders are written."""
    mask = nn.Transformer.generate_square_subsequent_mask(3)

    def forward(encoder, x):
        return encoder(x, mask=mask.to(x.dtype), is_causal=True)

    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    agree(Call(forward, encoder), WORDS)
