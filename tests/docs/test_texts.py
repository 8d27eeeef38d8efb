"""The troubleshooting page quotes errors as the sources have them; no setting is left out."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
QUOTED = re.findall(r"^### `(.*)`$", PAGE.read_text(), re.MULTILINE)


@cache
def texts() -> list[str]:
    """Every string of the sources but docstrings, with … for what is filled in."""
    found = []
    for path in SOURCES:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        documents = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in (node for node in nodes if node not in documents):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def occurs(quoted: str) -> bool:
    """Whether some string has the text; … at its ends may be any text, or none."""
    return any(quoted.strip("… ") in text for text in texts())


@pytest.mark.parametrize("quoted", QUOTED)
def test_an_error_is_quoted_as_it_is(quoted):
    assert occurs(quoted)


def test_other_texts_do_not_occur():
    assert len(QUOTED) > 20
    assert not occurs("party … has lost its patience with …")


def test_every_variable_of_the_environment_is_listed():
    from docs.settings import VARIABLES

    used = {name for path in SOURCES for name in re.findall(r'"(TACIT_\w+)"', path.read_text())}
    assert used <= VARIABLES.keys()
