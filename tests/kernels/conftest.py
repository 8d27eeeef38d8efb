import pytest

from tacit.kernels import backend


def forget() -> None:
    """Makes the next call read the environment and load the kernels again."""
    for cached in (backend.choice, backend.level, backend.compiled, backend.load_gpu):
        cached.cache_clear()


@pytest.fixture
def choose(monkeypatch):
    """A call that makes the environment that of a user who chose the implementation."""

    def choose(implementation: str) -> None:
        monkeypatch.setenv(backend.VARIABLE, implementation)
        forget()

    yield choose
    monkeypatch.undo()
    forget()


@pytest.fixture
def force_reference(choose):
    """A call that makes the environment that of a user who forces the reference."""
    return lambda: choose("reference")
