"""The enclave process: what it has, what its host sees, and how it ends."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.enclave import enclave_program, host_program
from tests.enclave.memory import copies_in

from tacit.crypto import create_credentials
from tacit.enclave.attestation import Manifest
from tacit.enclave.attestation.request import attest
from tacit.enclave.configuration import EnclaveConfig
from tacit.enclave.edl import Protection
from tacit.enclave.host import launcher
from tacit.enclave.host.launcher import EnclaveProcess
from tacit.errors import AttestationRejected
from tacit.transport import Hello, Identity, Limits, connect, listen

OWNER = create_credentials("owner")
LIMITS = Limits(deadline=20.0, connect_deadline=30.0)
SETTINGS = {"owner": OWNER.certificate.decode(), "threads": "1"}
EXPECTED = EnclaveConfig(
    settings=SETTINGS, program=str(host_program.PROGRAM), function="serve"
).measure()


class Owner:
    """The owner of data: attests the enclave behind an address, and asks it over TLS."""

    def __init__(self, address, expected: Manifest = EXPECTED):
        certificate = attest(tuple(address), expected, allow_simulated=True)
        self.mesh = connect(
            Hello(session=enclave_program.SESSION, rank=1, parties=2),
            listen("127.0.0.1", 0),
            [tuple(address), ("owner", 1)],
            identity=Identity(
                OWNER.certificate, OWNER.private_key, (certificate, OWNER.certificate)
            ),
            limits=LIMITS,
        )

    def ask(self, do, **options):
        self.mesh.exchange_bytes({0: json.dumps({"do": do, **options}).encode()}, [])
        return json.loads(self.mesh.exchange_bytes({}, [0])[0])

    def end(self):
        self.mesh.exchange_bytes({0: b'{"do": "end"}'}, [])
        self.mesh.close()


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A host process with an enclave: what it wrote about itself."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "owner.pem").write_bytes(OWNER.certificate)
    with subprocess.Popen([sys.executable, host_program.__file__, folder]) as process:
        yield _written(folder / "host.json") | {"folder": folder}
        process.kill()


@pytest.fixture(scope="module")
def owner(host):
    owner = Owner(host["address"])
    yield owner
    owner.end()
    end = _written(host["folder"] / "end.json")
    assert end == {"word": "", "trusted": []}, "it ended well, and never imported what is trusted"


def _written(path):
    until = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} was not written"
        time.sleep(0.05)
    return json.loads(path.read_text())


def test_an_enclave_has_one_socket_and_nothing_of_the_hosts(host, owner):
    """What else is open it has opened itself: streams, and what torch reads of the processor."""
    assert Protection.ONE_DESCRIPTOR in Protection(host["granted"])  # at its start
    facts = owner.ask("facts")
    opened = [one for one in facts["descriptors"].values() if not one.startswith("/sys/devices/")]
    assert all(one == "/dev/null" or one.startswith("socket:") for one in opened)
    assert len(facts["descriptors"]["0"]) == len("/dev/null")
    allowed = {"PATH", "LANG", "OMP_NUM_THREADS", "MIMALLOC_PURGE_DELAY", "LC_CTYPE"}
    assert {n for n in facts["environment"] if not n.startswith(("KMP_", "TORCH"))} <= allowed
    assert facts["core"] == [0, 0]
    assert facts["dumpable"] == 0
    assert facts["settings"] == SETTINGS


def test_tacit_is_compiled_from_what_was_measured(owner):
    facts = owner.ask("facts")
    assert facts["caches_written"] == 1
    assert facts["cached"]
    assert all(path.startswith("/nonexistent") for path in facts["cached"])
    assert {facts["own_loader"], facts["later_loader"]} == {"FromSource"}


def test_what_the_system_grants_is_true(host, owner):
    granted = Protection(host["granted"])
    always = Protection.NOT_DUMPABLE | Protection.NO_CORE_DUMP | Protection.ONE_DESCRIPTOR
    assert always in granted
    facts = owner.ask("facts")
    if Protection.OWN_NETWORK_NAMESPACE in granted:
        assert facts["interfaces"] == ["lo"]
        assert owner.ask("reach", host=host["address"][0], port=host["address"][1])
    assert bool(facts["locked_kB"]) is (Protection.LOCKED_MEMORY in granted)
    log = (host["folder"] / "host.log").read_text()
    missing = [one for one in Protection if one not in granted]
    assert ("does not grant" in log) is bool(missing)
    assert all("simulated enclave: " in line for line in log.splitlines())


def test_the_hosts_memory_holds_no_plaintext_and_no_key(host, owner):
    """As a control, the same scan finds both in the enclave."""
    text = secrets.token_bytes(64)
    assert owner.ask("hold", text=text.hex()) == 64
    key = owner.ask("tell_key").encode().splitlines()[1]
    certificate = OWNER.certificate.splitlines()[1]
    plain, hexadecimal, private, control = copies_in(
        host["host"], text, text.hex().encode(), key, certificate
    )
    assert (plain, hexadecimal, private) == (0, 0, 0)
    assert control > 0, "the scan finds what the host does hold"
    if os.geteuid() == 0:
        assert all(copies_in(host["enclave"], text, key))
    else:
        with pytest.raises(PermissionError):
            copies_in(host["enclave"], text)


def test_the_key_of_sealed_memory_is_out_of_reach(host, owner):
    """Also for root, who finds other memory of the enclave."""
    if Protection.SECRET_MEMORY not in Protection(host["granted"]) or os.geteuid():
        pytest.skip("the system grants no secret memory, or the scan needs root")
    key = bytes.fromhex(owner.ask("seal", text="00" * 64))[::-1]
    assert len(set(key)) > 10
    assert copies_in(host["enclave"], key) == [0]


def test_an_owner_that_expects_another_program_refuses(host):
    other = Manifest(dict(EXPECTED.entries) | {"program enclave_program.py": "00" * 32})
    with pytest.raises(AttestationRejected, match=r"differs in program enclave_program\.py"):
        attest(tuple(host["address"]), other, allow_simulated=True)
    with pytest.raises(AttestationRejected, match="allow_simulated=True"):
        attest(tuple(host["address"]), EXPECTED)


def small_config(tmp_path: Path, text: str) -> EnclaveConfig:
    program = tmp_path / "program.py"
    program.write_text(text)
    return EnclaveConfig(settings={}, program=str(program), function="run")


def test_the_end_of_a_program_tells_no_secret(tmp_path):
    text = "def run(context):\n    raise ValueError('the secret is 4711')\n"
    with EnclaveProcess.start(small_config(tmp_path, text)) as enclave:
        assert enclave.wait(60) == "ValueError"


def test_a_file_that_changes_after_it_was_measured_is_refused(tmp_path, monkeypatch):
    config = small_config(tmp_path, "def run(context): pass\n")
    begin = launcher._begin

    def changing(link, config, manifest):
        Path(config.program).write_text("def run(context): 1\n")
        return begin(link, config, manifest)

    monkeypatch.setattr(launcher, "_begin", changing)
    with pytest.raises(
        AttestationRejected, match=r"changed after it was measured: program program\.py"
    ):
        EnclaveProcess.start(config)


SLEEPS = "import time\ndef run(context): time.sleep(600)\n"


def test_a_host_can_stop_an_enclave_and_ask_for_its_counts(tmp_path):
    with EnclaveProcess.start(small_config(tmp_path, SLEEPS)) as enclave:
        assert set(enclave.relay.status().values()) == {0}
        enclave.stop()
        assert enclave._process.returncode == 1


@pytest.mark.full("one more start of a process; stopping is covered above")
def test_an_enclave_ends_with_its_host(tmp_path):
    enclave = EnclaveProcess.start(small_config(tmp_path, SLEEPS))
    enclave.relay.close()
    assert enclave._process.wait(30) == 1
