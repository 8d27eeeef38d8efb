"""Programs run on secrets and on plain tensors, and their results compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

import tacit
from tacit.tensor import SecretTensor

Program = Callable[..., Any]


def on_secrets(program: Program, *inputs: Any, **settings: Any) -> Any:
    """What the program returns at party 0 if all its tensors are secret; by one party alone."""
    settings = {"protocol": "cleartext", "parties": 1} | settings

    def main(session: tacit.Session) -> Any:
        secret = tree_map(lambda x: share(session, x), inputs)
        result = program(*secret)
        return tree_map(lambda x: session.reveal(x) if isinstance(x, SecretTensor) else x, result)

    return tacit.run(main, **settings)[0]


def share(session: tacit.Session, x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    secret = session.share(x.detach(), owner=0)
    return secret.requires_grad_() if x.requires_grad else secret


def on_plain(program: Program, *inputs: Any) -> Any:
    def copied(x: Any) -> Any:
        return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x

    return tree_map(
        lambda x: x.detach() if isinstance(x, Tensor) else x, program(*tree_map(copied, inputs))
    )


def check(
    program: Program,
    *inputs: Any,
    absolute: float = 2**-10,
    relative: float = 2**-10,
    **settings: Any,
) -> None:
    """The program gives on secrets what it gives on plain tensors, dtypes and shapes included."""
    wanted = tree_flatten(on_plain(program, *inputs))[0]
    found = tree_flatten(on_secrets(program, *inputs, **settings))[0]
    assert len(found) == len(wanted)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not isinstance(other, Tensor):
            assert one == other, f"result {i}"
            continue
        assert (one.dtype, one.shape) == (other.dtype, other.shape), f"result {i}"
        torch.testing.assert_close(
            one.double(),
            other.double(),
            atol=absolute,
            rtol=relative,
            msg=lambda m, i=i: f"result {i}: {m}",
        )


def tensor(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Normally distributed numbers of a seed of their own."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator) * scale
