import pytest

from tacit.kernels import backend


@pytest.fixture
def forced_reference(monkeypatch):
    """The environment of a user who forces the reference."""
    monkeypatch.setenv(backend.VARIABLE, "reference")
    backend.load_native.cache_clear()
    yield
    monkeypatch.undo()
    backend.load_native.cache_clear()
