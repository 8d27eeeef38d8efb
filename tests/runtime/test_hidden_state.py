"""What Python's code of a recorded function takes from elsewhere: it is noticed, call after call.

Every function is called with the same secret, and its results are compared with those of the same
function on a plain tensor.
"""

from __future__ import annotations

import gc
import itertools
import random
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from weakref import ref

import numpy as np
import pytest
import torch
from tests.runtime.pretended_gpu import pretended, pretended_own
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

import tacit
from tacit.runtime.replay.held_objects import Reached

__all__ = ["pretended", "pretended_own"]

X = torch.tensor([1.0, -2.0, 3.0])
CALLS = 7


@pytest.fixture(params=["plan", "graph", "segments"])
def repeating(request):
    """`tacit.run`, with functions that are recorded as plans, or as graphs of all or of one."""
    if request.param == "plan":
        return partial(tacit.run, parties=3)
    return request.getfixturevalue("pretended" if request.param == "graph" else "pretended_own")


@dataclass
class Config:
    factor: float = 1.0


class Slotted:
    __slots__ = ("factor",)

    def __init__(self):
        self.factor = 1.0

    def grow(self):
        self.factor += 1


class Trainer:
    """Only the method `scaled` is named by the function; it names `config`."""

    def __init__(self):
        self.config, self.log = Config(), []

    def scaled(self, x):
        return x * self.config.factor


class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.config, self.function = Config(), torch.neg

    def forward(self, x):
        return self.function(x) * self.config.factor


class Counting:
    def __init__(self):
        self.count = 0

    def __call__(self, x):
        self.count += 1
        return x * self.count


# Functions that change what they use --------------------------------------------------------------


def counting_object():
    return Counting()


def counting_in_a_nest():
    state = {"inner": {"count": 0}}

    def function(x):
        state["inner"]["count"] += 1
        return x * state["inner"]["count"]

    return function


def counting_by_a_method():
    slotted = Slotted()

    def function(x):
        slotted.grow()
        return x * slotted.factor

    return function


def iterating():
    numbers = itertools.count(1)
    return lambda x: x * next(numbers)


def drawing():
    generator = random.Random(3)
    return lambda x: x + torch.tensor([generator.randrange(9), 0.0, 1.0])


def drawing_by_a_generator_of_torch():
    generator = torch.Generator().manual_seed(4)
    return lambda x: x * torch.rand(3, generator=generator)


def counting_in_an_array():
    counts = np.zeros(3, dtype=np.float32)

    def function(x):
        counts[:] += 1
        return x * torch.from_numpy(counts.copy())

    return function


def returning_a_count():
    numbers = itertools.count(1)
    return lambda x: (x * 2, next(numbers))


def counting_in_a_hook():
    layer, seen = nn.Identity(), []
    layer.register_forward_hook(lambda *_: seen.append(1))
    return lambda x: (layer(x) * 2, len(seen))


# These give the same number in the first calls, as they may by chance.


def iterating_over_equal_numbers():
    numbers = iter([1, 1, 1, 1, 2, 3, 4, 5])
    return lambda x: x * next(numbers)


def deciding_by_a_generator():
    generator = (number > 4 for number in itertools.count())
    return lambda x: x * 2 if next(generator) else x


def drawing_equal_numbers():
    generator = random.Random(3)
    return lambda x: x * (2 if generator.random() < 1e-9 else 1)


def drawing_equal_numbers_by_a_method():
    draw = random.Random(3).random
    return lambda x: x * (2 if draw() < 1e-9 else 1)


def drawing_equal_numbers_of_a_file():
    return lambda x: x * (2 if random.random() < 1e-9 else 1)


def drawing_equal_numbers_of_numpy():
    generator = np.random.default_rng(3)
    return lambda x: x * (2 if generator.random() < 1e-9 else 1)


def drawing_equal_numbers_of_a_file_of_numpy():
    return lambda x: x * (2 if np.random.rand() < 1e-9 else 1)


CHANGING = [
    *(counting_object, counting_in_a_nest, counting_by_a_method, iterating, drawing),
    *(drawing_by_a_generator_of_torch, counting_in_an_array, returning_a_count, counting_in_a_hook),
    *(iterating_over_equal_numbers, deciding_by_a_generator, drawing_equal_numbers),
    *(drawing_equal_numbers_by_a_method, drawing_equal_numbers_of_a_file),
    *(drawing_equal_numbers_of_numpy, drawing_equal_numbers_of_a_file_of_numpy),
]


def called(function, x, reveal=lambda x: x, calls=CALLS, before=lambda i: None):
    found = []
    for i in range(calls):
        before(i)
        result = function(x)
        secret, rest = (result[0], [result[1]]) if isinstance(result, tuple) else (result, [])
        found += [reveal(secret).tolist(), *rest]
    return found


@pytest.mark.parametrize("make", CHANGING)
def test_a_function_that_changes_what_it_uses_runs_as_it_is(make, caplog):
    def main(session):
        function = session.repeated(make())
        found = called(function, session.share(X, owner=0), session.reveal)
        return found, len(function.recordings)

    expected = called(make(), X)
    for found, recorded in tacit.run(main):
        assert recorded == 0
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-3)
    assert caplog.text.count("it runs as it is") == 1


@pytest.mark.parametrize("make", [counting_in_a_nest, iterating, returning_a_count])
def test_on_a_gpu_too(make, repeating):
    def main(session):
        return called(session.repeated(make()), session.share(X, owner=0), session.reveal)

    for one, other in zip(repeating(main)[0], called(make(), X), strict=True):
        assert one == pytest.approx(other, abs=1e-3)


# What changes between calls -----------------------------------------------------------------------


def config_in_a_list():
    configs = [Config()]
    return lambda x: x * configs[0].factor, lambda: setattr(configs[0], "factor", 2.0)


def config_of_a_trainer():
    trainer = Trainer()
    return lambda x: trainer.scaled(x), lambda: setattr(trainer.config, "factor", 2.0)


def config_of_a_module():
    module = Scaling()
    return module, lambda: setattr(module.config, "factor", 2.0)


def function_of_a_module():
    module = Scaling()
    return module, lambda: setattr(module, "function", torch.relu)


def layer_of_a_module():
    module = nn.Sequential(nn.Identity(), nn.ReLU())
    return lambda x: module(x) * 2, lambda: module.__setitem__(1, nn.Identity())


def hook_of_a_module():
    module = nn.Sequential(nn.ReLU())

    def add_hook():
        module[0].register_forward_hook(lambda module, given, made: made * 2)

    return lambda x: module(x) + 0, add_hook


def element_of_a_long_list():
    factors = [1.0] * 100
    return lambda x: x * factors[70], lambda: factors.__setitem__(70, 2.0)


def variable_of_a_function(make):
    """A function that calls another one; that multiplies by an element of its closure."""
    factors = [1.0]
    return make(lambda x: x * factors[0]), lambda: factors.__setitem__(0, 2.0)


def called_from_a_dict(function):
    functions = {"scaled": function}
    return lambda x: functions["scaled"](x)


def called_as_a_static_method(function):
    class Scaled:
        scaled = staticmethod(function)

    return lambda x: Scaled.scaled(x)


def called_as_a_method(function):
    class Scaled:
        def scaled(self, x):
            return function(x)

    scaled = Scaled()
    return lambda x: scaled.scaled(x)


def called_as_a_bound_method(function):
    class Scaled:
        def scaled(self, x):
            return function(x)

    return Scaled().scaled


def called_by_a_property(function):
    class Scaled:
        @property
        def scaled(self):
            return function

    scaled = Scaled()
    return lambda x: scaled.scaled(x)


def called_as_a_module(function):
    class Scaled(nn.Module):
        def forward(self, x):
            return function(x)

    module = Scaled()
    return lambda x: module(x)


def called_by_a_partial(function):
    scaled = partial(lambda function, x: function(x), function)
    return lambda x: scaled(x)


def called_under_a_cache(function):
    @cache
    def scaling():
        return function

    return lambda x: scaling()(x)


def attribute_of_a_class():
    class Scaled(Config):
        def scaled(self, x):
            return x * self.named

        named = 1.0

    class Inherited(Scaled):
        pass

    scaled = Inherited()
    return lambda x: scaled.scaled(x), lambda: setattr(Scaled, "named", 2.0)


def class_method():
    class Scaled:
        factor = 1.0

        @classmethod
        def scaled(cls, x):
            return x * cls.factor

    return lambda x: Scaled.scaled(x), lambda: setattr(Scaled, "factor", 2.0)


def replaced_method():
    class Scaled:
        def scaled(self, x):
            return x * 1

    scaled = Scaled()
    return lambda x: scaled.scaled(x), lambda: setattr(Scaled, "scaled", lambda _, x: x * 2)


def context_variable():
    factor = ContextVar("factor", default=1.0)
    return lambda x: x * factor.get(), lambda: factor.set(2.0)


def variable_of_a_thread():
    own = threading.local()
    own.factor = 1.0
    return lambda x: x * own.factor, lambda: setattr(own, "factor", 2.0)


def other_memory_of_a_public_tensor():
    factor = torch.ones(3)
    return lambda x: x * factor, lambda: setattr(factor, "data", torch.full((3,), 2.0))


CALLED = [
    *(called_from_a_dict, called_as_a_static_method, called_as_a_method, called_as_a_bound_method),
    *(called_by_a_property, called_as_a_module, called_by_a_partial, called_under_a_cache),
]
BETWEEN = [
    *(config_in_a_list, config_of_a_trainer, config_of_a_module, function_of_a_module),
    *(layer_of_a_module, hook_of_a_module, element_of_a_long_list),
    *(pytest.param(partial(variable_of_a_function, one), id=one.__name__) for one in CALLED),
    *(attribute_of_a_class, class_method, replaced_method, context_variable),
    *(variable_of_a_thread, other_memory_of_a_public_tensor),
]


@pytest.mark.parametrize("make", BETWEEN)
def test_what_a_function_reaches_is_looked_at(make):
    def run(repeated, x, reveal):
        function, change = make()
        function = repeated(function)
        found = called(function, x, reveal, 10, lambda i: change() if i == 5 else None)
        return function, found

    def main(session):
        function, found = run(session.repeated, session.share(X, owner=0), session.reveal)
        return found, [one.num_replays for one in function.recordings]

    _, expected = run(lambda function: function, X, lambda x: x)
    for found, replays in tacit.run(main):
        assert len(replays) == 2
        assert all(replays)
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-3)


def test_a_repeated_function_within_another_is_looked_into():
    def main(session):
        factors, x = [1.0], session.share(X, owner=0)
        inner = session.repeated(lambda x: x * factors[0])
        outer, found = session.repeated(lambda x: inner(x) + 1), []
        for i in range(9):
            factors[0] = 1.0 if i < 5 else 2.0
            found.append(session.reveal(outer(x)))
        return torch.stack(found), [one.num_replays for one in outer.recordings]

    factors = torch.tensor([1.0] * 5 + [2.0] * 4)
    for found, replays in tacit.run(main):
        torch.testing.assert_close(found, X * factors[:, None] + 1, atol=1e-3, rtol=0)
        assert len(replays) == 2


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_gradients_are_looked_into(register):
    """The gradient is that of the sum, whose hook multiplies it by another number from call 5 on;
    from call 8 on there is one more hook."""

    def main(session):
        weight, factors = nn.Parameter(session.share(X, owner=0)), [2.0]

        def scale(found):
            if register == "register_hook":
                return found * factors[0]
            found.grad = found.grad * factors[0]
            return None

        getattr(weight, register)(scale)
        optimizer = torch.optim.SGD([weight], lr=0.125)

        def step():
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()

        step, found = session.repeated(step), []
        for i in range(11):
            factors[0] = 2.0 if i < 5 else 3.0
            if i == 8:
                getattr(weight, register)(scale)
            step()
            found.append(session.reveal(weight.detach()))
        return torch.stack(found), sum(one.num_replays for one in step.recordings)

    steps = torch.tensor([2.0] * 5 + [3.0] * 3 + [9.0] * 3).cumsum(0) / 8
    for found, replays in tacit.run(main):
        torch.testing.assert_close(found, X - steps[:, None], atol=1e-2, rtol=0)
        assert replays > 0


def test_attributes_that_the_code_does_not_name_may_change():
    def main(session):
        trainer = Trainer()
        function, x = session.repeated(lambda x: trainer.scaled(x)), session.share(X, owner=0)
        for i in range(6):
            function(x)
            trainer.log.append(i)
            trainer.epoch = i
        return sum(one.num_replays for one in function.recordings)

    assert tacit.run(main) == [3] * 3


def test_an_argument_that_is_an_object_is_looked_into(caplog):
    def main(session):
        config, x = Config(), session.share(X, owner=0)
        function, found = session.repeated(lambda x, config: x * config.factor), []
        for _ in range(20):
            config.factor += 1
            found.append(session.reveal(function(x, config))[0].item())
        return found

    for found in tacit.run(main):
        assert found == pytest.approx([i + 2.0 for i in range(20)], abs=1e-3)
    assert "are others in every call: it runs as it is" in caplog.text


def test_a_lazy_argument_is_recorded():
    """A product is divided when it is read: the recorded function reads it."""

    def main(session):
        function = session.repeated(lambda x: x * 2)
        for _ in range(5):
            x = session.share(X, owner=0)
            found = function(x * x)
        return session.reveal(found), sum(one.num_replays for one in function.recordings)

    for found, replays in tacit.run(main):
        torch.testing.assert_close(found, 2 * X * X, atol=1e-3, rtol=0)
        assert replays == 2


def test_a_block_of_inference_mode_is_recorded():
    def main(session):
        @session.repeated
        def function(x):
            with torch.inference_mode():
                return (x * x).relu()

        x = session.share(X, owner=0)
        found = [session.reveal(function(x)) for _ in range(5)]
        return torch.stack(found), sum(one.num_replays for one in function.recordings)

    for found, replays in tacit.run(main):
        torch.testing.assert_close(found, (X * X).expand(5, 3), atol=1e-3, rtol=0)
        assert replays == 2


def test_a_scheduler_steps_once_where_a_recording_fails(repeating, caplog):
    """The third call reads another secret than the second: a capture is undone, and runs again."""

    def main(session):
        table = [session.share(X * i, owner=0) for i in range(6)]
        weight = nn.Parameter(session.share(X, owner=0))
        optimizer = torch.optim.SGD([weight], lr=0.5)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def step():
            optimizer.zero_grad()
            (weight * table[scheduler.last_epoch]).sum().backward()
            optimizer.step()
            scheduler.step()

        step = session.repeated(step)
        for _ in range(5):
            step()
        return session.reveal(weight.detach()), scheduler.last_epoch

    expected = X - sum(0.5 ** (i + 1) * i for i in range(5)) * X
    for found, epoch in repeating(main):
        assert epoch == 5
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
    assert "it runs as it is" in caplog.text


def clear_gradients(model):
    for one in model.parameters():
        one.grad.mul_(0)


def step_hook(model, optimizer):
    return optimizer.register_step_pre_hook(lambda *_: clear_gradients(model))


def step_hook_of_torch(model, optimizer):
    def hook(stepping, args, kwargs):
        if stepping is optimizer:
            clear_gradients(model)

    return register_optimizer_step_pre_hook(hook)


def forward_hook_of_torch(model, optimizer):
    return register_module_forward_hook(lambda one, x, y: y * 2 if one is model else None)


def parameters_of_another_list(model, optimizer):
    optimizer.param_groups[0]["params"] = [model.bias]


@pytest.mark.parametrize(
    "change",
    [step_hook, step_hook_of_torch, forward_hook_of_torch, parameters_of_another_list],
)
def test_a_later_hook_or_list_of_parameters_is_seen(change):
    barrier = threading.Barrier(3)

    def main(session):
        model = nn.Linear(3, 2)
        with torch.no_grad():
            for one in model.parameters():
                one.copy_(torch.linspace(-1, 1, one.numel()).view(one.shape))
        model = session.share(model, owner=0) if session else model
        x = session.share(X, owner=0) if session else X
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            (model(x) ** 2).sum().backward()
            optimizer.step()

        step = session.repeated(step) if session else step
        wait = (
            partial(barrier.wait, 60) if session else int
        )  # torch's hooks are those of all threads
        for _ in range(5):
            step(x)
        wait()
        hook = change(model, optimizer)
        wait()
        for _ in range(4):
            step(x)
        wait()
        if hook is not None:
            hook.remove()
        wait()
        weight = model.weight.detach()
        return session.reveal(weight) if session else weight

    wanted = main(None)
    for found in tacit.run(main):
        torch.testing.assert_close(found, wanted, atol=2e-3, rtol=1e-3)


def test_a_function_with_a_sparse_tensor_runs_as_it_is(repeating, caplog):
    weights = torch.tensor([1.0, 0.0, 1.0]).to_sparse()

    def main(session):
        x = session.share(X, owner=0)
        scaled = session.repeated(lambda x: x * float(weights.to_dense().to_sparse().sum()))
        return torch.stack([session.reveal(scaled(x)) for _ in range(5)]), scaled.recordings

    for found, recordings in repeating(main):
        torch.testing.assert_close(found, (2 * X).expand(5, -1), atol=1e-3, rtol=0)
        assert not recordings
    assert "it computes with a sparse tensor: it runs as it is" in caplog.text


class Box:
    def __init__(self):
        self.usual, self.rare = 1.0, [2.0]


BOX = Box()


def early():
    return BOX.usual + between()


def between():
    return late()


def late():
    return BOX.rare[0]


def test_what_is_named_late_is_held_of_objects_that_were_seen_early():
    first = Reached([early])
    again = Reached([early], first.names)
    assert any(one.holder is BOX.rare for one in first.objects)
    assert [id(one.holder) for one in again.objects] == [id(one.holder) for one in first.objects]
    assert again.names == first.names


def test_a_class_of_a_run_and_its_session_end_with_it():
    """What is kept of a class does not keep it: its methods refer to the session, with its keys."""
    left = []

    def main(session):
        class Local(Slotted):
            __slots__ = ("__weakref__", "shift")

            def scaled(self, x):
                return x * self.factor + session.rank * self.shift

        one = Local()
        one.shift = 0.0
        scaled = session.repeated(lambda x: one.scaled(x))
        x = session.share(X, owner=0)
        for _ in range(4):
            scaled(x)
        left.extend((ref(Local), ref(session)))
        return len(scaled.recordings)

    assert tacit.run(main) == [1, 1, 1]
    gc.collect()
    assert [one() for one in left] == [None] * 6
