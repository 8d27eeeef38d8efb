"""A private layer and a shared module pass few files, and no lower layer calls a higher one."""

from __future__ import annotations

import pytest
from tests.policy.sources import SOURCE
from tools.walks import follow, walks

MOST_FILES = {"relu(linear(x))": 30, "session.share(module)": 18}


@pytest.fixture(scope="module")
def found():
    return walks()


@pytest.mark.parametrize("name", MOST_FILES)
def test_walks_are_short(found, name):
    for walk in found[name]:
        assert len(walk.files) <= MOST_FILES[name], "\n".join(walk.files)
        assert walk.channel, "nothing was sent"


@pytest.mark.parametrize("name", MOST_FILES)
def test_no_lower_layer_calls_a_higher_one(found, name):
    for walk in found[name]:
        assert not walk.callbacks, "\n".join(walk.callbacks)


def function(file: str, source: str, **names):
    """The function f of a source, as if it were in that file of Tacit."""
    exec(compile(source, str(SOURCE / file), "exec"), names)
    return names["f"]


def test_a_callback_is_found():
    above = function("tensor/above.py", "def f(): return 1")
    below = function("ring/below.py", "def f(g): return g()")
    assert follow(lambda: below(above)).callbacks == ["ring/below.py:f calls tensor/above.py:f"]
    top = function("tensor/above.py", "def f(): return below()", below=lambda: below(int))
    assert follow(top).callbacks == []


def test_a_generator_is_no_callback_but_a_delegation_to_one_above_is():
    rounds = function("fixedpoint/above.py", "def f(): yield 1")
    driver = function("protocols/below.py", "def f(g): return list(g())")
    assert follow(lambda: driver(rounds)).callbacks == []
    delegates = function("protocols/below.py", "def f(g):\n yield from g()")
    assert follow(lambda: list(delegates(rounds))).callbacks
