"""Errors are read by their fields, frames only tell where something happened."""

from __future__ import annotations

import ast
import re

import pytest
from tests.policy import sources

# Files that look at the call stack, and what for. None of them decides what is computed.
FRAME_READERS = {
    "errors/call_sites.py": "the lines of the user's program in an error",
    "protocols/reveals.py": "the line of a reveal in the record of reveals",
    "ring/reference/call_log.py": "the line of a call in the record that parties compare",
    "tensor/module_path.py": "the module path in an error",
    "transport/wire/ssl_session.py": "the socket that a failed handshake leaves open, to close it",
}
FRAMES = re.compile(
    r"^(_getframe|_current_frames|currentframe|f_back|f_locals|stack|getouterframes|walk_stack|"
    r"extract_stack|setprofile|settrace)$"
)
BASE = "errors/base.py"  # takes what the others give
# Names by which code calls a caught exception.
ERROR = re.compile(r"^(e|err|error|exc|exception|failure|cause|__cause__|__context__)$")
PARSERS = {
    "partition",
    "rpartition",
    "split",
    "rsplit",
    "splitlines",
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "find",
    "index",
    "replace",
    "match",
    "search",
    "fullmatch",
    "findall",
    "finditer",
    "sub",
}
# torch's own errors have no class or field for it.
FOREIGN_TEXTS = {"protocols/out_of_memory.py": "torch says only in words that memory is exhausted"}


def told_texts(tree: ast.Module) -> list[str]:
    """Where a text for other parties is made of something else than literals."""
    return [
        f"line {call.lineno}: told={ast.unparse(given.value)}"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for given in call.keywords
        if given.arg == "told"
        and not (isinstance(given.value, ast.Constant) and isinstance(given.value.value, str))
        and not (isinstance(given.value, ast.Name) and given.value.id.isupper())
    ]


def test_what_peers_are_told_of_an_error_is_a_literal():
    assert told_texts(ast.parse('E("x", told="y")\nE("x", told=MISSING)\nE("x")')) == []
    assert len(told_texts(ast.parse('E(told=f"{p}")\nE(told=str(e))\nE(told=path)'))) == 3
    wrong = {sources.relative(p): told_texts(sources.tree(p)) for p in sources.files()}
    assert not {name: lines for name, lines in wrong.items() if lines and name != BASE}


def frame_reads(tree: ast.Module) -> list[str]:
    """Where a file looks at the frames of its callers."""
    return [
        f"line {node.lineno}: {node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and FRAMES.match(node.attr)
        and (node.attr != "stack" or _is_name(node.value, "inspect"))
    ]


def parsed_errors(tree: ast.Module) -> list[str]:
    """Where a file takes the text of an error apart, or looks into it."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            operands = [node.func.value, *node.args]
            parses = node.func.attr in PARSERS and any(map(_is_error_text, operands))
        elif isinstance(node, ast.Compare):
            parses = any(map(_is_error_text, [node.left, *node.comparators]))
        else:
            parses = isinstance(node, ast.Subscript) and _is_arguments(node.value)
        if parses:
            found.append(f"line {node.lineno}: {ast.unparse(node)[:80]}")
    return found


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_error(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return bool(ERROR.match(node.id))
    return isinstance(node, ast.Attribute) and bool(ERROR.match(node.attr))


def _is_arguments(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "args" and _is_error(node.value)


def _is_error_text(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("str", "repr") and any(map(_is_error, node.args))
    return isinstance(node, ast.Subscript) and (
        _is_arguments(node.value) or _is_error_text(node.value)
    )


def test_frames_are_read_for_places_only():
    found = {
        sources.relative(p): reads
        for p in sources.files()
        if (reads := frame_reads(sources.tree(p)))
    }
    assert found.keys() == FRAME_READERS.keys(), found


def test_no_error_is_parsed():
    """But in `testing`, whose suites check what an error says."""
    found = {
        sources.relative(p): places
        for p in sources.files()
        if sources.folder(p) != "testing" and (places := parsed_errors(sources.tree(p)))
    }
    assert found.keys() <= FOREIGN_TEXTS.keys(), found


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nframe = sys._getframe(1)",
        "import inspect\nfor frame in inspect.stack(): pass",
        "caller = frame.f_back",
        "import traceback\ntraceback.extract_stack()",
    ],
)
def test_a_frame_is_found(source):
    assert frame_reads(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "op, _, rest = str(error).partition(': ')",
        "match = re.search(r'party (\\d)', str(error))",
        "first = error.args[0]",
        "'party' in str(exc)",
        "str(e)[:20].startswith('party')",
        "str(self.cause).split(';')",
        "re.sub('x', 'y', str(failure.cause))",
    ],
)
def test_a_parsed_error_is_found(source):
    assert parsed_errors(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    ["text = str(error)", "raise ConfigError(f'{error}') from error", "name.partition('.')"],
)
def test_a_quoted_error_is_none(source):
    assert not parsed_errors(ast.parse(source))
    assert not frame_reads(ast.parse(source))
