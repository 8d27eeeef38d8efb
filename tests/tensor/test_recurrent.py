"""Recurrent layers on secrets: layers, directions, states, public weights."""

from __future__ import annotations

import pytest
import torch
from tests.tensor.module_comparison import Call, agree
from torch import nn


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


SEQUENCE = normal(5, 2, 3)
KINDS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
FORMS = {
    "plain": {},
    "without bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "both ways": {"bidirectional": True},
    "batch first": {"batch_first": True},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_layers(kind, form):
    agree(KINDS[kind](3, 4, **FORMS[form]), SEQUENCE, absolute=3e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_three_parties(kind):
    agree(KINDS[kind](3, 4), SEQUENCE[:3], protocol="trio", absolute=1e-3)


def test_states_in_and_out():
    """Gradients come from the last state and cell, and reach the first."""

    def forward(layer, x, h, c):
        _, (state, cell) = layer(x, (h, c))
        return torch.cat([state, 2 * cell], -1)

    given = SEQUENCE, normal(1, 2, 4, seed=1), normal(1, 2, 4, seed=2)
    agree(Call(forward, nn.LSTM(3, 4)), *given, absolute=3e-3)


def test_public_weights():
    agree(nn.LSTM(3, 4), SEQUENCE, protocol="trio", shared=False, absolute=3e-3)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections():
    agree(nn.LSTM(3, 4, proj_size=2), SEQUENCE, absolute=3e-3)


def test_a_long_sequence_does_not_drift():
    agree(nn.LSTM(3, 4), normal(40, 1, 3), gradients=False, absolute=2e-3)


def test_sequences_of_several_lengths():
    lengths = torch.tensor([5, 3])

    def forward(layer, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return layer(packed)[0].data

    for layer in (nn.GRU(3, 4), nn.LSTM(3, 4)):
        agree(Call(forward, layer), SEQUENCE, gradients=False, absolute=3e-3)
