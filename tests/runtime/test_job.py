"""A job is a file: what belongs to it is known, and what is wrong with it is said at once."""

from __future__ import annotations

import os
import py_compile
import secrets
import sys

import pytest

import tacit
from tacit.errors import ConfigError
from tacit.runtime.deploy.job import load_job

JOB = """
import dataclasses

from parts import numbers
from parts.deep import more


@dataclasses.dataclass
class Kept:
    value: int


def main(session, first="1", *rest):
    import late

    return session.rank, Kept(numbers.ONE).value, more.TWO, late.THREE, first, rest
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A job with modules beside it, under names that no other test imports."""
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    parts, late = f"parts{secrets.token_hex(4)}", f"late{secrets.token_hex(4)}"
    deep = tmp_path / parts / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "job.py").write_text(JOB.replace("parts", parts).replace("late", late))
    (tmp_path / parts / "__init__.py").write_text("")
    (tmp_path / parts / "numbers.py").write_text("from .units import ONE\n")
    (tmp_path / parts / "units.py").write_text("ONE = 1\n")
    (deep / "__init__.py").write_text("")
    (deep / "more.py").write_text("from .. import units\nTWO = 2 * units.ONE\n")
    (tmp_path / f"{late}.py").write_text("THREE = 3\n")
    (tmp_path / "beside.py").write_text("NOBODY = 'imports this'\n")
    return tmp_path


@pytest.mark.full("test_processes_run_the_bytes_of_the_job_and_not_the_files")
def test_a_job_runs_in_threads_and_in_processes(folder):
    job = load_job(folder / "job.py", ["7", "8"])
    wanted = [(rank, 1, 2, 3, "7", ("8",)) for rank in range(3)]
    assert job.name == "job"
    assert tacit.run(job.main) == wanted
    assert tacit.run(job.main, transport="processes") == wanted


def test_the_digest_covers_what_is_imported_from_the_folder(folder):
    job = folder / "job.py"
    before = load_job(job).program
    (folder / "beside.py").write_text("NOBODY = 'cares'\n")
    (folder / "data.csv").write_text("1,2\n")
    assert load_job(job).program == before
    digests = {before}
    for file in [job, *folder.glob("late*.py"), *folder.glob("parts*/**/*.py")]:
        content = file.read_text()
        file.write_text(content + "\n# changed\n")
        digests.add(load_job(job).program)
        file.write_text(content)
    assert len(digests) == 8
    assert load_job(job).program == before


def test_the_digest_does_not_depend_on_where_the_job_lies(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for file in folder.rglob("*.py"):
        copy = elsewhere / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    assert load_job(elsewhere / "job.py").program == load_job(folder / "job.py").program


def test_a_changed_job_is_imported_again(tmp_path):
    file = tmp_path / "job.py"
    for value in (1, 2):
        file.write_text(f"def main(session):\n    return {value}\n")
        assert load_job(file).main(None) == value


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("def main(session:\n", [], r"line 1"),
        ("x = 1\n\ndef f(:\n", [], r"bad\.py, line 3: invalid syntax"),
        ("x = 1\n", [], r"bad\.py: it defines no main\(session\)"),
        ("main = 5\n", [], r"bad\.py: it defines no main"),
        ("\ndef main():\n    pass\n", [], r"bad\.py, line 2: main\(\) cannot be called"),
        ("def main(session):\n    pass\n", ["a"], r"line 1: main\(session\) .* 1 arguments"),
        ("def main(session, a):\n    pass\n", [], r"main\(session, a\) .* 0 arguments"),
        ("\0", [], r"bad\.py"),
    ],
)
def test_a_bad_job_names_file_and_line(tmp_path, text, arguments, message):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_job(tmp_path / "bad.py", arguments)


def test_a_job_that_is_no_file_of_python_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.py cannot be read: No such file"):
        load_job(tmp_path / "nothing.py")
    (tmp_path / "job.txt").write_text("def main(session):\n    pass\n")
    with pytest.raises(ConfigError, match=r"ends in \.py"):
        load_job(tmp_path / "job.txt")


def test_what_a_job_raises_while_it_is_imported_is_its_own(tmp_path):
    (tmp_path / "bad.py").write_text("raise LookupError('mine')\n")
    for _ in range(2):  # and is not taken for loaded
        with pytest.raises(LookupError, match="mine"):
            load_job(tmp_path / "bad.py")


# What runs is what was hashed --------------------------------------------------------------------


def write_stale_cache(file, old, new):
    """Leaves the source `new` beside a cached file of `old` that Python takes for its own."""
    assert len(old) == len(new)
    for text in (old, new):
        file.write_text(text)
        os.utime(file, (10**9, 10**9))
        if text is old:
            py_compile.compile(str(file))


def test_a_stale_cached_file_is_never_run_and_none_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    part = f"part{secrets.token_hex(4)}"
    job = f"from {part} import VALUE\n\n\ndef main(session):\n    return VALUE, %d\n"
    write_stale_cache(tmp_path / f"{part}.py", "VALUE = 1\n", "VALUE = 2\n")
    write_stale_cache(tmp_path / "job.py", job % 1, job % 2)
    caches = sorted((tmp_path / "__pycache__").iterdir())
    times = [file.stat().st_mtime_ns for file in caches]
    assert load_job(tmp_path / "job.py").main(None) == (2, 2)
    assert [file.stat().st_mtime_ns for file in caches] == times
    for file in caches:
        file.unlink()
    (tmp_path / "job.py").write_text(job % 3)
    assert load_job(tmp_path / "job.py").main(None) == (2, 3)
    assert not any((tmp_path / "__pycache__").iterdir())


def test_a_file_that_changes_after_it_was_hashed_runs_as_it_was(folder):
    job = load_job(folder / "job.py")
    [late] = folder.glob("late*.py")
    late.write_text("THREE = 'another program'\n")
    assert tacit.run(job.main)[0][3] == 3
    fresh = load_job(folder / "job.py")
    assert fresh.program != job.program
    assert fresh.main(type("Session", (), {"rank": 0}))[3] == "another program"


def test_processes_run_the_bytes_of_the_job_and_not_the_files(folder):
    job = load_job(folder / "job.py")
    [late] = folder.glob("late*.py")
    late.write_text("THREE = 'another program'\n")
    (folder / "job.py").write_text("raise LookupError\n")
    assert [found[3] for found in tacit.run(job.main, transport="processes")] == [3, 3, 3]


COMPUTED = """
import importlib

EARLY = importlib.import_module("early".replace("early", "%s")).VALUE


def main(session, name=""):
    return EARLY if not name else importlib.import_module(name).VALUE
"""


def test_a_computed_name_is_compared_if_imported_early_and_refused_later(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    early, late = f"early{secrets.token_hex(4)}", f"late{secrets.token_hex(4)}"
    (tmp_path / "job.py").write_text(COMPUTED % early)
    (tmp_path / f"{early}.py").write_text("VALUE = 1\n")
    (tmp_path / f"{late}.py").write_text("VALUE = 2\n")
    (tmp_path / f"{late}s.so").write_bytes(b"no such thing")
    job = load_job(tmp_path / "job.py")
    assert sorted(job.files) == [f"{early}.py", "job.py"]
    assert job.main(None) == 1
    for name, remedy in ((late, "import it by its name"), (f"{late}s", "an installed package")):
        with pytest.raises(ConfigError, match=rf"file {name}\.\w+ of the job's folder.*{remedy}"):
            load_job(tmp_path / "job.py", [name]).main(None)
    assert load_job(tmp_path / "job.py", ["fractions"]).files == job.files


def test_a_file_under_the_name_of_a_loaded_module_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    (tmp_path / "job.py").write_text("import json\n\n\ndef main(session):\n    pass\n")
    (tmp_path / "json.py").write_text("")
    with pytest.raises(ConfigError, match=r"module json of the job's folder"):
        load_job(tmp_path / "job.py")


def test_packages_without_an_init_file_and_data_beside_code(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    space = f"space{secrets.token_hex(4)}"
    (tmp_path / space / "inner").mkdir(parents=True)
    (tmp_path / space / "inner" / "__init__.py").write_text("")
    (tmp_path / space / "inner" / "table.txt").write_text("7")
    (tmp_path / space / "deep.py").write_text("VALUE = 5\n")
    (tmp_path / "job.py").write_text(
        f"import importlib.resources\nimport {space}.deep\nfrom {space} import inner\n\n\n"
        "def main(session):\n"
        "    table = importlib.resources.files(inner) / 'table.txt'\n"
        f"    return {space}.deep.VALUE, table.read_text()\n"
    )
    assert load_job(tmp_path / "job.py").main(None) == (5, "7")
