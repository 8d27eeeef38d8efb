"""The threads of the stripes under the thread sanitizer: memory that two use at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.kernels.test_sanitizers import build, copied_package, runtime

INSTALLED = Path(sysconfig.get_path("platlib")) / "tacit"  # its compiled modules
ARGUMENTS = ["-q", "-s", "-p", "no:cacheprovider", "tests/transport/test_striped_messages.py"]
OPTIONS = "halt_on_error=0:exitcode=66:report_thread_leaks=0:ignore_noninstrumented_modules=1"


@pytest.mark.full("the tests of the stripes run the ordinary build")
def test_threads_of_stripes_use_no_memory_of_others(tmp_path: Path) -> None:
    library = runtime("libtsan.so")
    if not library:
        pytest.skip("the compiler has no thread sanitizer (libtsan.so)")
    package = copied_package(tmp_path)
    for module in INSTALLED.rglob("*.so"):
        shutil.copy(module, package / module.relative_to(INSTALLED))
    build(tmp_path / "build", package, "thread", "openssl")
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pytest", *ARGUMENTS],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(tmp_path), *sys.path]),
            "LD_PRELOAD": f"{library} {runtime('libstdc++.so.6')}",
            "TSAN_OPTIONS": OPTIONS,
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert "ThreadSanitizer" not in done.stderr, done.stderr[-5000:]
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " skipped" not in done.stdout
