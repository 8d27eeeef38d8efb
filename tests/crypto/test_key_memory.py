"""Keys in memory: overwritten at the end of a session, and in no core dump."""

import os
import subprocess
import sys

import pytest

from tacit.crypto import Key
from tacit.crypto.key_memory import locked, wipe
from tacit.errors import ConfigError


def test_a_wiped_secret_is_zeros_and_its_key_is_of_no_use():
    copy = locked(b"a secret of some length")
    assert copy == b"a secret of some length"
    wipe(copy)
    assert copy == bytes(23)
    wipe(locked(b""))
    key = Key(b"k" * 32, (0, 1))
    assert len(key.derive("use", 16)) == 16
    key.wipe()
    assert not any(key._secret)
    with pytest.raises(ConfigError, match="was wiped: its session has ended"):
        key.derive("use", 16)


PROGRAM = """
import os, resource, sys
from tacit.crypto import protect_process
protect_process()
print(resource.getrlimit(resource.RLIMIT_CORE))
print(os.stat("/proc/self/environ").st_uid)
sys.stdout.flush()
os.abort()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what /proc shows is Linux's")
def test_a_party_process_leaves_no_core_dump(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode < 0  # it was aborted
    limit, owner = done.stdout.splitlines()
    assert limit == "(0, 0)"
    assert owner == "0"  # /proc of a process that may not be dumped belongs to root
    assert os.listdir(tmp_path) == []
