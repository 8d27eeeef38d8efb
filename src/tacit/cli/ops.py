"""`tacit ops`: lists the operators that have rules for secrets, or those that a model needs."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ConfigError
from .errors import Code, reported
from .options import Debug, Json
from .screen import Screen

NEEDED = "MODULE:FUNCTION, such as models:make or models.py:make"


def ops(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:FUNCTION]",
            help="A function that returns a module and an example input.",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the supported operators, or those that a model needs.

    Without an argument it lists all operators that have rules for secrets. FUNCTION takes no
    arguments and returns (module, example): a torch module, and an input of the right shapes made
    of public sample data. The module runs once forward, and also backward if it is in training
    mode. The exit code is 0 if all its operators run on secrets, else 1.

    Examples:

        tacit ops

        tacit ops models.py:make_classifier

        tacit ops mypackage.models:make --json
    """
    screen = Screen(json)
    with reported(screen, debug=debug):
        if model is None:
            _all(screen)
        else:
            _needed(screen, model)


def _all(screen: Screen) -> None:
    from ..tensor.table import REFUSED, operators

    families = operators()
    for family, names in families.items():
        screen.section(family, [", ".join(names)])
    count = sum(map(len, families.values())) - len(families[REFUSED])
    screen.line(f"{count} operators; in-place, out= and _foreach_ forms follow from them")
    screen.document({"operators": families})


def _needed(screen: Screen, model: str) -> None:
    from ..nn import survey
    from ..tensor.table import short_name

    module, example = _module_and_example(model)
    seen = survey(module, example)
    failing = {problem.op for problem in seen.problems}
    needed = [
        {"operator": op, "calls": calls, "works": op not in failing}
        for op, calls in sorted(seen.calls.items())
    ]
    rows = [
        (short_name(op), str(calls), "no" if op in failing else "yes")
        for op, calls in sorted(seen.calls.items())
    ]
    screen.table(("operator", "calls", "works"), rows)
    if seen.problems:
        screen.section("problems", list(map(str, seen.problems)))
    else:
        screen.line("every operator has a rule: the model runs on secrets")
    screen.document({"operators": needed, "problems": [vars(one) for one in seen.problems]})
    if seen.problems:
        raise typer.Exit(Code.JOB)


def _module_and_example(model: str) -> tuple[Any, Any]:
    """Calls the user's function and returns its module and example input."""
    from torch import nn

    source, _, name = model.rpartition(":")
    if not source or not name:
        raise ConfigError(repr(model), limit=f"needed is {NEEDED}")
    file = Path(source) if source.endswith(".py") else Path.cwd() / f"{source}.py"
    sys.path.insert(0, str(file.resolve().parent))
    _check_exists(source)
    function = getattr(_imported(source), name, None)
    if not callable(function):
        raise ConfigError(f"{model!r}: {source} has no function {name!r}")
    returned = function()
    if (
        not isinstance(returned, tuple)
        or len(returned) != 2
        or not isinstance(returned[0], nn.Module)
    ):
        raise ConfigError(
            f"{model!r} returned {type(returned).__name__}",
            limit="needed is a tuple of a torch.nn.Module and an example input",
        )
    return returned


def _imported(source: str) -> Any:
    """Returns the module of a file, or the module of that name."""
    if source.endswith(".py"):
        spec = spec_from_file_location(Path(source).stem, source)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    return import_module(source)


def _check_exists(source: str) -> None:
    there = Path(source).is_file() if source.endswith(".py") else find_spec(source.split(".")[0])
    if not there:
        raise ConfigError(f"{source!r} is neither a Python file nor a module that can be imported")
