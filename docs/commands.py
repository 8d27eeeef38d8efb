"""The page of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from tacit.cli import app
from tacit.cli.errors import CODES, MEANINGS

NOT_RUN = "<!-- not run: examples of the command's help; tests/cli runs every command -->"
TEXT = """\
`tacit`, or `python -m tacit`. `tacit --install-completion` completes commands and options in your
shell. On a terminal there are tables and a line of progress, elsewhere plain lines; `--json` gives
one document on stdout, errors too. `TACIT_PASSPHRASE` in the environment stands for typing a key's
passphrase."""


def cli_page() -> str:
    """Every command: what it does, examples, arguments and options."""
    lines = ["# Command line", "", TEXT, ""]
    lines += [
        "## Exit codes",
        "",
        "| code | meaning | errors |",
        "|---|---|---|",
        "| 0 | all is well | |",
    ]
    for code, meaning in MEANINGS.items():
        kinds = ", ".join(f"`{kind.__name__}`" for kind, own in CODES if own is code)
        lines.append(f"| {int(code)} | {meaning} | {kinds} |")
    lines.append("")
    for path, command in _commands(typer.main.get_command(app), ("tacit",)):
        lines += [f"## {' '.join(path)}", "", *_command(path, command), ""]
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _command(path: tuple[str, ...], command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([*path, "[OPTIONS]", *(_called(argument) for argument in arguments)])
    lines = [f"`{usage}`", "", *_paragraphs(command.callback), ""]
    lines += ["| argument or option | what | default |", "|---|---|---|"]
    for one in (*arguments, *options):
        name = _called(one) if one in arguments else f"{one.opts[0]} {one.metavar or ''}".strip()
        lines.append(f"| `{name}` | {one.help or ''} | {_default(one)} |")
    return lines


def _called(argument: Any) -> str:
    return argument.metavar or argument.name.upper()


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    return "" if value in (None, False) else f"`{value}`"


def _paragraphs(function: Any) -> list[str]:
    """The docstring; examples as a block of commands."""
    text, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples:\n\n")
    if not examples:
        return [text]
    commands = [line.strip() for line in examples.splitlines() if line.strip()]
    return [text, "", NOT_RUN, "", "```sh", *commands, "```"]
