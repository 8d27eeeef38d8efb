"""Wav2Letter (Collobert et al. 2016) on waveforms, with the names of torchaudio."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Wav2Letter(nn.Module):
    """Log-probabilities of letters over time: (N, 1, samples) gives (N, letters, frames)."""

    def __init__(self, num_classes: int = 29, width: int = 250, hidden: int = 2000) -> None:
        super().__init__()
        wave = nn.Sequential(nn.Conv1d(1, width, 250, stride=160, padding=45), nn.ReLU())
        layers: list[nn.Module] = []
        for inputs, outputs, kernel, stride, padding in (
            (width, width, 48, 2, 23),
            *[(width, width, 7, 1, 3)] * 7,
            (width, hidden, 32, 1, 16),
            (hidden, hidden, 1, 1, 0),
            (hidden, num_classes, 1, 1, 0),
        ):
            layers += [nn.Conv1d(inputs, outputs, kernel, stride, padding), nn.ReLU()]
        self.acoustic_model = nn.Sequential(wave, nn.Sequential(*layers))

    def forward(self, x: Tensor) -> Tensor:
        return torch.log_softmax(self.acoustic_model(x), dim=1)


def wav2letter(*, num_classes: int = 29, width: int = 250, hidden: int = 2000) -> Wav2Letter:
    """The network of the paper on 16 kHz audio; 26 letters and 3 signs."""
    return Wav2Letter(num_classes, width, hidden)
