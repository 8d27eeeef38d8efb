"""Keys in memory: overwritten at the end of a session, and in no core dump."""

import ctypes
import os
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tacit.crypto import Key, create_credentials, key_file, read_key_file, sealing
from tacit.crypto.contributions import GroupSecret
from tacit.crypto.key_memory import address_of, lock, wipe
from tacit.errors import PeerClosed


def test_a_wiped_secret_is_zeros_and_its_key_is_of_no_use():
    for kind in (bytearray, bytes):
        secret = lock(kind(range(1, 24)))
        assert secret == bytes(range(1, 24))
        wipe(secret)
        assert secret == bytes(23)
        assert ctypes.string_at(address_of(secret), 23) == bytes(23)
    wipe(lock(b""), lock(b"k"))
    assert bytes([107]) == b"k"  # Python has one object for each byte
    key = Key(b"k" * 32, (0, 1))
    assert len(key.derive("use", 16)) == 16
    key.wipe()
    assert not any(key._secret)
    with pytest.raises(PeerClosed, match="the session is closed"):
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


def test_what_a_group_key_is_made_of_is_wiped():
    [secret] = [GroupSecret((0,), rank=0, session=b"s")]
    parts = [secret._opening, *secret._values.values()]
    assert all(any(part) for part in parts)
    assert any(secret.key()._secret)
    assert not any(any(part) for part in parts)


def test_what_a_sealed_key_is_opened_with_is_wiped(tmp_path, monkeypatch):
    wiped = []

    def note(*secrets):
        wiped.extend(bytes(bytearray(secret)) for secret in secrets)
        wipe(*secrets)

    for module in (key_file, sealing):
        monkeypatch.setattr(module, "wipe", note)
    monkeypatch.setattr(key_file, "SCRYPT", {"n": 2, "r": 1, "p": 1})
    made = create_credentials("alice", passphrase="correct horse")
    path = tmp_path / "alice.key"
    path.write_bytes(made.private_key)
    path.chmod(0o600)
    wiped.clear()
    opened = load_pem_private_key(read_key_file(path, made.certificate, "correct horse"), None)
    assert {b"correct horse", opened.private_bytes_raw(), made.private_key} <= set(wiped)
