"""The compiled kernels, TLS and plans under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    "activations",
    "call_log",
    "call_places",
    "contraction",
    "conv",
    "digest",
    "elementwise",
    "gates",
    "injection",
    "levels",
    "matmul",
    "ot",
    "planes",
    "prepared",
    "quantisation",
    "signs",
    "stream",
    "waves",
]

PLUGIN = ("-p", "no:cacheprovider", "-p", "tests.kernels.memory_of_malloc")

# Python itself leaks by design. Stacks that GCC 13 moves to the heap, to find uses after a return,
# are not aligned for vectors of 64 bytes (its bug 110027).
OPTIONS = "detect_leaks=0:abort_on_error=0:detect_stack_use_after_return=0"


def runtime(name: str) -> str:
    """The path of a sanitizer's library, as the compiler gives it; empty if it has none."""
    compiler = shutil.which("g++") or shutil.which("c++") or ""
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True)
    return found.stdout.strip() if "/" in found.stdout else ""


def build(folder: Path, package: Path, sanitizer: str, target: str = "all") -> None:
    """Puts the compiled modules with a sanitizer into their places in a package."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = ["-DCMAKE_BUILD_TYPE=None", f"-DTACIT_SANITIZE={sanitizer}"]
    settings += [f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (
        ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *settings],
        ["cmake", "--build", folder, "-j2", "--target", target],
    ):
        done = subprocess.run(
            command, env={**os.environ, "PATH": tools}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for module in folder.glob("*.so"):
        place = "transport/wire" if module.name.startswith("openssl") else "kernels"
        shutil.copy(module, package / place)


def copied_package(folder: Path) -> Path:
    """Copies the package, without compiled modules, and its tests; returns where it lies."""
    for name in ("src/tacit", "tests"):
        left_out = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder / "src" / "tacit"


@pytest.mark.full("the tests of the kernels run the ordinary build")
def test_the_kernels_touch_no_memory_but_their_own(tmp_path):
    library = runtime("libasan.so")
    if not library:
        pytest.skip("the compiler has no address sanitizer (libasan.so)")
    build(tmp_path / "build", copied_package(tmp_path), "address")
    files = [f"tests/kernels/test_{name}.py" for name in FILES]
    files += ["tests/transport/test_tls_sessions.py", "tests/runtime/test_memory_of_plans.py"]
    long = [f"--deselect=tests/kernels/test_conv.py::test_winograd_chosen[{n}]" for n in (1, 3)]
    # Without the module `site`, which would find the installed package and its ordinary kernels.
    pytest_ = [sys.executable, "-S", "-m", "pytest", "-q", "-s", "-x", *PLUGIN]
    done = subprocess.run(
        [*pytest_, *long, *files],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(tmp_path), *sys.path]),
            "LD_PRELOAD": f"{library} {runtime('libstdc++.so.6')}",
            "ASAN_OPTIONS": OPTIONS,
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "OMP_NUM_THREADS": "1",
            "PYTHONMALLOC": "malloc",  # memory of freed objects is known to be free
        },
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert "Sanitizer" not in done.stderr, done.stderr[-5000:]
    assert "runtime error" not in done.stderr, done.stderr[-5000:]
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the slow reference is used" not in done.stdout + done.stderr
