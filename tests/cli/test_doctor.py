"""`tacit doctor`: what is installed, and what a party file promises."""

import ssl

import pytest
from tests.cli.shell import tacit, tacit_process
from tests.runtime.party_files import NAMES, write_parties

from tacit.config import Config
from tacit.registry import PROTOCOLS
from tacit.runtime.deploy.security import security_summary
from tacit.transport.wire.openssl_session import load_openssl


@pytest.fixture
def party_file(tmp_path):
    return write_parties(tmp_path, 'reveals = ["bob"]')


def found(done):
    return {one["what"]: one for one in done.json["findings"]}


def test_the_installation():
    done = tacit("doctor", "--json")
    assert done.code == 0
    findings = found(done)
    assert {"tacit", "python", "torch", "openssl", "kernels", "randomness"} <= findings.keys()
    assert findings["randomness"]["state"] == "ok"
    assert findings["kernels"]["text"].startswith("compiled, ")
    reachable = load_openssl() is not None
    assert findings["tls"]["state"] == ("ok" if reachable else "missing")
    assert ssl.OPENSSL_VERSION in findings["tls"]["text"]
    assert "the enclave is simulated" in findings["enclave"]["text"]
    assert done.json["security"] == {}


def test_kernels_that_are_not_used_are_told():
    kernels = found(tacit_process("doctor", "--json", TACIT_KERNELS="reference"))["kernels"]
    assert kernels["state"] == "missing"
    assert "TACIT_KERNELS" in kernels["text"]
    done = tacit_process("doctor", TACIT_KERNELS="nonsense")
    assert done.code == 2
    assert done.err.startswith("error: TACIT_KERNELS='nonsense'")


def test_plain_lines_without_a_terminal():
    done = tacit("doctor")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "┃" not in done.out
    assert any(line.split()[:2] == ["randomness", "ok"] for line in done.out.splitlines())


def test_the_security_of_a_party_file(party_file):
    done = tacit("doctor", "--parties", party_file)
    assert done.code == 0
    assert "alice with bob, alice with carol, bob with carol" in done.out
    assert "bob: what it gave, and what the program reveals to it" in done.out
    assert "alice: what it gave, and nothing else" in done.out
    assert "TLS 1.3 only" in done.out
    assert "semi-honest" in done.out
    assert done.out.count("certificate valid until") == 3


def test_a_party_file_with_a_mistake(party_file):
    party_file.write_text(party_file.read_text() + 'colour = "blue"\n')
    done = tacit("doctor", "--parties", party_file, "--json")
    assert done.code == 2
    assert done.json["kind"] == "ConfigError"
    assert done.json["exit_code"] == 2
    assert "'colour'" in done.json["error"]
    assert "Traceback" not in done.err
    assert "Traceback" in tacit("doctor", "--parties", party_file, "--debug").err


def test_promises_come_from_the_protocols():
    guarantees = {name: info.guarantees for name, info in PROTOCOLS.items()}
    assert guarantees["trio"].colluding == guarantees["replicated"].colluding == 1
    assert not guarantees["trio"].detects
    assert not guarantees["cleartext"].private
    assert not guarantees["none"].private


def test_cleartext_hides_nothing():
    said = security_summary(Config(protocol="cleartext"), NAMES)
    assert said["each party learns"] == [f"{name}: every value" for name in NAMES]
    assert "hides nothing" in said["collusion"][0]
    assert "one machine" in said["channels"][0]
