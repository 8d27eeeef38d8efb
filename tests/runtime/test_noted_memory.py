"""Memory that an observer has noted is not taken for memory that torch allocates later."""

from __future__ import annotations

import ctypes
import weakref

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

import tacit
from tacit.runtime.replay.noted_memory import NotedMemory, storage_of

X = torch.tensor([1.0, -2.0, 3.0])


def test_views_of_noted_memory_are_noted_and_memory_allocated_later_is_not():
    noted, identities = NotedMemory(), set()
    for _ in range(10):
        x = torch.rand(3)
        noted.add(x)
        identities.add(storage_of(x))
        assert x[1:] in noted
        assert x.clone() not in noted
        del x
        assert not any(y in noted for y in [torch.ones(3) for _ in range(100)])
    assert len(identities) == 10
    noted.clear()
    assert identities & {storage_of(y) for y in [torch.ones(3) for _ in range(100)]}


def test_noted_memory_is_released():
    noted, memory = NotedMemory(), (ctypes.c_char * 64)()
    alive = weakref.ref(memory)
    x = torch.frombuffer(memory, dtype=torch.float32)
    noted.add(x)
    del memory
    assert alive() is not None
    del x
    assert alive() is None


FREED = {
    "drawn": lambda session, x, plain: torch.rand(()),
    "revealed": lambda session, x, plain: session.reveal(x.sum()),
    "made of an argument": lambda session, x, plain: session.share(plain * 2, owner=1),
}


@pytest.mark.parametrize("free", FREED.values(), ids=FREED)
def test_a_number_in_the_place_of_one_that_changes_may_be_read(free):
    def main(session):
        def function(x, plain):
            free(session, x, plain)
            with _disable_current_modes():  # as what torch's C++ code makes
                made = [torch.ones(()) for _ in range(100)]
            return x * float(sum(made)) / 100

        function, x = session.repeated(function), session.share(X, owner=0)
        found = [session.reveal(function(x, torch.rand(()))) for _ in range(6)]
        return torch.stack(found), function.summary()

    for found, summary in tacit.run(main):
        torch.testing.assert_close(found, X.expand(6, 3), atol=1e-3, rtol=0)
        assert "replayed 3 times" in summary, summary
