"""Every module may import only from layers below its own; function-level imports count."""

import ast
from pathlib import Path

PACKAGE = "tacit"
ROOT = Path(__file__).parents[2] / "src" / PACKAGE
# Lowest first. Members of one layer may not import one another.
LAYERS = [
    {"errors", "registry", "config"},
    {"ring"},
    {"kernels"},
    {"transport", "crypto"},
    {"protocols"},
    {"fixedpoint"},
    {"tensor"},
    {"nn"},
    {"runtime"},
    {"serve", "testing", "zoo", "compat", "tools"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Settings report what is wrong with them, and name a protocol of the registry.
ALLOWED_WITHIN = {("config", "errors"), ("config", "registry"), ("registry", "errors")}


def imported_layers(path: Path, source: str) -> set[str]:
    here = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts]
    targets: list[list[str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            targets += [[*base, alias.name] for alias in node.names]
    return {t[1] for t in targets if t[0] == PACKAGE and len(t) > 1 and t[1] in RANK}


def violations(path: Path, source: str) -> list[str]:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return [
        f"{path.relative_to(ROOT)} imports {other}"
        for other in imported_layers(path, source) - {own}
        if RANK[other] >= RANK[own] and (own, other) not in ALLOWED_WITHIN
    ]


def modules() -> list[Path]:
    return [
        p for p in sorted(ROOT.rglob("*.py")) if not p.relative_to(ROOT).parts[0].startswith("_")
    ]


def test_every_module_has_a_layer():
    names = {p.relative_to(ROOT).parts[0].removesuffix(".py") for p in modules()}
    assert names <= RANK.keys(), f"add to LAYERS: {names - RANK.keys()}"


def test_imports_point_downwards():
    wrong = [line for path in modules() for line in violations(path, path.read_text())]
    assert not wrong, "\n".join(wrong)


def test_the_check_sees_what_it_should():
    path = ROOT / "ring" / "ring.py"
    for source in (
        "def f():\n    from ..transport import Mesh",
        "import tacit.kernels.matmul",
        "from .. import runtime",
        "from tacit import crypto",
    ):
        assert violations(path, source), source
    assert violations(ROOT / "transport" / "x.py", "from ..crypto import keys")
    assert not violations(path, "from ..errors import ConfigError\nfrom . import reference")
