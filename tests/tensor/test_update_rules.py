"""Update rules of all origins compute what plain torch computes.

What an optimizer may clip or widen is known from the optimizer and its gradients, never from the
code that calls.
"""

import contextlib

import pytest
import torch
from tests.tensor.comparison import tensor
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

import tacit
from tacit.errors import RevealForbidden
from tacit.fixedpoint.extended.moments import ExtendedValue, Gradient
from tacit.tensor import SecretTensor

ONE = {"protocol": "cleartext", "parties": 1}
WEIGHTS = torch.tensor([100.0, -250.0, 3.0, 0.5])
SLOPES = torch.tensor([0.3, -2.0, 70.0, 0.01])


def compared(function, *inputs, atol=2e-3, rtol=1e-4, **settings):
    """Runs the function of tensors in plain and on secrets; both give lists of tensors."""

    def main(session):
        return session.reveal(function(*session.share(list(inputs), owner=0)))

    wanted = function(*(x.clone() for x in inputs))
    for one, other in zip(tacit.run(main, **(ONE | settings))[0], wanted, strict=True):
        torch.testing.assert_close(one, other.detach(), atol=atol, rtol=rtol)


def with_gradient(parameter, slopes):
    parameter.grad = None
    (parameter * slopes).sum().backward()


# Averages of weights ------------------------------------------------------------------------------


class Line(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)


@pytest.mark.parametrize("average", [lambda: get_ema_multi_avg_fn(0.5), get_swa_multi_avg_fn])
def test_averages_of_large_weights(average):
    def averaged(weight, slopes):
        model = Line(weight)
        means = AveragedModel(model, multi_avg_fn=average())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(4):
            with_gradient(model.weight, slopes)
            optimizer.step()
            means.update_parameters(model)
        return [means.module.weight.detach()]

    compared(averaged, WEIGHTS, SLOPES)


def test_an_average_beside_adam():
    def averaged(weight, slopes):
        model = Line(weight)
        means = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
        for _ in range(3):
            with_gradient(model.weight, slopes)
            optimizer.step()
            means.update_parameters(model)
        return [means.module.weight.detach()]

    compared(averaged, WEIGHTS, SLOPES, atol=2e-2)


# Rules without an optimizer -----------------------------------------------------------------------


def test_rules_under_no_grad():
    def trained(weight, slopes):
        weight = nn.Parameter(weight)
        momentum, mean = torch.zeros_like(weight), weight.detach().clone()
        for _ in range(3):
            with_gradient(weight, slopes)
            with torch.no_grad():
                momentum.mul_(0.9).add_(weight.grad)
                weight.sub_(momentum, alpha=0.1)
                mean.lerp_(weight, 0.3)
        return [weight.detach(), momentum, mean]

    compared(trained, WEIGHTS, SLOPES)


def test_averages_of_gradients_under_no_grad_are_not_clipped():
    def averaged(weight, slopes):
        weight = nn.Parameter(weight)
        optimizer = torch.optim.Adam([weight], lr=0.1)
        mean = torch.ones_like(slopes)
        for _ in range(2):
            with_gradient(weight, slopes)
            optimizer.step()
            with torch.no_grad():
                mean.lerp_(weight.grad, 0.5)
        return [mean]

    compared(averaged, WEIGHTS, SLOPES)


def test_a_rule_like_rmsprop_under_no_grad():
    def trained(weight, slopes):
        weight, squares = nn.Parameter(weight), torch.zeros_like(weight)
        for _ in range(3):
            with_gradient(weight, slopes)
            with torch.no_grad():
                squares.mul_(0.9).addcmul_(weight.grad, weight.grad, value=0.1)
                weight.addcdiv_(weight.grad, squares.sqrt() + 0.1, value=-0.1)
        return [weight.detach(), squares]

    compared(trained, torch.tensor([1.0, -2.0, 100.0]), torch.tensor([0.5, -1.5, 40.0]), rtol=2e-3)


# Optimizers of a user -----------------------------------------------------------------------------


class AdamWithMeans(torch.optim.Adam):
    """Adam that also averages its weights and its gradients."""

    def step(self, closure=None):
        loss = super().step(closure)
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                state = self.state[parameter]
                if "mean" not in state:
                    state["mean"] = parameter.detach().clone()
                    state["slope"] = torch.zeros_like(parameter)
                state["mean"].lerp_(parameter, 0.5)
                state["slope"].lerp_(parameter.grad, 0.5)
        return loss


class CentredAdam(torch.optim.Adam):
    """Adam on gradients without their mean."""

    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = parameter.grad - parameter.grad.mean()
        return super().step(closure)


def stepped(kind, weight, slopes, steps=3, **settings):
    weight = nn.Parameter(weight)
    optimizer = kind([weight], **settings)
    for _ in range(steps):
        with_gradient(weight, slopes)
        optimizer.step()
    return weight.detach(), optimizer.state[weight]


@pytest.mark.parametrize("adam_first", [False, True])
def test_a_subclass_of_adam(adam_first, monkeypatch):
    plain = getattr(torch.optim.Adam.step, "__wrapped__", torch.optim.Adam.step)
    monkeypatch.setattr(torch.optim.Adam, "step", plain)
    if adam_first:  # torch calls the hooks of `super().step()` only then
        torch.optim.Adam([nn.Parameter(torch.zeros(1))])

    def trained(weight, slopes):
        found, state = stepped(AdamWithMeans, weight, slopes, lr=0.5)
        return [found, state["mean"], state["slope"]]

    compared(trained, WEIGHTS, SLOPES, atol=2e-2, rtol=1e-3)


def test_a_subclass_that_replaces_gradients():
    small = torch.tensor([2e-3, -1e-3, 4e-3, 0.02])
    compared(lambda w, s: [stepped(CentredAdam, w, s, lr=0.1)[0]], WEIGHTS, small, atol=1e-2)


class HandWrittenAdam(torch.optim.Optimizer):
    def __init__(self, parameters, lr=0.1, lerps=False):
        super().__init__(parameters, {"lr": lr, "lerps": lerps})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, parameter.grad, group)
        return loss

    def update(self, parameter, grad, group):
        state = self.state[parameter]
        if not state:
            state |= {"step": 0, "m": torch.zeros_like(grad), "v": torch.zeros_like(grad)}
        state["step"] += 1
        if group["lerps"]:
            state["m"].lerp_(grad, 0.1)
        else:
            state["m"].mul_(0.9).add_(grad, alpha=0.1)
        state["v"].mul_(0.99).addcmul_(grad, grad, value=0.01)
        size = (state["v"].sqrt() / (1 - 0.99 ** state["step"]) ** 0.5).add_(1e-6)
        step = -group["lr"] / (1 - 0.9 ** state["step"])
        parameter.addcdiv_(state["m"], size, value=step)


@pytest.mark.parametrize("lerps", [False, True])
def test_an_optimizer_of_a_user(lerps):
    slopes = torch.tensor([2e-3, -0.02, 1.0, 20.0])
    compared(
        lambda w, s: [stepped(HandWrittenAdam, w, s, lerps=lerps)[0]], WEIGHTS, slopes, atol=1e-2
    )


class Momentum(torch.optim.Optimizer):
    """The momentum is an average of gradients, of any size."""

    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            mean = state.setdefault("mean", torch.zeros_like(parameter))
            mean.lerp_(parameter.grad, 0.25)
            parameter.sub_(mean, alpha=self.param_groups[0]["lr"])


def test_large_gradients_in_an_optimizer_of_a_user():
    slopes = torch.tensor([500.0, -70.0, 0.3, 2e-3])

    def trained(weight, slopes):
        found, state = stepped(Momentum, weight, slopes)
        return [found, state["mean"]]

    compared(trained, WEIGHTS, slopes)
    compared(trained, WEIGHTS, slopes, protocol="trio", parties=3)


# Closures -----------------------------------------------------------------------------------------


def with_closure(kind, weight, slopes, steps=3, **settings):
    weight = nn.Parameter(weight)
    optimizer = kind([weight], **settings)
    means = torch.zeros_like(slopes)

    def closure():
        optimizer.zero_grad()
        loss = (weight * slopes).sum()
        loss.backward()
        with torch.no_grad():
            means.lerp_(weight.grad, 0.5)  # of large gradients, too
        nn.utils.clip_grad_norm_([weight], 20.0)
        return loss

    losses = [optimizer.step(closure).detach() for _ in range(steps)]
    return [weight.detach(), means, *losses]


class SeveralCalls(HandWrittenAdam):
    """Calls its closure twice in a step, as a line search does."""

    def step(self, closure):
        with torch.enable_grad():
            closure()
        return super().step(closure)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop, SeveralCalls])
def test_closures(kind):
    compared(lambda w, s: with_closure(kind, w, s, lr=0.1), WEIGHTS, SLOPES, atol=3e-2, rtol=1e-3)


def test_lbfgs_branches_on_secrets_and_is_refused():
    def main(session):
        weight = nn.Parameter(session.share(WEIGHTS, owner=0))
        optimizer = torch.optim.LBFGS([weight])

        def closure():
            optimizer.zero_grad()
            loss = (weight * weight).sum()
            loss.backward()
            return loss

        with pytest.raises(RevealForbidden, match=r"LBFGS would need .* torch\.optim\.SGD"):
            optimizer.step(closure)
        return True

    assert tacit.run(main, **ONE) == [True]


# Steps that end early -----------------------------------------------------------------------------


class Failing(torch.optim.Adam):
    def step(self, closure=None):
        if closure is not None:
            raise ValueError("no closures")
        return super().step()


def test_a_step_that_raised_leaves_nothing_behind():
    def trained(weight, slopes):
        weight = nn.Parameter(weight)
        optimizer = Failing([weight], lr=0.1)
        with_gradient(weight, slopes)
        with contextlib.suppress(ValueError):
            optimizer.step(lambda: None)
        mean = torch.lerp(torch.zeros_like(slopes), weight.grad, 0.5)
        optimizer.step()
        return [mean, torch.lerp(mean, weight.grad, 0.5), weight.detach()]

    compared(trained, WEIGHTS, SLOPES, atol=2e-2)


def test_a_step_that_raised_beside_hooks_of_a_user():
    """Hooks of a user may replace the arguments, so the next step ends the one that raised."""

    def trained(weight, slopes):
        weight = nn.Parameter(weight)
        optimizer = Failing([weight], lr=0.1)
        optimizer.register_step_pre_hook(lambda _, args, kwargs: (args, dict(kwargs)))
        with_gradient(weight, slopes)
        with contextlib.suppress(ValueError):
            optimizer.step(lambda: None)
        optimizer.step()
        return [torch.lerp(torch.zeros_like(slopes), weight.grad, 0.5), weight.detach()]

    compared(trained, WEIGHTS, SLOPES, atol=2e-2)


def test_gradients_are_marked_during_a_step_only():
    found = {}

    class Watching(torch.optim.SGD):
        def step(self, closure=None):
            found["within"] = type(self.param_groups[0]["params"][0].grad.value)
            return super().step(closure)

    def main(session):
        weight = nn.Parameter(session.share(WEIGHTS, owner=0))
        optimizer = Watching([weight], lr=0.1, momentum=0.5)
        with_gradient(weight, 2 * weight.detach())
        optimizer.step()
        [state] = optimizer.state.values()
        kinds = type(weight.grad.value), type(state["momentum_buffer"].value)
        return found["within"] is Gradient, not any(kind is Gradient for kind in kinds)

    assert tacit.run(main, **ONE) == [(True, True)]


def test_plain_optimizers_beside_secret_ones():
    weight = nn.Parameter(WEIGHTS.clone())
    optimizer = torch.optim.Adam([weight], lr=0.1)
    with_gradient(weight, SLOPES)
    optimizer.step()
    assert type(weight.grad) is torch.Tensor


def test_what_adam_keeps_is_an_ordinary_value_after_the_step():
    def divided(weight, slopes, above):
        _, state = stepped(torch.optim.Adam, weight, slopes)
        if isinstance(above, SecretTensor):
            assert isinstance(state["exp_avg_sq"].value, ExtendedValue)
        return [above / state["exp_avg_sq"].sqrt(), state["exp_avg_sq"].addcmul(above, above)]

    slopes = torch.tensor([0.3, -2.0, 20.0, 0.1])
    compared(divided, WEIGHTS, slopes, torch.full((4,), 100.0), rtol=1e-2)


# Lightning ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*:FutureWarning", "ignore:.*:UserWarning")
def test_lightning_trains_on_secrets():
    lightning = pytest.importorskip("lightning.pytorch")

    class Regression(lightning.LightningModule):
        def __init__(self, line, x, y):
            super().__init__()
            self.line, self.x, self.y = line, x, y

        def training_step(self, batch, index):
            return ((self.line(self.x) - self.y) ** 2).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.line.parameters(), lr=0.1)

    def trained(line, x, y):
        trainer = lightning.Trainer(
            max_steps=3,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Regression(line, x, y), torch.utils.data.DataLoader(range(3)))
        return [parameter.detach() for parameter in line.parameters()]

    def line():
        torch.manual_seed(0)
        return nn.Linear(3, 2)

    x, y = tensor(5, 3, seed=1), tensor(5, 2, seed=2)

    def main(session):
        secret = [session.share(line(), owner=0), *session.share([x, y], owner=0)]
        return session.reveal(trained(*secret))

    wanted = trained(line(), x, y)
    for one, other in zip(tacit.run(main, **ONE)[0], wanted, strict=True):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=0)


def test_fabrics_optimizer():
    fabric = pytest.importorskip("lightning.fabric")

    def trained(weight, slopes):
        weight = nn.Parameter(weight)
        adam = torch.optim.Adam([weight], lr=0.1)
        optimizer = fabric.Fabric(accelerator="cpu").setup_optimizers(adam)
        for _ in range(3):
            with_gradient(weight, slopes)
            optimizer.step()
        return [weight.detach()]

    compared(trained, WEIGHTS, SLOPES, atol=2e-2)
