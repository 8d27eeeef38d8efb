"""Every code block of the documents runs, or says why it does not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from tests import forked
from tests.commands import folder_with_tacit
from tests.docs.pages import DOCUMENTS, ROOT, Block, blocks, name, program

SECONDS = 600
PROGRAMS = [page for page in DOCUMENTS if program(page)]
COMMANDS = [page for page in DOCUMENTS if any(block.commands for block in blocks(page))]


@pytest.mark.parametrize("page", DOCUMENTS, ids=name)
def test_every_block_says_what_is_done_with_it(page):
    assert [block.fault for block in blocks(page) if block.fault] == []
    fences = re.findall(r"^\s*```+\w", page.read_text(), re.MULTILINE)
    assert len(fences) == len(blocks(page)), "a block is indented, or has no end"


SHORT = {"README.md", "docs/index.md", "docs/quickstart.md", "docs/guides/modules.md"}
REST = pytest.mark.full("the pages that are read first; other tests run what the rest show")


@pytest.mark.parametrize(
    "page",
    [p if name(p) in SHORT else pytest.param(p, marks=REST) for p in PROGRAMS],
    ids=name,
)
def test_the_python_of_a_page_runs(page, tmp_path):
    """As one program, with the page's line numbers."""
    script = tmp_path / f"{page.stem}.py"
    script.write_text(program(page))
    code, _, err = forked.run([script.name], cwd=tmp_path, timeout=SECONDS)
    assert code == 0, err


@pytest.mark.full("tests/cli runs the same commands")
@pytest.mark.parametrize("page", COMMANDS, ids=name)
def test_the_commands_of_a_page_run(page, tmp_path, tacit):
    """In order, in one folder that holds the page's files."""
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        running = [start(command, tmp_path, tacit) for command in block.commands]
        try:
            ends = [(shell, *shell.communicate(timeout=SECONDS)) for shell in running]
        finally:
            for shell in running:
                with suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
        for shell, out, err in ends:
            assert shell.returncode == 0, f"line {block.line}: {shell.args}\n{out}{err}"


@pytest.fixture(scope="module")
def tacit():
    with folder_with_tacit() as folder:
        yield folder


def start(command: str, folder: Path, tacit: Path) -> subprocess.Popen[str]:
    """A shell that finds this environment's `tacit` and `python` first."""
    path = os.pathsep.join([str(tacit), str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("page", DOCUMENTS, ids=name)
def test_toml_is_toml(page):
    for block in blocks(page):
        if block.language == "toml":
            tomllib.loads(block.text)


def test_compiled_code_is_quoted_as_it_is():
    sources = [path.read_text() for path in (ROOT / "csrc").iterdir()]
    quoted = [b for page in DOCUMENTS for b in blocks(page) if b.language == "cpp"]
    assert quoted
    assert [b.text for b in quoted if not any(b.text in source for source in sources)] == []


def test_the_readme_and_the_quickstart_show_how_to_begin():
    pages = {name(page): blocks(page) for page in DOCUMENTS}
    assert any(block.is_program for block in pages["README.md"])
    assert any(block.commands for block in pages["docs/quickstart.md"])


@pytest.mark.parametrize(
    ("order", "language", "wrong"),
    [
        ("", "bash", True),
        ("run", "bash", False),
        ("run: together", "sh", False),
        ("not run: it takes three machines", "bash", False),
        ("not run: ", "bash", True),
        ("", "python", False),
        ("run", "python", True),
        ("file: job.py", "python", False),
        ("", "text", False),
    ],
)
def test_a_block_without_an_order_is_found(order, language, wrong):
    assert bool(Block(order, language, "", 1).fault) is wrong
