import pytest

from tacit.kernels import backend


def forget() -> None:
    for cached in (backend.choice, backend.load_native, backend.load_gpu):
        cached.cache_clear()


@pytest.fixture
def force_reference(monkeypatch):
    """A call that makes the environment that of a user who forces the reference."""

    def force() -> None:
        monkeypatch.setenv(backend.VARIABLE, "reference")
        forget()

    yield force
    monkeypatch.undo()
    forget()
