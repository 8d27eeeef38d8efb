"""Other packages use `Numbers` and the modules that the package's docstring names, nothing else."""

import ast
from pathlib import Path

import tacit.fixedpoint

ROOT = Path(tacit.__file__).parent
PUBLIC = {"format", "encoding", "lazy", "extended", "flatten", "symbolic", "debug"}


def bypasses(path: Path) -> list[str]:
    """Returns the names that a file takes from `fixedpoint` although they are not public."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        parts = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
        if "fixedpoint" not in parts:
            continue
        below = parts[parts.index("fixedpoint") + 1 :]
        names = below[:1] or [alias.name for alias in node.names]
        allowed = PUBLIC if below else {*PUBLIC, *tacit.fixedpoint.__all__}
        found += [f"{path.name}: {name}" for name in names if name not in allowed]
    return found


def test_nothing_bypasses_the_facade():
    outside = [p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).parts[0] != "fixedpoint"]
    assert not [line for path in outside for line in bypasses(path)]


def test_the_docstring_names_the_public_modules():
    assert all(f"`{name}`" in (tacit.fixedpoint.__doc__ or "") for name in PUBLIC)
