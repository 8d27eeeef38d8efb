"""What a notebook shows of an error: the user's lines, and the sentence."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SETUP = "import torch, tacit\n"
CELL = """
def main(session):
    x = session.share(torch.eye(2), owner=0)
    return torch.linalg.eigvals(x)

tacit.run(main, parties=1, protocol="cleartext")
"""


@pytest.fixture
def cell(capsys):
    """Runs the code of a cell, and gives what the notebook shows."""
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell.instance()

    def run(code: str) -> str:
        capsys.readouterr()
        shell.run_cell(SETUP + code)
        return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)

    yield run
    shell.run_line_magic("xmode", "Context")
    type(shell).clear_instance()


def test_the_users_lines_come_first_and_ours_are_folded(cell):
    shown = cell(CELL).strip().splitlines()
    text = "\n".join(shown)
    assert "the cell:7 in <module>" in text
    assert 'tacit.run(main, parties=1, protocol="cleartext")' in text
    assert "the cell:5 in main" in text
    assert "return torch.linalg.eigvals(x)" in text
    assert "lines of tacit" in text
    assert "src/tacit" not in text
    assert len(shown) < 15
    assert shown[-1].startswith("PartyFailed: party 0 failed: UnsupportedOp: aten.linalg_eig")


def test_all_lines_in_the_verbose_mode(cell):
    assert "src/tacit" in cell("%xmode Verbose\n" + CELL)


def test_an_error_before_the_parties_start(cell):
    shown = cell("tacit.run(print, protocol='duo')").strip().splitlines()
    assert shown[-1].startswith("ConfigError: protocol='duo'")
    assert any("the cell:2 in <module>" in line for line in shown)
