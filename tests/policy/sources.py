"""The sources of Tacit as the policy tests read them: files, layers and imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "tacit"
SOURCE = ROOT / "src" / PACKAGE
ARCHITECTURE = ROOT / "ARCHITECTURE.md"


@cache
def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def folder(path: Path) -> str:
    """The package, or the module at the top, that a file belongs to; "" for tacit itself."""
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if name.startswith("__") else name


@cache
def layer_table() -> list[dict[str, str]]:
    """The rows of the table of layers in ARCHITECTURE.md, lowest layer first."""
    lines = ARCHITECTURE.read_text().splitlines()
    start = next(
        i for i, line in enumerate(lines) if line.startswith("|") and "must not know" in line
    )
    header = [cell.strip() for cell in lines[start].strip("|").split("|")]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.append(dict(zip(header, cells, strict=True)))
    return rows


@cache
def layers() -> list[set[str]]:
    """The packages of each layer, lowest first."""
    return [set(re.findall(r"`(\w+)`", row["package"])) for row in layer_table()]


def rank() -> dict[str, int]:
    """The number of each package's layer."""
    return {name: number for number, names in enumerate(layers()) for name in names}


def module_name(path: Path) -> str:
    parts = [PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def module_names() -> dict[str, Path]:
    return {module_name(path): path for path in files()}


def imports(path: Path, tree: ast.Module, *, with_types: bool = True) -> Iterator[str]:
    """Full names of what a file imports; of Tacit the module, not the name in it.

    Function-level imports count. `with_types=False` leaves out those under TYPE_CHECKING.
    """
    typed: set[ast.AST] = set()
    for node in statements(tree.body):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            typed.update(statements(node.body))
        if with_types or node not in typed:
            yield from _targets(path, node)


def statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements and all that are in them, outer ones first; expressions are not looked at."""
    for node in nodes:
        yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from statements(getattr(node, field, ()))


def _targets(path: Path, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _base(path, node)
        for alias in node.names:
            full = f"{base}.{alias.name}"
            yield full if full in module_names() or not base.startswith(PACKAGE) else base


def _base(path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    here = [PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join([*here[: -node.level], *([node.module] if node.module else [])])


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Identifiers, attributes and strings with their lines; no docstrings and no comments."""
    documents = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif _is_text(node) and node not in documents:
            yield node.lineno, node.value


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
