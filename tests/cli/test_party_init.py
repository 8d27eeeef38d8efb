"""`tacit party init`: key, certificate, and the block for the party file."""

import stat
import tomllib
from datetime import UTC, datetime

import pytest
from tests.cli.shell import in_terminal, tacit

from tacit.crypto import public_key_fingerprint, read_key_file, valid_until
from tacit.errors import ConfigError
from tacit.runtime.deploy.party_file import read_party_file

ADDRESS = ("--address", "10.0.0.1:7000")


def test_key_certificate_and_block(tmp_path):
    done = tacit("party", "init", "alice", *ADDRESS, "--folder", tmp_path / "mine")
    assert done.code == 0, done.err
    key, certificate = tmp_path / "mine" / "alice.key", tmp_path / "mine" / "alice.crt"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert read_key_file(key, certificate.read_bytes())
    assert public_key_fingerprint(certificate.read_bytes()) in done.out
    [block] = tomllib.loads(done.out)["party"]
    assert (block["name"], block["address"]) == ("alice", "10.0.0.1:7000")
    assert key.read_text().splitlines()[1] not in done.out + done.err


def test_blocks_of_all_make_a_party_file(tmp_path):
    texts = []
    for i, name in enumerate(("alice", "bob", "carol")):
        address = f"127.0.0.1:{7000 + i}"
        done = tacit("party", "init", name, "--address", address, cwd=tmp_path)
        texts.append(done.out)
    path = tmp_path / "parties.toml"
    path.write_text("".join(texts))
    assert read_party_file(path).names == ("alice", "bob", "carol")


def test_nothing_is_overwritten(tmp_path):
    assert tacit("party", "init", "alice", *ADDRESS, cwd=tmp_path).code == 0
    before = (tmp_path / "alice.key").read_bytes()
    done = tacit("party", "init", "alice", *ADDRESS, cwd=tmp_path)
    assert done.code == 2
    assert "alice.key is there already" in done.err
    assert (tmp_path / "alice.key").read_bytes() == before
    (tmp_path / "alice.key").unlink()
    assert tacit("party", "init", "alice", *ADDRESS, cwd=tmp_path).code == 2
    assert not (tmp_path / "alice.key").exists()


def test_a_passphrase_from_the_environment(tmp_path):
    options = ("--passphrase", "--days", "30", "--json")
    done = tacit(
        "party", "init", "alice", *ADDRESS, *options, cwd=tmp_path, TACIT_PASSPHRASE="correct horse"
    )
    assert done.code == 0
    assert "correct horse" not in done.out + done.err
    certificate = (tmp_path / done.json["certificate"]).read_bytes()
    key = tmp_path / done.json["key"]
    assert read_key_file(key, certificate, "correct horse")
    with pytest.raises(ConfigError, match="passphrase"):
        read_key_file(key, certificate, "wrong horse")
    days = (valid_until(certificate) - datetime.now(UTC)).days
    assert 28 <= days <= 30


def test_a_passphrase_that_is_typed_twice(tmp_path):
    answers = {"new key: ": "battery\n", "confirmation: ": "battery\n"}
    options = (*ADDRESS, "--passphrase")
    code, seen = in_terminal("party", "init", "alice", *options, cwd=tmp_path, answers=answers)
    assert code == 0, seen
    certificate = (tmp_path / "alice.crt").read_bytes()
    assert read_key_file(tmp_path / "alice.key", certificate, "battery")
    assert "battery" not in seen


def test_no_terminal_to_ask_for_a_passphrase(tmp_path):
    done = tacit("party", "init", "alice", *ADDRESS, "--passphrase", cwd=tmp_path)
    assert done.code == 2
    assert "TACIT_PASSPHRASE" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a/b", *ADDRESS), "name='a/b'"),
        (("alice", "--address", "nowhere"), "address='nowhere'"),
        (("alice", *ADDRESS, "--folder", "/proc/none"), "cannot be written"),
    ],
)
def test_what_is_refused(tmp_path, arguments, message):
    done = tacit("party", "init", *arguments, cwd=tmp_path)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []
