"""The key of Triton's library is computed once for all processes, as long as no file changes."""

import os

import pytest

pytest.importorskip("triton")

from triton import knobs
from triton.runtime import cache

from tacit.kernels.gpu import library_key

KEY = "the key of a library"


@pytest.fixture
def library(monkeypatch, tmp_path):
    """The folder of a library with a file, and how often its key was computed."""
    root, times = tmp_path / "library", []
    root.mkdir()
    (root / "compiler.py").write_text("1 + 1")
    (root / "__pycache__").mkdir()
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "cache"))
    monkeypatch.setattr(library_key.triton, "__file__", str(root / "__init__.py"))
    monkeypatch.setattr(cache, "triton_key", lambda: times.append(1) or KEY)
    return root, times


def key_in_a_new_process(monkeypatch, times):
    """The key that Triton uses there; in this process it computes its own again."""
    with monkeypatch.context() as one:
        one.setattr(cache, "triton_key", cache.triton_key)
        library_key.keep_library_key.__wrapped__()
        return cache.triton_key()


def test_a_key_is_computed_once(library, monkeypatch):
    root, times = library
    assert key_in_a_new_process(monkeypatch, times) == KEY
    (root / "__pycache__" / "compiler.pyc").write_text("compiled meanwhile")
    assert key_in_a_new_process(monkeypatch, times) == KEY
    assert len(times) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "compiler.py").write_text("1 + 11"),
        lambda root: os.utime(root / "compiler.py", ns=(0, 0)),
        lambda root: (root / "backend.py").write_text(""),
        lambda root: (root / "compiler.py").rename(root / "compilers.py"),
    ],
    ids=["size", "time", "new file", "name"],
)
def test_a_changed_library_has_another_key(library, monkeypatch, change):
    root, times = library
    key_in_a_new_process(monkeypatch, times)
    change(root)
    assert key_in_a_new_process(monkeypatch, times) == KEY
    assert len(times) == 2


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\xff"], ids=["empty", "no text"])
def test_a_broken_file_is_written_anew(library, monkeypatch, tmp_path, content):
    _, times = library
    key_in_a_new_process(monkeypatch, times)
    [file] = (tmp_path / "cache" / "tacit").glob("library-*")
    file.write_bytes(content)
    assert key_in_a_new_process(monkeypatch, times) == KEY
    assert key_in_a_new_process(monkeypatch, times) == KEY
    assert len(times) == 2


def test_links_are_followed_unless_they_lead_nowhere(library, monkeypatch, tmp_path):
    root, times = library
    backend = tmp_path / "backend"
    backend.mkdir()
    (root / "backend").symlink_to(backend)
    (root / "gone").symlink_to(tmp_path / "nothing")
    key_in_a_new_process(monkeypatch, times)
    (backend / "compiler.py").write_text("")
    key_in_a_new_process(monkeypatch, times)
    assert len(times) == 2


def test_a_folder_that_cannot_be_written_only_costs_time(library, monkeypatch, tmp_path):
    _, times = library
    (tmp_path / "cache").write_text("no folder")
    assert key_in_a_new_process(monkeypatch, times) == KEY
    assert key_in_a_new_process(monkeypatch, times) == KEY
    assert len(times) == 2
