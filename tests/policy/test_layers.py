"""The table of layers in ARCHITECTURE.md holds: who imports whom, and who must not know what."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.policy import sources
from tests.policy.sources import PACKAGE, SOURCE

# Settings report what is wrong with them, and name a protocol of the registry.
ALLOWED_WITHIN = {("config", "errors"), ("config", "registry"), ("registry", "errors")}

CONCRETE = r"tacit\.protocols\.(trio|masked|additive|beaver|replicated|three_party|cleartext)\b"
SOCKETS = r"(socket|ssl|select|tacit\.transport\.(wire|setup|local))\b"
PARTY_WORDS = r"(?i)^(mesh|session|party|parties|rank|peer)$"
ATEN = r"(?i)\baten\b"

# The column "must not know about", made concrete: imports that a package has not, and words that
# its code does not use.
FORBIDDEN_IMPORTS = {
    "errors": r"torch\b|(?!tacit\.errors)tacit\.",
    "registry": r"torch\b|(?!tacit\.(errors|registry))tacit\.",
    "config": r"torch\b|(?!tacit\.(errors|registry|config))tacit\.",
    "ring": r"(socket|ssl|triton)\b|torch\.(nn|distributed)\b",
    "kernels": r"(socket|ssl)\b|torch\.(nn|distributed)\b",
    "transport": r"tacit\.(ring|kernels)\b|torch\.nn\b",
    "crypto": r"tacit\.(ring|kernels)\b|torch\.nn\b",
    "protocols": r"torch\.(nn|_ops|_decomp)\b|(socket|ssl)\b",
    "fixedpoint": rf"{CONCRETE}|{SOCKETS}|torch\.(nn|_ops|_decomp)\b",
    "enclave": r"tacit\.protocols\b(?!\.(products\.(bilinear|floats)|plain_(memory|pieces))\b)"
    r"|torch\.(nn|_ops|_decomp)\b",
    "tensor": rf"{CONCRETE}|{SOCKETS}|tacit\.transport\b",
    "nn": rf"{CONCRETE}|{SOCKETS}",
    "stats": rf"{CONCRETE}|{SOCKETS}",
    "metrics": rf"{CONCRETE}|{SOCKETS}",
    "privacy": rf"{CONCRETE}|{SOCKETS}",
    "tables": rf"{CONCRETE}|{SOCKETS}",
    "runtime": r"(typer|click|rich|http|argparse|flask|aiohttp|fastapi)\b",
    "testing": r"tacit\.(zoo|cli)\b",
    "zoo": r"tacit\.(testing|cli)\b",
    "compat": rf"{CONCRETE}|tacit\.(testing|zoo|cli)\b",
}
FORBIDDEN_WORDS = {
    "ring": PARTY_WORDS,
    "kernels": PARTY_WORDS,
    "transport": r"^(Share|Arith|Binary|Value|SecretTensor)$",
    "crypto": r"^(Share|Arith|Binary|Value|SecretTensor)$",
    "protocols": ATEN,
    "fixedpoint": ATEN,
    "enclave": ATEN,
}


def upward_imports(path: Path, tree: ast.Module) -> list[str]:
    """Imports of a layer that is not below the file's own."""
    own, rank = sources.folder(path), sources.rank()
    found = {
        name.split(".")[1]
        for name in sources.imports(path, tree)
        if "." in name and name.split(".")[0] == PACKAGE
    }
    return [
        f"{sources.relative(path)} imports {other}"
        for other in sorted(found & rank.keys() - {own})
        if rank[other] >= rank[own] and (own, other) not in ALLOWED_WITHIN
    ]


def forbidden(path: Path, tree: ast.Module) -> list[str]:
    """What a file must not import or mention."""
    own = sources.folder(path)
    banned, words = FORBIDDEN_IMPORTS.get(own), FORBIDDEN_WORDS.get(own)
    names = sorted({n for n in sources.imports(path, tree) if banned and re.match(banned, n)})
    found = [f"{sources.relative(path)} imports {name}" for name in names]
    if words:
        found += [
            f"{sources.relative(path)}:{line} mentions {text[:40]}"
            for line, text in sources.texts(tree)
            if re.search(words, text)
        ]
    return found


def modules() -> list[Path]:
    return [path for path in sources.files() if sources.folder(path)]


def test_the_table_lists_what_there_is():
    packages = {sources.folder(path) for path in modules()}
    assert packages == sources.rank().keys(), "ARCHITECTURE.md lists other packages than src/tacit"


def test_every_forbidden_thing_has_a_check():
    for row in sources.layer_table():
        for name in re.findall(r"`(\w+)`", row["package"]):
            needed = bool(row["must not know about"])
            assert (name in FORBIDDEN_IMPORTS) is needed, f"{name}: {row['must not know about']}"


def test_imports_point_downwards():
    wrong = [line for path in modules() for line in upward_imports(path, sources.tree(path))]
    assert not wrong, "\n".join(wrong)


def test_no_layer_knows_what_it_must_not():
    wrong = [line for path in modules() for line in forbidden(path, sources.tree(path))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("ring/ring.py", "def f():\n    from ..transport import Mesh"),
        ("ring/ring.py", "import tacit.kernels.matmul"),
        ("ring/ring.py", "from .. import runtime"),
        ("ring/ring.py", "from tacit import crypto"),
        ("transport/mesh.py", "from ..crypto import keys"),
        ("errors/base.py", "from ..config import Config"),
    ],
)
def test_an_upward_import_is_found(file, source):
    assert upward_imports(SOURCE / file, ast.parse(source))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("ring/ring.py", "def draw(session): return session.rank"),
        ("kernels/matmul.py", "mesh = None\nprint(mesh)"),
        ("transport/mesh.py", "def f():\n    from ..ring import Ring"),
        ("protocols/steps.py", "import torch\ntorch.ops.aten.mm"),
        ("protocols/steps.py", "from torch.nn import Module"),
        ("fixedpoint/format.py", "from ..protocols.masked import deal"),
        ("fixedpoint/format.py", "from ..protocols import trio"),
        ("enclave/worker.py", "from ..protocols import Arith"),
        ("enclave/worker.py", "from ..protocols.randomness import KeyStreams"),
        ("tensor/secret.py", "import socket"),
        ("tensor/secret.py", "from ..transport import Mesh"),
        ("nn/sharing.py", "from ..protocols.replicated import protocol"),
        ("runtime/session.py", "import typer"),
        ("zoo/models.py", "from ..testing import expect"),
    ],
)
def test_forbidden_knowledge_is_found(file, source):
    assert forbidden(SOURCE / file, ast.parse(source))


def test_ordinary_imports_pass():
    source = ast.parse("from ..errors import ConfigError\nfrom . import reference")
    path = SOURCE / "ring" / "ring.py"
    assert not upward_imports(path, source)
    assert not forbidden(path, source)
