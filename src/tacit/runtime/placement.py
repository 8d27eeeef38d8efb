"""The devices of each party: where its shares lie, and where its products are computed."""

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
ALLOWED = "allowed are 'cpu', 'cuda', 'cuda:<number>'"
DeviceSetting = str | torch.device | Sequence[str | torch.device]


@dataclass(frozen=True)
class PartyDevices:
    """shares: where shares lie and gates run; products: where matrices and images are multiplied.

    `placement="gpu"` puts both on the party's device, as CryptGPU does; `placement="linear"` only
    the products, as PIGEON does, so that large batches fit on a small GPU.
    """

    shares: torch.device = CPU
    products: torch.device = CPU

    @property
    def on_gpu(self) -> bool:
        """Whether this party computes anything on a GPU."""
        return self.products.type == "cuda"

    @contextmanager
    def selected(self) -> Iterator[None]:
        """Within, this thread works on its GPU, if it has one, on a stream of its own."""
        if not self.on_gpu:
            yield
            return
        with torch.cuda.device(self.products), torch.cuda.stream(torch.cuda.Stream()):
            yield


ON_CPU = PartyDevices()


def cipher_for(devices: Iterable[str | torch.device], placement: str) -> str:
    """Returns the cipher of all parties' masks: AES, unless a party draws masks on a GPU."""
    on_gpu = any(torch.device(device).type == "cuda" for device in devices)
    return "chacha20" if on_gpu and placement == "gpu" else "aes128-ctr"


def party_devices(device: DeviceSetting | None, placement: str, parties: int) -> list[PartyDevices]:
    """Returns the devices of each party; one setting stands for all, None for TACIT_DEVICE."""
    device = os.environ.get(VARIABLE, "cpu") if device is None else device
    if placement not in PLACEMENTS:
        allowed = ", ".join(map(repr, PLACEMENTS))
        raise ConfigError(f"placement={placement!r}", limit=f"allowed are {allowed}")
    each = [device] * parties if isinstance(device, str | torch.device) else list(device)
    if len(each) != parties:
        raise ConfigError(
            f"device={device!r}", limit=f"one device, or one for each of {parties} parties"
        )
    return [_devices(one, placement) for one in each]


def _devices(name: str | torch.device, placement: str) -> PartyDevices:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device={name!r}", limit=ALLOWED) from error
    if device.type == "cpu":
        return ON_CPU
    if device.type != "cuda":
        raise ConfigError(f"device={name!r}", limit=ALLOWED)
    if not torch.cuda.is_available():
        raise ConfigError(
            f"device={name!r}: torch finds no GPU on this machine", remedy="use device='cpu'"
        )
    device = torch.device("cuda", device.index or 0)
    if device.index >= torch.cuda.device_count():
        raise ConfigError(
            f"device={name!r}", limit=f"this machine has {torch.cuda.device_count()} GPUs"
        )
    return PartyDevices(device if placement == "gpu" else CPU, device)
