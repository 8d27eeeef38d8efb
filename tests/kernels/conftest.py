import pytest

from tacit.kernels import backend


@pytest.fixture
def force_reference(monkeypatch):
    """A call that makes the environment that of a user who forces the reference."""

    def force() -> None:
        monkeypatch.setenv(backend.VARIABLE, "reference")
        backend.load_native.cache_clear()

    yield force
    monkeypatch.undo()
    backend.load_native.cache_clear()
