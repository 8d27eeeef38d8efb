"""What a user can see, and what importing it does."""

import importlib
import json
import pkgutil
import subprocess
import sys
import types
from pathlib import Path

import tacit

SOURCES = str(Path(tacit.__file__).parents[1])
PUBLIC = {
    "run",
    "preprocess",
    "connect",
    "calibrate",
    "check",
    "Session",
    "SecretTensor",
    "errors",
    "__version__",
}


def test_top_level_names():
    assert set(tacit.__all__) == PUBLIC
    assert all(getattr(tacit, name) for name in PUBLIC)
    public = {n for n, v in vars(tacit).items() if not n.startswith("_")}
    extra = {n for n in public - PUBLIC if not isinstance(getattr(tacit, n), types.ModuleType)}
    assert not extra, f"names outside __all__: {extra}"


def test_every_package_says_what_it_exports():
    for info in pkgutil.iter_modules(tacit.__path__):
        if info.ispkg:
            package = importlib.import_module(f"tacit.{info.name}")
            assert package.__doc__, f"{package.__name__} has no docstring"
            assert len(package.__all__) == len(set(package.__all__)), package.__name__
            missing = [n for n in package.__all__ if not hasattr(package, n)]
            assert not missing, f"{package.__name__}: {missing}"


def test_every_error_belongs_to_the_tree():
    classes = [e for e in vars(tacit.errors).values() if isinstance(e, type)]
    errors = [e for e in classes if issubclass(e, BaseException)]
    assert all(issubclass(e, tacit.errors.Error | Warning) for e in errors)
    tree = tacit.errors.__doc__ or ""
    assert all(e.__name__ in tree for e in errors)


LEAN = """
import json, os, sys, threading
from pathlib import Path
import torch

def state():
    files = len(os.listdir("/proc/self/fd"))
    return threading.active_count(), files, torch.get_rng_state().sum().item()

before = state()
import tacit
everything = [getattr(tacit, name) for name in tacit.__all__]
after = state()
print(json.dumps({
    "before": before,
    "after": after,
    "children": "".join(p.read_text() for p in Path("/proc/self/task").glob("*/children")),
    "cuda": torch.cuda.is_initialized(),
    "triton": "triton" in sys.modules,
    "native": any(name.startswith("tacit.kernels.native") for name in sys.modules),
}))
"""


def test_torch_is_imported_when_it_is_needed():
    """The command line answers `--help` without it; names and packages appear when asked for."""
    source = """
import sys, tacit
assert "torch" not in sys.modules
assert {"run", "errors"} <= set(dir(tacit)) and not hasattr(tacit, "absent")
assert tacit.nn.validate and tacit.run
assert "torch" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", source], check=True)


def test_importing_starts_nothing_and_needs_no_gpu():
    """No thread, no open file, no process, no CUDA context, no compiled code, no random state."""
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", LEAN],
        capture_output=True,
        text=True,
        check=True,
        env={"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin", "PYTHONPATH": SOURCES},
    )
    assert found.stderr == ""
    state = json.loads(found.stdout)
    assert state["before"] == state["after"]
    assert not any(state[key] for key in ("children", "cuda", "triton", "native"))
