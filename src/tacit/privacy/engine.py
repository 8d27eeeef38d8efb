"""Training with differential privacy, in the manner of Opacus: one call around a training."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..errors import ConfigError
from ..fixedpoint import Numbers
from ..protocols import PrivacySpent
from ..tensor import SecretTensor
from .accountant import Accountant, noise_multiplier_for
from .batches import OVERFLOW, SampledBatches
from .clipping import clipped_rows, norm_bound
from .mechanisms import delta_of_draws, on_grid, with_normal_noise
from .row_gradients import RowGradients

Private = tuple[nn.Module, Optimizer, SampledBatches]


class PrivacyEngine:
    """Makes trainings private, and adds up what they cost.

    Abadi et al. (Deep Learning with Differential Privacy, CCS 2016): in each step the gradient of
    every row of a sampled batch is scaled to a norm of at most `max_grad_norm`, and Gaussian noise
    of `noise_multiplier` times that norm is added to their sum. All of it happens on shares.
    """

    def __init__(self) -> None:
        self.accountant = Accountant()
        self._mechanism, self._draws, self._secret_batches = "DP-SGD", 0, 0

    def make_private(
        self,
        *,
        module: nn.Module,
        optimizer: Optimizer,
        data_loader: Any,
        noise_multiplier: float,
        max_grad_norm: float,
        loss_reduction: str = "mean",
        batches: str = "secret",
    ) -> Private:
        """Returns module and optimizer, changed in place, and the loader to take batches from.

        data_loader: a DataLoader of a TensorDataset of secrets; a row is in a batch with
        probability batch_size / rows. loss_reduction: "mean" or "sum", what the loss does over the
        rows of a batch; "sum" loses fewer digits. batches: "secret", and nobody knows who is in a
        batch; with "public" all parties know it, which is cheaper, and the epsilon that sampling
        gives holds for those who see results but no batches.
        """
        if loss_reduction not in ("mean", "sum"):
            raise ConfigError(f"{loss_reduction=}", limit='"mean" or "sum"')
        if batches not in ("secret", "public"):
            raise ConfigError(f"{batches=}", limit='"secret" or "public"')
        n, is_secret = _numbers(module), batches == "secret"
        tensors, rate = _dataset(data_loader)
        loader = SampledBatches(n, tensors, rate, is_secret=is_secret)
        gradients = RowGradients(module)
        if not is_secret:
            self._mechanism = "DP-SGD, for those who do not know its public batches"

        def private_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            kept = loader.take_kept()
            rows, size = gradients.take(len(kept)), 1.0
            if loss_reduction == "mean":
                rows, size = rows * len(kept), rate * loader.rows
            total = _noisy_sum(n, rows, kept, max_grad_norm, noise_multiplier)
            _assign(gradients, total / size)
            self.accountant.step(noise_multiplier, rate)
            self._secret_batches += is_secret
            self._draws += total.numel()

        optimizer.register_step_pre_hook(private_step)
        return module, optimizer, loader

    def make_private_with_epsilon(
        self,
        *,
        module: nn.Module,
        optimizer: Optimizer,
        data_loader: Any,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        max_grad_norm: float,
        loss_reduction: str = "mean",
        batches: str = "secret",
    ) -> Private:
        """The same with the noise for which so many epochs cost `target_epsilon`."""
        _, rate = _dataset(data_loader)
        multiplier = noise_multiplier_for(
            target_epsilon,
            target_delta,
            sample_rate=rate,
            steps=epochs * math.ceil(1 / rate),
        )
        return self.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            noise_multiplier=multiplier,
            max_grad_norm=max_grad_norm,
            loss_reduction=loss_reduction,
            batches=batches,
        )

    def get_epsilon(self, delta: float) -> float:
        """Returns the epsilon of all steps so far at this delta."""
        return self.accountant.epsilon(delta)

    def spent(self, delta: float) -> PrivacySpent:
        """Returns what all steps cost: the `dp=` of the reveal of a trained model.

        Its delta has besides what draws and secret batches may add.
        """
        epsilon = self.get_epsilon(delta)
        more = self._secret_batches * OVERFLOW + delta_of_draws(self._draws, epsilon)
        return PrivacySpent(self._mechanism, epsilon, min(delta + more, 1.0))


@torch.no_grad()
def _noisy_sum(n: Numbers, rows: Tensor, kept: Tensor, bound: float, multiplier: float) -> Tensor:
    """Returns the sum of the clipped rows that count, and noise for one of them."""
    total = on_grid(clipped_rows(rows, bound, kept=kept).sum(0))
    return with_normal_noise(n, total, norm_bound(n, bound, rows.shape[1], 2), multiplier)


def _assign(gradients: RowGradients, total: Tensor) -> None:
    parameters = list(gradients.parameters.values())
    parts = total.split([one.numel() for one in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.reshape(parameter.shape).to(parameter.dtype)


def _numbers(module: nn.Module) -> Numbers:
    for parameter in module.parameters():
        if isinstance(parameter, SecretTensor):
            return parameter.numbers
    raise ConfigError(
        "a module without secret parameters",
        limit="clipping and noise are computed on shares",
        remedy="session.share(module, owner=...) before make_private",
    )


def _dataset(loader: Any) -> tuple[tuple[Tensor, ...], float]:
    """Returns the tensors of a DataLoader, and the probability that a row is in a batch."""
    tensors = getattr(getattr(loader, "dataset", None), "tensors", ())
    size = getattr(loader, "batch_size", None)
    if not tensors or not all(isinstance(one, SecretTensor) for one in tensors) or not size:
        raise ConfigError(
            "data_loader",
            limit="a DataLoader of a TensorDataset of secret tensors, with a batch_size",
        )
    return tuple(tensors), min(size / len(tensors[0]), 1.0)
