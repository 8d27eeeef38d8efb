"""Where a party computes: the device of its shares, and that of its products."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ..errors import ConfigError

VARIABLE = "TACIT_DEVICE"
CPU = torch.device("cpu")
PLACEMENTS = ("gpu", "linear")
Devices = str | torch.device | Sequence[str | torch.device]


@dataclass(frozen=True)
class Place:
    """shares: where shares lie and gates run; products: where matrices and pictures are multiplied.

    `placement="gpu"` has all of it on the party's device, as CryptGPU; `placement="linear"` only
    the products, as PIGEON, so that large batches fit on a small GPU.
    """

    shares: torch.device = CPU
    products: torch.device = CPU

    @property
    def on_gpu(self) -> bool:
        return self.products.type == "cuda"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within, this thread's work on the GPU has a stream of its own."""
        if not self.on_gpu:
            yield
            return
        with torch.cuda.device(self.products), torch.cuda.stream(torch.cuda.Stream()):
            yield


ON_CPU = Place()


def cipher_for(devices: Iterable[str | torch.device], placement: str) -> str:
    """What makes the masks, alike at all parties: AES, if none of them makes them on a GPU."""
    on_gpu = any(torch.device(device).type == "cuda" for device in devices)
    return "chacha20" if on_gpu and placement == "gpu" else "aes128-ctr"


def places(device: Devices | None, placement: str, parties: int) -> list[Place]:
    """The place of each party; one device stands for all, none for the environment's."""
    device = os.environ.get(VARIABLE, "cpu") if device is None else device
    if placement not in PLACEMENTS:
        allowed = ", ".join(map(repr, PLACEMENTS))
        raise ConfigError(f"placement={placement!r}: allowed are {allowed}")
    each = [device] * parties if isinstance(device, str | torch.device) else list(device)
    if len(each) != parties:
        raise ConfigError(f"device={device!r}: one device, or one for each of {parties} parties")
    return [_place(one, placement) for one in each]


def _place(name: str | torch.device, placement: str) -> Place:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device={name!r}: allowed are 'cpu', 'cuda', 'cuda:<number>'") from error
    if device.type == "cpu":
        return ON_CPU
    if device.type != "cuda":
        raise ConfigError(f"device={name!r}: allowed are 'cpu', 'cuda', 'cuda:<number>'")
    if not torch.cuda.is_available():
        raise ConfigError(f"device={name!r}: torch finds no GPU on this machine; use device='cpu'")
    device = torch.device("cuda", device.index or 0)
    if device.index >= torch.cuda.device_count():
        raise ConfigError(f"device={name!r}: this machine has {torch.cuda.device_count()} GPUs")
    return Place(device if placement == "gpu" else CPU, device)
