"""The troubleshooting page quotes errors as the sources have them; no setting is left out."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from tests.docs.pages import ROOT

from tacit import errors

PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
QUOTED = re.findall(r"^### `(.*)`$", PAGE.read_text(), re.MULTILINE)


MARKS = {"Party": "party …", "Operation": "operation …", "Operator": "…"}
ERRORS = {name for name, one in vars(errors).items() if isinstance(one, type)} - MARKS.keys()
FIELDS = (
    ("operation", " at operation …"),
    ("cause", ": {}"),
    ("limit", ": {}"),
    ("remedy", "; {}"),
)


def template(node: ast.AST) -> str:
    """The text of an expression, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return MARKS.get(name_of(node), "…")


def name_of(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else None
    return called.id if isinstance(called, ast.Name) else ""


def sentence(node: ast.Call) -> str:
    """What an error says whose fields are given in this call."""
    given = {keyword.arg: template(keyword.value) for keyword in node.keywords}
    rest = (form.format(given[name]) for name, form in FIELDS if name in given)
    before = f"{given['subject']}: " if "subject" in given else ""
    return before + template(node.args[0]) + "".join(rest)


@cache
def texts() -> list[str]:
    """Every string and error of the sources but docstrings, with … for what is filled in."""
    found = []
    for path in SOURCES:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        documents = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in (node for node in nodes if node not in documents):
            if name_of(node) in ERRORS and node.args:
                found.append(sentence(node))
            elif isinstance(node, ast.JoinedStr | ast.BinOp | ast.Constant):
                found.append(template(node))
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
