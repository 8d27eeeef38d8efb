"""Optimizers with gradients whose squares no value could hold."""

import pytest
import torch

import tacit
from tacit.errors import PartyFailed
from tacit.fixedpoint.extended.moments import ExtendedValue

MAKERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "centered": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=0.1),
    "adagrad from zero": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01, betas=(0.5, 0.9)),
    "radam in a list": lambda p: torch.optim.RAdam(p, lr=0.01, betas=(0.5, 0.9), foreach=True),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adadelta in a list": lambda p: torch.optim.Adadelta(p, eps=1e-4, foreach=True),
}
# Gradients of each element: from a quarter of a thousandth to more than the clipping, and none.
SLOPES = torch.tensor([2.5e-4, -1e-3, 4e-3, -0.02, 0.1, 0.7, -5.0, 20.0, 0.0])


def trained(parameter, slopes, make, steps=4):
    """The parameter after a few steps; its gradient is its slope, less in every second step."""
    parameter = torch.nn.Parameter(parameter)
    optimizer = make([parameter])
    for step in range(steps):
        optimizer.zero_grad()
        (parameter * slopes * (1.0 if step % 2 else 0.5)).sum().backward()
        optimizer.step()
    return parameter.detach(), optimizer


def private(make, slopes=SLOPES, **settings):
    def main(session):
        zero = session.share(torch.zeros(len(slopes)), owner=0)
        got, optimizer = trained(zero, session.share(slopes, owner=0), make)
        [state] = optimizer.state.values()
        fine = {name: isinstance(x.value, ExtendedValue) for name, x in state.items() if x.dim()}
        return session.reveal(got), fine

    return tacit.run(main, **settings)[0]


@pytest.mark.parametrize("fraction_bits", [12, 16, 20])
@pytest.mark.parametrize("name", MAKERS)
def test_steps_are_those_of_the_plain_optimizer(name, fraction_bits):
    want, _ = trained(torch.zeros(len(SLOPES)), SLOPES, MAKERS[name])
    got, _ = private(MAKERS[name], protocol="cleartext", parties=1, fraction_bits=fraction_bits)
    units = SLOPES.abs() * 2.0**fraction_bits
    clear = (units > 60) | (units == 0)
    torch.testing.assert_close(got[clear], want[clear], atol=2e-3, rtol=0.06)
    assert (got.abs() <= 1.5 * want.abs().max() + 1e-3).all()  # of a few units: bounded


@pytest.mark.parametrize("name", ["adam", "adagrad", "adamax", "adadelta"])
@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_three_parties(name, protocol):
    want, _ = trained(torch.zeros(len(SLOPES)), SLOPES, MAKERS[name])
    got, fine = private(MAKERS[name], protocol=protocol)
    torch.testing.assert_close(got[1:], want[1:], atol=2e-3, rtol=0.06)
    assert all(fine.values())


def test_large_gradients_give_steps_of_the_right_size():
    slopes = torch.tensor([100.0, -3000.0])
    want, _ = trained(torch.zeros(2), slopes, MAKERS["adam"])
    got, _ = private(MAKERS["adam"], slopes, protocol="cleartext", parties=1)
    torch.testing.assert_close(got, want, atol=2e-3, rtol=0.2)


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
def test_rprop_turns_where_the_sign_of_the_smallest_gradient_does(protocol):
    slopes = torch.tensor([1e-3, -3e-3, 0.01, -0.1, 10.0])

    def steps(parameter, slopes):
        parameter = torch.nn.Parameter(parameter)
        optimizer = torch.optim.Rprop([parameter], lr=0.01)
        for factor in (1.0, 0.5, -0.3, -0.4, 0.2, 1.0):
            optimizer.zero_grad()
            (parameter * slopes * factor).sum().backward()
            optimizer.step()
        return parameter.detach()

    def main(session):
        zero = session.share(torch.zeros(5), owner=0)
        return session.reveal(steps(zero, session.share(slopes, owner=0)))

    got = tacit.run(main, protocol=protocol)[0]
    torch.testing.assert_close(got, steps(torch.zeros(5), slopes), atol=2e-4, rtol=0)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "adagrad", "adadelta"])
def test_a_session_without_room_for_squares_is_told(name):
    with pytest.raises(PartyFailed, match=r"UnsupportedError.*10 to 20 fraction bits.*SGD"):
        private(MAKERS[name], protocol="cleartext", parties=1, fraction_bits=8)


def test_squares_outside_of_optimizers_are_exact():
    x, y = torch.tensor([1000.0, -300.0]), torch.tensor([1.0, 2.0])

    def main(session):
        a, b = session.share(x, owner=0), session.share(y, owner=0)
        moved = torch.lerp(b, a, 0.1)
        return session.reveal(torch.addcmul(b, a, a, value=0.5)), session.reveal(moved)

    squares, moved = tacit.run(main, protocol="cleartext", parties=1)[0]
    torch.testing.assert_close(squares, torch.addcmul(y, x, x, value=0.5), rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(moved, torch.lerp(y, x, 0.1), rtol=1e-4, atol=1e-2)


def test_squares_stay_fine_until_the_quotient():
    def main(session):
        zero = session.share(torch.zeros(len(SLOPES)), owner=0)
        _, optimizer = trained(zero, session.share(SLOPES, owner=0), MAKERS["adam"], steps=1)
        [state] = optimizer.state.values()
        denominator = (state["exp_avg_sq"].sqrt() / 0.03).add_(1e-8)
        return isinstance(denominator.value, ExtendedValue)

    assert tacit.run(main, protocol="cleartext", parties=1) == [True]


def test_what_an_optimizer_keeps_can_be_read():
    def main(session):
        zero = session.share(torch.zeros(len(SLOPES)), owner=0)
        _, optimizer = trained(zero, session.share(SLOPES, owner=0), MAKERS["adam"], steps=1)
        [state] = optimizer.state.values()
        return session.reveal(state["exp_avg"]), session.reveal(state["exp_avg_sq"] + 1)

    mean, squares = tacit.run(main, protocol="cleartext", parties=1)[0]
    torch.testing.assert_close(mean, 0.05 * SLOPES, atol=1e-4, rtol=1e-2)
    torch.testing.assert_close(squares, 1 + 0.00025 * SLOPES**2, atol=1e-3, rtol=1e-2)
