"""A trained detector of speech (Silero, 16 kHz) on recordings that stay secret.

Frames of 32 ms with 4 ms of the past go through a spectrum, four convolutions and an LSTM, whose
state is carried along; the result is the probability that somebody speaks. The weights are one
party's, the sound another's. Two sounds at once: a reader's voice, and noise.
"""

from __future__ import annotations

import copy
import time
import wave
from typing import Any

import numpy as np
import torch
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn import functional as F

import tacit

from .fetch import deb, wheel

SILERO = "wheel-silero-vad-6.2.3"  # the folders in the cache
RECORDINGS = "deb-pocketsphinx-testdata"
FRAME, PAST = 512, 64  # samples
BINS = 129
WIDTHS = [(BINS, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)]  # in, out, stride
ALLOWED = 1e-3  # error of a probability
State = tuple[Tensor, Tensor]


class Detector(nn.Module):
    """(frames, sounds, 576) samples and a state give (sounds, frames) probabilities and a state."""

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = nn.Conv1d(1, 2 * BINS, 256, stride=128, bias=False)
        layers = [nn.Conv1d(a, b, 3, stride=step, padding=1) for a, b, step in WIDTHS]
        self.encoder = nn.Sequential(*(part for conv in layers for part in (conv, nn.ReLU())))
        self.cell = nn.LSTMCell(128, 128)
        self.head = nn.Linear(128, 1)

    def features(self, x: Tensor) -> Tensor:
        waves = self.spectrum(F.pad(x, (0, PAST), mode="reflect").unsqueeze(1))
        magnitude = (waves[:, :BINS] ** 2 + waves[:, BINS:] ** 2).sqrt()
        found: Tensor = self.encoder(magnitude).squeeze(-1)
        return found

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        known, found = self.features(x.flatten(0, 1)).unflatten(0, x.shape[:2]), []
        for frame in known.unbind(0):
            state = self.cell(frame, state)
            found.append(self.head(F.relu(state[0])))
        return torch.sigmoid(torch.cat(found, 1)), state


def published() -> Any:
    """The network as it is distributed, compiled."""
    path = wheel("silero-vad", "6.2.3") / "silero_vad" / "data" / "silero_vad.jit"
    return torch.jit.load(path).eval()


def detector() -> Detector:
    """The same network for 16 kHz, as a module."""
    given = published()._model.state_dict()
    names = {"spectrum.weight": "stft.forward_basis_buffer"}
    for kind in ("weight", "bias"):
        names |= {f"encoder.{2 * i}.{kind}": f"encoder.{i}.reparam_conv.{kind}" for i in range(4)}
        names |= {f"cell.{kind}_{end}": f"decoder.rnn.{kind}_{end}" for end in ("ih", "hh")}
        names[f"head.{kind}"] = f"decoder.decoder.2.{kind}"
    model = Detector().eval()
    own = model.state_dict()
    model.load_state_dict({name: given[names[name]].reshape(x.shape) for name, x in own.items()})
    return model


def voice() -> Tensor:
    """Recordings of one reader, one after the other, from -1 to 1."""
    folder = deb("pocketsphinx-testdata") / "usr/share/pocketsphinx/test/data/librivox"
    parts = []
    for path in sorted(folder.glob("*.wav")):
        with wave.open(str(path)) as file:
            parts.append(np.frombuffer(file.readframes(file.getnframes()), dtype=np.int16))
    return torch.from_numpy(np.concatenate(parts).astype(np.float32)) / 32768


def sounds(count: int) -> Tensor:
    """(count, 2, 576): frames of a voice and of noise, each with the end of the one before."""
    noise = torch.randn(count * FRAME, generator=torch.Generator().manual_seed(0)) * 0.02
    both = torch.stack([voice()[: count * FRAME], noise])
    return F.pad(both, (PAST, 0)).unfold(1, FRAME + PAST, FRAME).transpose(0, 1).contiguous()


def as_published(frames: Tensor) -> Tensor:
    """What the distributed network says; it keeps its state itself."""
    model = published()
    model.reset_states()
    with torch.no_grad():
        return torch.cat([model(frame[:, PAST:], 16_000) for frame in frames], 1)


def heard(model: nn.Module, frames: Tensor, at_once: int) -> Tensor:
    """The probabilities of all frames, some at once."""
    state = (torch.zeros(2, 128), torch.zeros(2, 128))
    found = []
    with torch.no_grad():
        for some in frames.split(at_once):
            probability, state = model(some, state)
            found.append(probability)
    return torch.cat(found, 1)


def party(
    session: tacit.Session, model: nn.Module, frames: Tensor, at_once: int
) -> tuple[Tensor, float]:
    own = session.share(copy.deepcopy(model), owner=0)
    secret, begin = session.share(frames, owner=1), time.perf_counter()
    found = session.reveal(heard(own, secret, at_once))
    return found, time.perf_counter() - begin


def compare(count: int, at_once: int, **parties: Any) -> tuple[Tensor, Tensor, float, float]:
    """Probabilities of a plain and a private run, and the seconds of each."""
    model, frames = detector(), sounds(count)
    begin = time.perf_counter()
    want = heard(model, frames, at_once)
    plain = time.perf_counter() - begin
    if not torch.allclose(want, as_published(frames), atol=1e-4):
        raise SystemExit("the module is not the network that was published")
    got, seconds = tacit.run(party, model, frames, at_once, deadline=600.0, **parties)[1]
    return got, want, seconds, plain


def rows(count: int = 100, at_once: int = 25, **parties: Any) -> list[Row]:
    got, want, seconds, plain = compare(count, at_once, **parties)
    title = f"Silero VAD, {2 * count} frames of speech and noise"
    spoken = float((want > 0.5).float().mean())
    return [
        Row(
            name=f"{title}: a frame",
            value=1000 * seconds / (2 * count),
            unit="ms",
            baseline="plain torch",
            baseline_value=1000 * plain / (2 * count),
            lower_is_better=True,
            note=f"{at_once} frames of both sounds at once, all parties in one process",
        ),
        Row(
            name=f"{title}: error",
            value=1000 * float((got - want).abs().max()),
            unit="thousandths",
            baseline="allowed",
            baseline_value=1000 * ALLOWED,
            target=1.0,
            lower_is_better=True,
            note="of a probability, the largest",
        ),
        Row(
            name=f"{title}: same decision",
            value=100 * float(((got > 0.5) == (want > 0.5)).float().mean()),
            unit="%",
            baseline="asked for",
            baseline_value=100.0,
            target=1.0,
            note=f"speech in {100 * spoken:.0f} % of the frames",
        ),
    ]
