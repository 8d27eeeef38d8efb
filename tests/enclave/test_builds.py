"""An owner may trust builds of Tacit for other machines; what a host says of itself counts not."""

from __future__ import annotations

import shutil
import socket
import struct
import threading
from contextlib import contextmanager

import pytest
from tests.enclave.test_attestation import CERTIFICATE, check, quote_of
from tests.runtime.party_files import write_enclave, write_parties

import tacit
from tacit.enclave.attestation import Manifest, measure, report_data, simulated
from tacit.enclave.attestation.builds import measure_build, read_build
from tacit.enclave.attestation.measurement import FOLDERS
from tacit.enclave.attestation.quote import NONCE_BYTES
from tacit.enclave.attestation.request import AttestedKey
from tacit.enclave.first_line import QUOTE
from tacit.errors import AttestationRejected, ConfigError
from tacit.runtime.deploy import network_session
from tacit.runtime.deploy.enclave_job import attested, enclave_task
from tacit.runtime.deploy.job import load_job
from tacit.runtime.deploy.party_file import read_party_file

SETTINGS = {"budget": "90000000"}
NATIVE = next(path for folder in FOLDERS for path in folder.rglob("native_*.so"))
KERNELS = f"file tacit/kernels/{NATIVE.name}"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of Tacit whose compiled kernels are of another machine."""
    copy = tmp_path_factory.mktemp("other") / "tacit"
    for folder in FOLDERS:
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, copy, ignore=without, dirs_exist_ok=True)
    [compiled] = copy.rglob(NATIVE.name)
    compiled.rename(compiled.with_name("native_other.so"))
    return copy


@pytest.fixture(scope="module")
def build(package):
    entries = dict(measure({}, folders=[package]).entries)
    return Manifest(entries | {"version machine": "Linux other", "version openssl": "other"})


def written(build, folder):
    path = folder / "other.build"
    path.write_bytes(build.encode())
    return path


def test_a_build_is_what_is_installed(tmp_path):
    build = measure_build()
    assert read_build(written(build, tmp_path)) == build
    assert KERNELS in build.entries
    assert all(name.startswith(("file tacit/", "version ")) for name in build.entries)


def test_a_build_that_the_owner_trusts_is_accepted(build, tmp_path):
    expected = measure(SETTINGS)
    quote = quote_of(expected.with_build(build))
    with pytest.raises(AttestationRejected, match=r"native_other\.so \(not expected\)"):
        check(quote, expected)
    check(quote, expected, builds=[read_build(written(build, tmp_path))])
    check(quote_of(expected), expected, builds=[build])  # that of the owner still is


@pytest.mark.parametrize("name", ["setting budget", "version torch", "file tacit/config.py"])
def test_all_else_must_be_as_expected_and_is_named(build, name):
    """Also if it is only in one of the builds, with the files of the other."""
    expected = measure(SETTINGS)
    measured = expected.with_build(build)
    changed = Manifest({**measured.entries, name: "changed"})
    with pytest.raises(AttestationRejected, match="it differs in") as caught:
        check(quote_of(changed), expected, builds=[build])
    assert caught.value.field == name
    mixed = Manifest({**measured.entries, KERNELS: expected.entries[KERNELS]})
    with pytest.raises(AttestationRejected, match="not expected"):
        check(quote_of(mixed), expected, builds=[build])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"file tacit/config.py": "00"}, "a build of other sources: 'file tacit/config.py'"),
        ({"file tacit/added.py": "00"}, "a build of other sources: 'file tacit/added.py'"),
        ({"setting budget": "1"}, "it has 'setting budget', which is no file and no version"),
        ({"program job.py": "00"}, "it has 'program job.py'"),
        ({"module json": "00"}, "it has 'module json'"),
    ],
    ids=str,
)
def test_a_build_names_compiled_files_and_versions_alone(build, tmp_path, change, told):
    path = written(Manifest({**build.entries, **change}), tmp_path)
    with pytest.raises(ConfigError, match=told):
        read_build(path)


def test_what_is_no_build_is_refused(build, tmp_path):
    for content in (b"", b"[]", b'{"a":1}', build.encode() + b"\n", b"{" * (1 << 21)):
        path = tmp_path / "broken"
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="is no build"):
            read_build(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_build(tmp_path / "absent")
    less = {name: value for name, value in build.entries.items() if name != "file tacit/config.py"}
    with pytest.raises(ConfigError, match="other sources"):
        read_build(written(Manifest(less), tmp_path))


# A host of another machine -----------------------------------------------------------------------


@contextmanager
def host(address, manifest):
    """A host whose enclave has this manifest: it answers one request for a quote."""

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked = connection.recv(len(QUOTE) + NONCE_BYTES, socket.MSG_WAITALL)
            bound = report_data(CERTIFICATE, asked[len(QUOTE) :])
            made = AttestedKey(CERTIFICATE, simulated.make_quote(manifest, bound)).encode()
            connection.sendall(struct.pack("<I", len(made)) + made)

    with socket.create_server(address) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        yield
        thread.join(30)


def test_an_owner_accepts_the_host_of_another_machine(build, tmp_path):
    """If it trusts the build, with its own job and its own party file."""
    file = read_party_file(write_enclave(tmp_path, 'outsourcing = "none"\n'))
    (tmp_path / "job.py").write_text("def main(session): ...\n")
    job = load_job(tmp_path / "job.py", [])
    options = {"resume": False, "allow_simulated": True}
    expected = enclave_task(file, job, **options).configuration(0).measure()
    address = file.enclaves[0].host, file.enclaves[0].port
    with host(address, expected.with_build(build)):
        found = attested(file, job, builds=[build], **options)
    assert found.members[-1].certificate == CERTIFICATE
    with (
        host(address, expected.with_build(build)),
        pytest.raises(AttestationRejected, match=r"native_other\.so"),
    ):
        attested(file, job, **options)
    other = {**expected.with_build(build).entries, "setting config": "{}"}
    with (
        host(address, Manifest(other)),
        pytest.raises(AttestationRejected, match="differs in setting config"),
    ):
        attested(file, job, builds=[build], **options)


def test_builds_are_read_before_anything_is_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(network_session, "attested", lambda *args, **options: pytest.fail("asked"))
    path = write_enclave(tmp_path, 'outsourcing = "none"\n')
    with pytest.raises(ConfigError, match="absent cannot be read"):
        tacit.connect(path, party="alice", trusted_builds=[tmp_path / "absent"])


def test_builds_are_for_enclaves(tmp_path, build):
    with pytest.raises(ConfigError, match="the party file has no enclave"):
        tacit.connect(
            write_parties(tmp_path), party="alice", trusted_builds=[written(build, tmp_path)]
        )
