"""Convolutions, pooling, normalisation and dropout of CrypTen's tensors."""

from __future__ import annotations

from logging import getLogger
from math import prod
from typing import Any

import torch
from torch.nn import functional

from .pooling_windows import places_of_windows
from .wrapping import Wrapped, operands, real

LOG = getLogger("tacit")


class Layers(Wrapped):
    """Methods that layers of networks are made of."""

    def conv1d(self, kernel: Any, stride: Any = 1, padding: Any = 0, **options: Any) -> Any:
        """Returns the convolution with a kernel, public or secret."""
        return self._conv(functional.conv1d, kernel, stride, padding, options)

    def conv2d(self, kernel: Any, stride: Any = 1, padding: Any = 0, **options: Any) -> Any:
        """Returns the convolution with a kernel, public or secret."""
        return self._conv(functional.conv2d, kernel, stride, padding, options)

    def conv_transpose1d(
        self, kernel: Any, stride: Any = 1, padding: Any = 0, **options: Any
    ) -> Any:
        """Returns the transposed convolution with a kernel, public or secret."""
        return self._conv(functional.conv_transpose1d, kernel, stride, padding, options)

    def conv_transpose2d(
        self, kernel: Any, stride: Any = 1, padding: Any = 0, **options: Any
    ) -> Any:
        """Returns the transposed convolution with a kernel, public or secret."""
        return self._conv(functional.conv_transpose2d, kernel, stride, padding, options)

    def _conv(self, conv: Any, kernel: Any, stride: Any, padding: Any, options: Any) -> Any:
        return self.wrapped(
            conv(self.real, real(kernel), stride=stride, padding=padding, **operands(options))
        )

    def avg_pool2d(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False
    ) -> Any:
        """Returns the means of windows; a border of zeros counts."""
        return self.wrapped(
            functional.avg_pool2d(self.real, kernel_size, stride, padding, ceil_mode)
        )

    def sum_pool2d(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False
    ) -> Any:
        """Returns the sums of windows."""
        both = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
        return self.avg_pool2d(kernel_size, stride, padding, ceil_mode).mul(prod(both))

    def max_pool2d(
        self,
        kernel_size: Any,
        padding: Any = 0,
        stride: Any = None,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """Returns the maxima of windows, and if wanted where they are: windows of 1 among 0s.

        The windows are two more dimensions, of the size of the kernel.
        """
        options: dict[str, Any] = {"ceil_mode": ceil_mode, "return_indices": return_indices}
        steps = kernel_size if stride is None else stride
        made = functional.max_pool2d(self.real, kernel_size, steps, padding, dilation, **options)
        if not return_indices:
            return self.wrapped(made)
        values, places = made
        form = (kernel_size, steps, padding, dilation)
        windows = places_of_windows(self.secret.shape[-2:], values.shape[-2:], *form)
        return self.wrapped((values, places[..., None, None] == windows))

    def adaptive_avg_pool2d(self, output_size: Any) -> Any:
        """Returns as many means as `output_size` says."""
        return self.wrapped(functional.adaptive_avg_pool2d(self.real, output_size))

    def adaptive_max_pool2d(self, output_size: Any, return_indices: bool = False) -> Any:
        """Returns as many maxima as `output_size` says."""
        options: dict[str, Any] = {"return_indices": return_indices}
        return self.wrapped(functional.adaptive_max_pool2d(self.real, output_size, **options))

    def batchnorm(
        self,
        weight: Any,
        bias: Any,
        running_mean: Any = None,
        running_var: Any = None,
        training: bool = False,
        eps: float = 1e-05,
        momentum: float = 0.1,
        inv_var: Any = None,
    ) -> Any:
        """Returns the normalised tensor. `inv_var` is ignored: it saves nothing here."""
        return self.wrapped(
            functional.batch_norm(
                self.real,
                real(running_mean),
                real(running_var),
                real(weight),
                real(bias),
                training=training or running_mean is None,
                momentum=momentum,
                eps=eps,
            )
        )

    def dropout(self, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """Returns the tensor with random elements 0. Which ones is public, as in torch's."""
        return self._dropped(functional.dropout, p, training, inplace)

    def dropout2d(self, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """As `dropout`, for whole channels."""
        return self._dropped(functional.dropout2d, p, training, inplace)

    def dropout3d(self, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """As `dropout`, for whole channels."""
        return self._dropped(functional.dropout3d, p, training, inplace)

    def _feature_dropout(self, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """As `dropout`, for whole channels, the first two dimensions, of any number of them."""
        return self._dropped(torch.feature_dropout, p, training, inplace)

    def _dropped(self, dropout: Any, p: float, training: bool, inplace: bool) -> Any:
        made = dropout(self.real, p, training)
        if inplace and self.secret.requires_grad:
            LOG.warning("%s computes a new tensor: inplace is ignored", dropout.__name__)
        elif inplace:
            self.secret = made
            return self
        return self.wrapped(made)

    def cosine_similarity(self, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
        """Returns the cosines of the angles between vectors along a dimension."""
        own, other = torch.atleast_1d(self.real), torch.atleast_1d(real(x2))
        return self.wrapped(functional.cosine_similarity(own, other, dim, eps))

    def binary_cross_entropy(self, target: Any, skip_forward: bool = False) -> Any:
        """Returns the mean loss of these probabilities against targets from 0 to 1."""
        return self.wrapped(functional.binary_cross_entropy(self.real, real(target)))

    def binary_cross_entropy_with_logits(self, target: Any, skip_forward: bool = False) -> Any:
        """Returns the mean loss of the sigmoids of these numbers against targets from 0 to 1."""
        return self.wrapped(functional.binary_cross_entropy_with_logits(self.real, real(target)))

    def rappor_loss(self, target: Any, alpha: float, skip_forward: bool = False) -> Any:
        """As the last one, for targets that were kept with probability alpha, and else flipped."""
        p = self.real.sigmoid()
        kept = alpha * p + (1 - alpha) * (1 - p)
        return self.wrapped(functional.binary_cross_entropy(kept, real(target)))

    def cross_entropy(self, target: Any, skip_forward: bool = False) -> Any:
        """Returns the mean loss of these scores against one-hot targets, over the batch."""
        return self.wrapped(-(self.real.log_softmax(1) * real(target)).sum(1).mean())
