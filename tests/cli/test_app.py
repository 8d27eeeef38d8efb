"""What every command has: help with examples, JSON, completion; and quick answers."""

import re
import resource
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from tests.cli.shell import in_terminal, tacit, tacit_process
from typer.testing import CliRunner

import tacit as package
from tacit.cli import app, main

COMMANDS = [
    *(("local",), ("run",), ("dealer",), ("preprocess",), ("plan",), ("doctor",), ("ops",)),
    *(("check",), ("enclave",), ("worker",), ("measure",)),
    *(("party", "init"), ("party", "check"), ("report", "compare")),
]


@pytest.fixture
def runner():
    return CliRunner()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(runner, command):
    done = runner.invoke(app, [*command, "--help"])
    assert done.exit_code == 0
    assert "Examples:" in done.output
    assert f"tacit {' '.join(command)}" in done.output
    assert "--json" in done.output
    assert "--debug" in done.output


def test_these_are_all_commands():
    def names(group, path=()):
        for command in group.registered_commands:
            yield (*path, command.name or command.callback.__name__)
        for inner in group.registered_groups:
            yield from names(inner.typer_instance, (*path, inner.name))

    assert sorted(names(app)) == sorted(COMMANDS)


def test_help_needs_no_torch_and_comes_at_once():
    source = (
        "import sys; sys.argv = ['tacit', '--help']\n"
        "from tacit.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    before = _seconds_computed()
    subprocess.run([sys.executable, "-c", source], check=True, capture_output=True)
    assert _seconds_computed() - before < 1.5  # 0.3 s; torch alone would take 2


def _seconds_computed() -> float:
    """Processor time of all processes that this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_entry_point_is_installed():
    [script] = entry_points(group="console_scripts", name="tacit")
    assert script.load() is main


def test_version_and_usage():
    assert tacit("--version").out == f"tacit {package.__version__}\n"
    done = tacit("party", "init", "alice")
    assert done.code == 2
    assert "--address" in done.err
    assert tacit("nonsense").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    done = tacit_process(_TACIT_COMPLETE=f"source_{shell}")
    assert done.code == 0
    assert "_TACIT_COMPLETE" in done.out
    assert "--install-completion" in tacit("--help").out


def test_completion_completes():
    done = tacit_process(_TACIT_COMPLETE="complete_bash", COMP_WORDS="tacit do", COMP_CWORD="1")
    assert done.out.split() == ["doctor"]


def test_a_terminal_gets_a_table():
    """What is no terminal gets plain lines, see test_doctor."""
    code, seen = in_terminal("doctor")
    assert code == 0
    assert "┃" in seen


def test_documented_options_exist():
    """Every option in the examples of a help text is one of that command."""
    for command in COMMANDS:
        text = CliRunner().invoke(app, [*command, "--help"]).output
        examples = [line for line in text.splitlines() if line.strip().startswith("tacit ")]
        used = {option for line in examples for option in re.findall(r"(--[a-z-]+)", line)}
        listed = text[text.index("Options:") :]
        assert all(option in listed for option in used), command
