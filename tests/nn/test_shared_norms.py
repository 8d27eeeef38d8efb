"""Batch norm in eval mode: its owner shares scale and shift; what changes later stays right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tacit
from tacit import Session

CHANNELS = 6
X = 3 * torch.randn(8, CHANNELS, 2, generator=torch.Generator().manual_seed(1))


def norm(*, affine: bool = True, eps: float = 1e-5, training: bool = False) -> nn.BatchNorm1d:
    """Statistics from small to large, also a variance of 0."""
    torch.manual_seed(0)
    made = nn.BatchNorm1d(CHANNELS, affine=affine, eps=eps)
    made.running_mean.copy_(torch.tensor([0.0, 1.0, -50.0, 3.0, 0.1, 700.0]))
    made.running_var.copy_(torch.tensor([1.0, 0.04, 30.0, 900.0, 0.0, 4.0]))
    if affine:
        nn.init.normal_(made.weight)
        nn.init.normal_(made.bias)
    return made.train(training)


def near(found: Tensor, wanted: Tensor, bound: float) -> None:
    assert ((found.double() - wanted).abs() / wanted.abs().clamp(min=1)).max() < bound


def plain(module: nn.Module, x: Tensor = X) -> Tensor:
    with torch.no_grad():
        return module.double()(x.double())


def first_call(session: Session, options: dict[str, Any]) -> tuple[Tensor, int, list[str]]:
    module = session.share(norm(**options), owner=1)
    x = session.share(X, owner=0)
    with session.stats.scope("one") as spent:
        result = session.protocol.settled(module(x).detach().value.arith)
    del result
    return session.reveal(module(x)), spent.rounds, list(module.state_dict())


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"eps": 1e-2}])
def test_the_first_call_is_a_product_and_a_division(options):
    for rank, (found, rounds, names) in enumerate(tacit.run(first_call, options)):
        near(found, plain(norm(**options)), 2e-3 if options.get("eps") != 1e-2 else 1e-4)
        assert rounds == (2 if rank else 0)  # the dealer waits for nobody
        assert names == list(norm(**options).state_dict())


def test_other_settings():
    for settings, bound in (
        ({"protocol": "replicated"}, 1e-4),
        ({"protocol": "cleartext", "parties": 2}, 1e-4),
        ({"ring": 32, "fraction_bits": 11, "range_bits": 7}, 2e-2),
    ):
        x, options = X[:, :2], {"eps": 1e-2}

        def main(session: Session, x: Tensor = x, options: Any = options) -> Tensor:
            made = nn.BatchNorm1d(2, **options)
            made.running_var.copy_(torch.tensor([1.0, 0.04]))
            return session.reveal(session.share(made.eval(), owner=1)(session.share(x, owner=0)))

        reference = nn.BatchNorm1d(2, **options).eval()
        reference.running_var.copy_(torch.tensor([1.0, 0.04]))
        near(tacit.run(main, **settings)[0], plain(reference, x), bound)


def changes(session: Session) -> list[Tensor]:
    """Results after each change of what scale and shift were made of."""
    module, x = session.share(norm(eps=1e-2), owner=0), session.share(X, owner=1)
    found = []
    with torch.no_grad():
        module.weight.mul_(2)
        found.append(module(x))
        module.running_mean.add_(1)
        found.append(module(x))
        module.running_var.add_(1)
        found.append(module(x))
        other = session.share(norm(eps=1e-2, training=True), owner=1)
        module.load_state_dict(other.state_dict())
        found.append(module(x))
        module.train()(x)
        found.append(module.eval()(x))
    return session.reveal(found)


def test_what_changes_is_not_used_any_more():
    module = norm(eps=1e-2).double()
    wanted = []
    with torch.no_grad():
        module.weight.mul_(2)
        wanted.append(plain(module))
        module.running_mean.add_(1)
        wanted.append(plain(module))
        module.running_var.add_(1)
        wanted.append(plain(module))
        module.load_state_dict(norm(eps=1e-2).state_dict())
        wanted.append(plain(module))
        module.train()(X.double())
        wanted.append(plain(module.eval()))
    for found, want in zip(tacit.run(changes)[0], wanted, strict=True):
        near(found, want, 2e-3)


def test_gradients_in_eval_mode():
    def main(session: Session) -> list[Tensor]:
        module = session.share(norm(eps=1e-2), owner=0)
        x = session.share(X, owner=1).requires_grad_()
        module(x).sum().backward()
        return session.reveal([x.grad, module.weight.grad, module.bias.grad])

    module, x = norm(eps=1e-2).double(), X.double().requires_grad_()
    module(x).sum().backward()
    wanted = x.grad, module.weight.grad, module.bias.grad
    for found, want in zip(tacit.run(main)[0], wanted, strict=True):
        near(found, want, 2e-3)


def test_a_module_in_training_mode_shares_no_more():
    def main(session: Session) -> list[int]:
        sizes = []
        for training in (True, False):
            with session.stats.scope("share") as spent:
                session.share(norm(training=training), owner=1)
            sizes.append(spent.bytes_sent)
        return sizes

    training, fixed = tacit.run(main)[1]
    assert fixed - training == 3 * CHANNELS * 8
