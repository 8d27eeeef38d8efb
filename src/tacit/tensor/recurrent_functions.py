"""Recurrent layers and cells that no gradient is asked of: as one operation, in few rounds.

torch computes a layer cell by cell, or one layer of one direction at a time, and sees no other
cells that could share its rounds. Where a gradient is asked of the result, dropout is active, or
sequences are packed, torch's own way stays, and its operators have rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .ops.nn.recurrent import RECURRENT
from .secret import SecretTensor


def layers(kind: str, *args: Any, plain: Any) -> tuple[Tensor, ...]:
    """Stacked layers: the arguments of `torch.lstm`, `torch.gru` and `torch.rnn_tanh`."""
    packed = len(args) < 9 or isinstance(args[2], Tensor)
    if packed or needs_torch(args):
        return plain(*args)
    x, states, weights, has_biases, num_layers, dropout, train, both_ways, batch_first = args
    if train and dropout and num_layers > 1:
        return plain(*args)
    states = [states] if isinstance(states, Tensor) else list(states)
    form = (kind, has_biases, both_ways, batch_first)
    return tuple(RECURRENT(x, states, list(weights), *form))


def cell(
    kind: str,
    x: Tensor,
    states: Tensor | Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    plain: Any,
) -> Tensor | tuple[Tensor, ...]:
    """One cell: the arguments of `torch.lstm_cell`, `torch.gru_cell` and `torch.rnn_tanh_cell`."""
    given = (x, states, w_ih, w_hh, b_ih, b_hh)
    if needs_torch(given):
        return plain(*given)
    given_states = [states] if isinstance(states, Tensor) else states
    before = [state.unsqueeze(0) for state in given_states]
    weights = [w for w in (w_ih, w_hh, b_ih, b_hh) if w is not None]
    form = (kind, b_ih is not None, False, False)
    _, *after = RECURRENT(x.unsqueeze(0), before, weights, *form)
    made = tuple(state.squeeze(0) for state in after)
    return made[0] if isinstance(states, Tensor) else made


def needs_torch(args: Sequence[Any]) -> bool:
    """Whether a gradient may be asked of the result, or torch computes on plain values."""
    leaves = [x for x in tree_leaves(args) if isinstance(x, Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in leaves):
        return True
    return next(x for x in leaves if isinstance(x, SecretTensor)).numbers.is_plain


# The functions of torch._VF, which modules call.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: partial(layers, name) for name in ("lstm", "gru", "rnn_tanh")},
    **{f"{name}_cell": partial(cell, name) for name in ("lstm", "gru", "rnn_tanh")},
}
