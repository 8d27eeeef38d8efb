"""A step of an optimizer with many tensors: the rounds of one, and the numbers of each alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.runtime.trainings import insecure_fixed_masks
from torch import Tensor, nn, optim
from torch.optim import Optimizer

import tacit
from tacit import Session
from tacit.tensor import joint_lists

SHAPES = [(4, 3), (7,), (2, 3, 2), (), (1,), (5, 2)]
# Rounds of a third step for one tensor and for six. One more makes their pending divisions, which
# otherwise the next forward pass makes tensor by tensor; NAdam adds to its parameters twice.
ROUNDS = {
    optim.Adam: (15, 16),
    optim.RMSprop: (13, 14),
    optim.NAdam: (23, 25),
    optim.Adamax: (21, 22),
    optim.Adadelta: (34, 35),
}
OTHERS = pytest.mark.full("Adam runs, and the rules are those of a single tensor")
KINDS = pytest.mark.parametrize(
    "kind", [kind if kind is optim.Adam else pytest.param(kind, marks=OTHERS) for kind in ROUNDS]
)
Make = Callable[[list[Tensor]], Optimizer]
pytestmark = pytest.mark.filterwarnings("ignore:precision")


def numbers(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def parameters(session: Session, shapes: list[tuple[int, ...]], **options: Any) -> list[Tensor]:
    given = nn.ParameterList([numbers(x, i).to(**options) for i, x in enumerate(shapes)])
    return [*session.share(given, owner=0).parameters()]


def slope(session: Session | None, x: Tensor, step: int) -> Tensor:
    """The gradient of a tensor in a step, one of its own for every shape."""
    made = numbers(tuple(x.shape), 100 * step + x.numel()) * 0.3
    return made if session is None else session.share(made, owner=0)


def stepped(
    session: Session | None, tensors: list[Tensor], optimizer: Optimizer, steps: int = 3
) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        products = [(x * slope(session, x, step)).sum() for x in tensors if x.requires_grad]
        sum(products[1:], products[0]).backward()
        optimizer.step()


@KINDS
def test_rounds_of_six_tensors_are_those_of_one(kind: type[Any]) -> None:
    def main(session: Session, shapes: list[tuple[int, ...]]) -> int:
        tensors = parameters(session, shapes)
        optimizer = kind(tensors, lr=0.01)
        stepped(session, tensors, optimizer, 2)
        optimizer.zero_grad()
        sum((x * slope(session, x, 3)).sum() for x in tensors).backward()
        with session.stats.scope("step") as spent:
            optimizer.step()
        return spent.rounds

    found = tuple(tacit.run(main, shapes)[1] for shapes in (SHAPES[:1], SHAPES))
    assert found == ROUNDS[kind]


@KINDS
def test_joined_tensors_have_the_numbers_of_each_alone(kind: type[Any]) -> None:
    """Every mask is zero, so that divisions round alike."""

    def main(session: Session, foreach: bool | None) -> list[Tensor]:
        tensors = parameters(session, SHAPES)
        stepped(session, tensors, kind(tensors, lr=0.01, foreach=foreach))
        return session.reveal([x.detach() for x in tensors])

    with insecure_fixed_masks():
        joined, alone = tacit.run(main, None)[0], tacit.run(main, False)[0]
    units = 3 if kind is optim.NAdam else 1  # it makes one division more in each of three steps
    for one, other in zip(joined, alone, strict=True):
        assert (one - other).abs().max() <= units * 2.0**-16


def groups(tensors: list[Tensor]) -> Optimizer:
    tensors[4].requires_grad = False
    return optim.Adam([{"params": tensors[:3]}, {"params": tensors[3:], "lr": 0.3}], lr=0.05)


def mixed(tensors: list[Tensor]) -> Optimizer:
    return optim.AdamW(tensors, lr=0.05, amsgrad=True, weight_decay=0.1, maximize=True)


def centered(tensors: list[Tensor]) -> Optimizer:
    return optim.RMSprop(tensors, lr=0.02, momentum=0.5, centered=True)


@pytest.mark.parametrize("make", [groups, mixed, centered])
@pytest.mark.parametrize("protocol", ["cleartext", "trio", "replicated"])
def test_groups_and_options_are_torchs(make: Make, protocol: str) -> None:
    def main(session: Session) -> list[Tensor]:
        tensors = parameters(session, SHAPES)
        optimizer = make(tensors)
        stepped(session, tensors, optimizer)
        assert {group["foreach"] for group in optimizer.param_groups} == {None}
        return session.reveal([x.detach() for x in tensors])

    plain = [nn.Parameter(numbers(shape, i)) for i, shape in enumerate(SHAPES)]
    stepped(None, plain, make(plain))
    for mine, theirs in zip(tacit.run(main, protocol=protocol)[0], plain, strict=True):
        torch.testing.assert_close(mine, theirs.detach(), atol=2**-6, rtol=0)


def test_tensors_of_other_types_and_with_fewer_steps() -> None:
    """One has another dtype, and one gets its first gradient in the second step."""

    def trained(session: Session | None, tensors: list[Tensor]) -> list[Tensor]:
        optimizer = optim.Adam(tensors, lr=0.05)
        stepped(session, tensors[:-1], optimizer, 1)
        stepped(session, tensors, optimizer, 2)
        return [x.detach() for x in tensors]

    def main(session: Session) -> list[Tensor]:
        double = parameters(session, SHAPES[:2], dtype=torch.float64)
        return session.reveal(trained(session, double + parameters(session, SHAPES)))

    plain = [nn.Parameter(numbers(x, i).double()) for i, x in enumerate(SHAPES[:2])]
    plain += [nn.Parameter(numbers(x, i)) for i, x in enumerate(SHAPES)]
    found = tacit.run(main, protocol="cleartext", parties=1)[0]
    for mine, theirs in zip(found, trained(None, plain), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2**-6, rtol=0)


def test_a_vector_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve and seven elements are joined, the next twelve begin a vector with the rest."""
    seen: list[list[list[int]]] = []
    groups = joint_lists.groups
    monkeypatch.setattr(joint_lists, "MOST_ELEMENTS", 20)

    def noted(name: str, args: Any) -> list[list[int]]:
        seen.append(groups(name, args))
        return seen[-1]

    monkeypatch.setattr("tacit.tensor.dispatch.groups", noted)

    def main(session: Session) -> list[Tensor]:
        tensors = parameters(session, SHAPES)
        stepped(session, tensors, optim.Adam(tensors, lr=0.05))
        return session.reveal([x.detach() for x in tensors])

    found = tacit.run(main, protocol="cleartext", parties=1)[0]
    assert seen[0] == [[0, 1, 3], [2, 4], [5]]
    plain = [nn.Parameter(numbers(shape, i)) for i, shape in enumerate(SHAPES)]
    stepped(None, plain, optim.Adam(plain, lr=0.05))
    for mine, theirs in zip(found, plain, strict=True):
        torch.testing.assert_close(mine, theirs.detach(), atol=2**-6, rtol=0)


def test_a_step_that_fails_leaves_the_settings() -> None:
    def main(session: Session) -> Any:
        tensors = parameters(session, SHAPES)
        optimizer = optim.Adam(tensors, lr=0.05)
        with pytest.raises(tacit.errors.UnsupportedError, match="fraction bits"):
            stepped(session, tensors, optimizer)
        return optimizer.param_groups[0]["foreach"]

    assert tacit.run(main, protocol="cleartext", parties=1, fraction_bits=8) == [None]
