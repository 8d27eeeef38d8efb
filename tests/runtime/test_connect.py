"""Parties that meet by a party file, over TLS on this machine, in threads of one process."""

from __future__ import annotations

import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.ports import free_ports
from tests.runtime.party_files import NAMES, credentials, write_key, write_parties

import tacit
from tacit.errors import (
    CertificateRejected,
    ConfigError,
    ConnectError,
    ConnectTimeout,
    HandshakeMismatch,
    PeerClosed,
    RevealForbidden,
)
from tacit.runtime.deploy.job import load_job


def play(main, path, *, delay=None, files=None, **options):
    """What main gives, or raises, at each party; `files` and `options` may differ by name."""

    def party(name):
        time.sleep((delay or {}).get(name, 0.0))
        own = {key: value.get(name) for key, value in options.items()}
        try:
            with tacit.connect((files or {}).get(name, path), party=name, **own) as session:
                return main(session)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(NAMES)) as pool:
        return dict(zip(NAMES, pool.map(party, NAMES), strict=True))


def double(session):
    x = session.share(torch.tensor([1.5, -2.0]), owner="bob")
    return session.name, session.rank, session.reveal(x + x, to="carol")


def test_three_parties_compute_by_name(tmp_path):
    found = play(double, write_parties(tmp_path))
    assert [found[name][:2] for name in NAMES] == [("alice", 0), ("bob", 1), ("carol", 2)]
    assert found["alice"][2] is None
    assert found["bob"][2] is None
    assert torch.equal(found["carol"][2], torch.tensor([3.0, -4.0]))


@pytest.mark.parametrize("late", NAMES)
def test_the_order_of_starts_does_not_matter(tmp_path, late):
    found = play(double, write_parties(tmp_path), delay={late: 0.3})
    assert torch.equal(found["carol"][2], torch.tensor([3.0, -4.0]))


def drawn(session):
    groups = [(0, 1), (0, 2), (1, 2), (0, 1, 2), (session.rank,)]
    return {g: session.keys.key(g).derive("test", 16) for g in groups if session.rank in g}


def test_keys_are_fresh_in_every_session(tmp_path):
    path = write_parties(tmp_path)
    first, second = play(drawn, path), play(drawn, path)
    assert first["alice"][0, 1, 2] == first["bob"][0, 1, 2] == first["carol"][0, 1, 2]
    for name in NAMES:
        assert first[name].keys() == second[name].keys()
        assert not set(first[name].values()) & set(second[name].values())


def test_a_party_that_never_comes_is_named(tmp_path):
    path = write_parties(tmp_path, "connect_deadline = 1.0")
    with pytest.raises(ConnectTimeout, match=r"party 0 \(alice, 127\.0\.0\.1:\d+\)") as found:
        tacit.connect(path, party="bob")
    assert found.value.party == 0


def test_a_stranger_is_refused(tmp_path):
    """Carol's certificate was replaced in her own file; the others know the old one."""
    ports = free_ports(3)
    path = write_parties(tmp_path, "connect_deadline = 3.0", ports)
    other = tmp_path / "other"
    other.mkdir()
    theirs = write_parties(other, "connect_deadline = 3.0", ports)
    text = theirs.read_text()
    old, new = (block_of(credentials(name)) for name in ("carol", "mallory"))
    theirs.write_text(text.replace(old, new))
    write_key(other, "carol", credentials("mallory").private_key)
    found = play(double, path, files={"carol": theirs})
    assert isinstance(found["carol"], CertificateRejected)
    assert re.match(r"party [01] \((alice|bob).*does not accept", str(found["carol"]))
    assert isinstance(found["alice"], ConnectTimeout)
    assert "party 2 (carol" in str(found["alice"])


def block_of(made):
    from tacit.runtime.deploy.member_blocks import snippet

    return snippet("x", "h:1", made.certificate).split("'''")[1]


def test_the_key_file_is_found_read_and_checked(tmp_path):
    path = write_parties(tmp_path)
    (tmp_path / "alice.key").chmod(0o644)
    with pytest.raises(ConfigError, match=r"alice\.key.*chmod 600"):
        tacit.connect(path, party="alice")
    with pytest.raises(ConfigError, match="not a pair"):
        tacit.connect(path, party="alice", key=tmp_path / "bob.key")
    with pytest.raises(ConfigError, match=r"party='dave': the party file has alice, bob, carol"):
        tacit.connect(path, party="dave")


def test_a_port_that_is_taken_or_foreign_is_told(tmp_path):
    path = write_parties(tmp_path)
    with pytest.raises(ConnectError, match=r"192\.0\.2\.1 cannot be used.*listen="):
        tacit.connect(path, party="alice", listen="192.0.2.1:7000")


def test_a_party_may_listen_elsewhere(tmp_path):
    ports = free_ports(3)
    path = write_parties(tmp_path, ports=ports)
    found = play(double, path, listen={"alice": f"0.0.0.0:{ports[0]}"})
    assert torch.equal(found["carol"][2], torch.tensor([3.0, -4.0]))


# Agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "field", "told"),
    [
        ("fraction_bits = 12", "fraction_bits of the party file", "'16' at party 0 (alice)"),
        ('protocol = "replicated"', "protocol of the party file", "'\"replicated\"' at party 1"),
        ('reveals = ["alice"]', "the reveal policy", "'[0]' at party 1 (bob)"),
        ("deadline = 29", "deadline of the party file", "'29.0' at party 1 (bob)"),
    ],
)
def test_party_files_that_differ_are_told_everywhere(tmp_path, head, field, told):
    ports = free_ports(3)
    path = write_parties(tmp_path, ports=ports)
    other = tmp_path / "other"
    other.mkdir()
    found = play(double, path, files={"bob": write_parties(other, head, ports)})
    for error in found.values():
        assert isinstance(error, HandshakeMismatch)
        assert (error.field, error.party) == (field, 1)
        assert told in str(error)


def test_programs_and_arguments_that_differ_are_told_everywhere(tmp_path):
    path = write_parties(tmp_path)
    (tmp_path / "job.py").write_text("def main(session, *words):\n    return words\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "job.py").write_text("def main(session, *words):\n    return 5\n")
    (tmp_path / "named.py").write_text("def main(session, *words):\n    return words\n")
    jobs = dict.fromkeys(NAMES, load_job(tmp_path / "job.py", ["a"]))

    def run(**changed):
        return play(lambda session: jobs["alice"].main(session), path, job={**jobs, **changed})

    assert run() == dict.fromkeys(NAMES, ("a",))
    for changed, field in [
        (load_job(other / "job.py", ["a"]), "file job.py of the program, line 2"),
        (load_job(tmp_path / "named.py", ["a"]), "the program"),
        (load_job(tmp_path / "job.py", ["b"]), "the arguments"),
        (None, "the program"),
    ]:
        for error in run(carol=changed).values():
            assert isinstance(error, HandshakeMismatch)
            assert (error.field, error.party) == (field, 2)
            assert "party 0 (alice)" in str(error)
            assert "party 2 (carol)" in str(error)


def test_the_keys_of_a_session_are_wiped_at_its_end(tmp_path):
    kept = {}

    def main(session):
        kept[session.name] = [session.keys.key(group) for group in session.keys.groups]
        return all(any(key._secret) for key in kept[session.name])

    assert play(main, write_parties(tmp_path)) == dict.fromkeys(NAMES, True)
    assert not any(any(key._secret) for name in NAMES for key in kept[name])


def test_versions_that_differ_are_told(tmp_path, monkeypatch):
    path = write_parties(tmp_path)
    versions = iter(["0.1.0", "0.1.0", "9.9.9"])
    module = sys.modules["tacit.runtime.deploy.network_session"]
    items = module.agreed_items

    def drawn(*args, **kwargs):
        return {**items(*args, **kwargs), "the version of tacit": next(versions)}

    monkeypatch.setattr(module, "agreed_items", drawn)
    for error in play(double, path).values():
        assert isinstance(error, HandshakeMismatch)
        assert error.field == "the version of tacit"
        assert "'9.9.9' at party" in str(error)


# The policy, over the network -------------------------------------------------------------------


def reveal_to_all(session):
    x = session.share(torch.ones(2), owner="alice")
    before = session.stats.messages
    try:
        session.reveal(x)
    finally:
        assert session.stats.messages == before
        assert session.reveals == []


def test_a_reveal_outside_the_policy_is_refused_everywhere(tmp_path):
    found = play(reveal_to_all, write_parties(tmp_path, 'reveals = ["bob"]'))
    for error in found.values():
        assert isinstance(error, RevealForbidden)


def test_the_record_of_reveals_is_written(tmp_path):
    path = write_parties(tmp_path, 'reveals = ["carol"]')
    folders = {name: tmp_path / "runs" / name for name in NAMES}
    play(double, path, folder=folders)
    for folder in folders.values():
        [line] = (folder / "reveals.jsonl").read_text().splitlines()
        entry = json.loads(line)
        assert (entry["number"], entry["shape"], entry["dtype"]) == (1, [2], "float32")
        assert entry["to"] == ["carol"]
        assert "test_connect.py" in entry["where"]
        assert entry["where"].endswith("in double")


# Ends -------------------------------------------------------------------------------------------


def fail_at_bob(session):
    if session.name == "bob":
        raise LookupError("the cupboard is bare")
    while True:
        double(session)


def test_an_error_at_one_party_ends_all_and_names_it(tmp_path):
    found = play(fail_at_bob, write_parties(tmp_path))
    assert isinstance(found["bob"], LookupError)
    for name in ("alice", "carol"):
        assert isinstance(found[name], PeerClosed)
        assert "party 1 (bob) ended the run" in str(found[name])
        assert "cupboard" not in str(found[name])


def test_a_session_can_be_closed_without_a_block(tmp_path):
    path = write_parties(tmp_path)

    def party(name):
        session = tacit.connect(path, party=name)
        made = double(session)
        session.close()
        with pytest.raises(PeerClosed, match="is closed"):
            double(session)
        return made

    with ThreadPoolExecutor(len(NAMES)) as pool:
        assert [made[0] for made in pool.map(party, NAMES)] == list(NAMES)
