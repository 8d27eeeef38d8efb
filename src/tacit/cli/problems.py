"""The problems of a job as text: what, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .screen import Screen

if TYPE_CHECKING:
    from ..nn.validate import Problem


def show_problems(screen: Screen, problems: Sequence[Problem]) -> None:
    """Prints the problems with their places and what to change."""
    if not problems:
        screen.line("no problems found")
        return
    screen.line(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}:")
    for number, problem in enumerate(problems, start=1):
        places = [problem.path, problem.line.removeprefix("at ")]
        screen.line(f"  {number}. {', '.join(filter(None, places))}: {problem.op}")
        screen.line(f"     {problem.reason}")
        if problem.remedy:
            screen.line(f"     what to do: {problem.remedy}")
