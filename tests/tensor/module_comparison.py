"""Programs on secrets beside the same programs in plain torch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import tacit
from tacit.tensor import SecretTensor

ABSOLUTE, RELATIVE = 2.0**-7, 2.0**-6


class Call(nn.Module):
    """A function as a module; `held` are modules that it uses."""

    def __init__(self, function: Callable[..., Any], *held: nn.Module) -> None:
        super().__init__()
        self.function, self.held = function, nn.ModuleList(held)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*self.held, *inputs)


def agree(
    module: nn.Module | Callable[..., Any],
    *inputs: Tensor,
    protocol: str = "cleartext",
    shared: bool = True,
    gradients: bool = True,
    absolute: float = ABSOLUTE,
    relative: float = RELATIVE,
) -> None:
    """Asserts that a module on secrets gives what it gives in float64, and its gradients.

    `shared`: its parameters are secret too. Integer inputs are public labels and indices.
    """
    if not isinstance(module, nn.Module):
        module = Call(module)
    expected, weight = _plain(module, inputs, gradients)

    def main(session: tacit.Session) -> list[Tensor | None]:
        own = copy.deepcopy(module)
        own = session.share(own, owner=0) if shared else own
        secrets = [_input(session, x, gradients) for x in inputs]
        out = _first(own(*secrets))
        if not gradients:
            return [session.reveal(out)]
        out.backward(session.share(weight.to(out.dtype), owner=0))
        found = [out, *(x.grad for x in secrets), *(p.grad for p in own.parameters())]
        return [session.reveal(x) if isinstance(x, SecretTensor) else x for x in found]

    parties = 1 if protocol == "cleartext" else 3
    for got in tacit.run(main, protocol=protocol, parties=parties):
        _compare(got, expected, absolute, relative)


def _plain(
    module: nn.Module, inputs: Sequence[Tensor], gradients: bool
) -> tuple[list[Tensor | None], Tensor]:
    """What the module gives in float64, and the gradient that is put in behind it."""
    reference = copy.deepcopy(module).double()
    given = [x.double() if x.is_floating_point() else x for x in inputs]
    given = [x.requires_grad_(gradients and x.is_floating_point()) for x in given]
    out = _first(reference(*given))
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    if not gradients:
        return [out.detach()], weight
    out.backward(weight)
    return [
        out.detach(),
        *(x.grad for x in given),
        *(p.grad for p in reference.parameters()),
    ], weight


def _input(session: tacit.Session, x: Tensor, gradients: bool) -> Tensor:
    if not x.is_floating_point():
        return x
    secret: Tensor = session.share(x, owner=0)
    return secret.requires_grad_(gradients)


def _first(result: Any) -> Tensor:
    while not isinstance(result, Tensor):
        result = result[0]
    return result


def _compare(
    got: Sequence[Tensor | None],
    expected: Sequence[Tensor | None],
    absolute: float,
    relative: float,
) -> None:
    assert len(got) == len(expected)
    for i, (found, wanted) in enumerate(zip(got, expected, strict=True)):
        if wanted is None:
            assert found is None or not found.any(), f"result {i}: a gradient that torch has not"
            continue
        assert found is not None, f"result {i}: no gradient"
        assert found.shape == wanted.shape, f"result {i}"
        error = (found.double() - wanted).abs()
        assert (error <= absolute + relative * wanted.abs()).all(), f"result {i}: {error.max()}"
