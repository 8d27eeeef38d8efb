"""Two parties and a dealer that meet by a party file; who deals, and what its errors say."""

from __future__ import annotations

import logging
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.ports import free_ports
from tests.runtime.party_files import credentials, write_dealt, write_parties

import tacit
from tacit.config import Config
from tacit.errors import (
    CertificateRejected,
    ConfigError,
    ConnectTimeout,
    HandshakeMismatch,
    PartyFailed,
    PeerClosed,
    RevealForbidden,
)
from tacit.runtime.deploy.job import load_job
from tacit.runtime.deploy.member_blocks import snippet
from tacit.runtime.deploy.party_file import read_party_file

MEMBERS = ("alice", "bob", "dora")
FIRST = 'dealer = "insecure-first-party"'


def play(main, path, *, members=MEMBERS, files=None, **options):
    """What main gives, or raises, at each member; `files` and `options` may differ by name."""

    def member(name):
        own = {key: value.get(name) for key, value in options.items()}
        try:
            with tacit.connect((files or {}).get(name, path), party=name, **own) as session:
                return main(session)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(members)) as pool:
        return dict(zip(members, pool.map(member, members), strict=True))


def product(session):
    x = session.share(torch.tensor([1.5, -2.0]), owner="alice")
    y = session.share(torch.tensor([3.0, 4.0]), owner="bob")
    to_bob = session.reveal(x * y, to="bob")
    return session.names, session.parties, session.is_dealer, to_bob, session.reveal(x + y)


def test_two_parties_and_a_dealer_meet(tmp_path):
    found = play(product, write_dealt(tmp_path))
    for name, (names, parties, is_dealer, to_bob, total) in found.items():
        assert (names, parties, is_dealer) == (MEMBERS, 2, name == "dora")
        assert (to_bob is None) == (name != "bob")
        assert total.isnan().all() if is_dealer else total.tolist() == [4.5, 2.0]
    assert torch.allclose(found["bob"][3], torch.tensor([4.5, -8.0]), atol=1e-4)


def test_two_parties_meet_without_a_dealer(tmp_path):
    path = write_dealt(tmp_path, 'dealer = "none"', dealer=None)
    found = play(product, path, members=MEMBERS[:2])
    for names, parties, is_dealer, _, total in found.values():
        assert (names, parties, is_dealer) == (MEMBERS[:2], 2, False)
        assert total.tolist() == [4.5, 2.0]


def test_the_first_party_can_run_the_dealer_and_all_are_told(tmp_path, caplog):
    path = write_dealt(tmp_path, FIRST, dealer=None)
    members = ("alice", "bob", "dealer")
    with caplog.at_level(logging.WARNING, logger="tacit"):
        found = play(product, path, members=members)
    assert found["dealer"][0] == members
    assert found["alice"][4].tolist() == [4.5, 2.0]
    told = [one.message for one in caplog.records if "can open every secret" in one.message]
    assert len(told) == 3
    assert all(text.startswith("alice runs the dealer") for text in told)


def test_nobody_but_the_first_party_can_run_its_dealer(tmp_path):
    """Bob's own file says that he is the dealer's host: the others refuse his key."""
    ports = free_ports(2)
    head = f"{FIRST}\nconnect_deadline = 3.0"
    path = write_dealt(tmp_path, head, ports, dealer=None)
    other = tmp_path / "other"
    other.mkdir()
    theirs = write_dealt(other, head, ports, dealer=None)
    blocks = {n: snippet("x", "h:1", credentials(n).certificate).split("'''")[1] for n in MEMBERS}
    text = theirs.read_text().replace(blocks["alice"], blocks["dora"])
    theirs.write_text(text)
    key = tmp_path / "dora.key"
    key.touch(mode=0o600)
    key.write_bytes(credentials("dora").private_key)
    members = ("alice", "bob", "dealer")
    found = play(product, path, members=members, files={"dealer": theirs}, key={"dealer": key})
    assert isinstance(found.pop("dealer"), CertificateRejected)
    check_missing(found, r"the dealer \(127\.0\.0\.1:\d+\) is not connected")


def check_missing(found, message):
    """One at least timed out, and has told the other if that one had not."""
    assert any(isinstance(error, ConnectTimeout) for error in found.values()), found
    for error in found.values():
        assert isinstance(error, ConnectTimeout | PeerClosed)
        assert error.party == 2
        told = message if isinstance(error, ConnectTimeout) else "the dealer"
        assert re.match(told, str(error)), error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"no block \[\[dealer\]\].*'additive' needs a dealer.*tacit party init NAME --dealer"),
        ('dealer = "own"', r"no block \[\[dealer\]\]"),
        ('dealer = "bob"', r"dealer='bob': allowed are 'own', 'insecure-first-party', 'none'"),
        ("dealer = 5", r"dealer: allowed are one block that begins with \[\[dealer\]\]"),
        ('reveals = ["dora"]', r"reveals=\['dora'\]: allowed is a list of 'alice', 'bob'"),
    ],
)
def test_a_file_without_a_good_dealer_is_refused(tmp_path, text, message):
    dealer = "dora" if "reveals" in text else None
    with pytest.raises(ConfigError, match=message):
        read_party_file(write_dealt(tmp_path, text, dealer=dealer))


def test_blocks_of_dealers_are_checked_like_those_of_parties(tmp_path):
    path = write_dealt(tmp_path, ports=[7000, 7001, 7002])
    text = path.read_text()
    block = text[text.index("[[dealer]]") :]
    for changed, message in [
        (text + block, r"2 blocks \[\[dealer\]\]; 1 is allowed"),
        (text.replace("7002", "7001"), r"bob\) and the dealer \(dora\) have the same address"),
        (text.replace('"dora"', '"alice"'), r"and the dealer \(alice\) have the same name"),
        (text.replace('"dora"', "7"), r"the dealer: name=7"),
        (text.replace(":7002", ""), r"the dealer \(dora\): address='127.0.0.1'"),
        (text.replace('"additive"', '"trio"', 1), r"has 3 parties|no dealer beside its parties"),
    ]:
        path.write_text(changed)
        with pytest.raises(ConfigError, match=message):
            read_party_file(path)
    trio = write_parties(tmp_path)
    trio.write_text(f"{trio.read_text()}\n{block}")
    with pytest.raises(ConfigError, match=r"dealer='own' with protocol='trio'.*leave dealer out"):
        read_party_file(trio)


def test_a_party_cannot_be_called_as_the_dealer(tmp_path):
    path = write_dealt(tmp_path, FIRST, names=("alice", "dealer"), dealer=None)
    with pytest.raises(ConfigError, match="a party is called 'dealer'"):
        read_party_file(path)


# Agreement ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [("head", "fraction_bits = 12"), ("job", "return 5")])
def test_a_dealer_with_other_settings_or_another_program_is_named(tmp_path, other):
    ports = free_ports(3)
    path = write_dealt(tmp_path, ports=ports)
    (tmp_path / "job.py").write_text("def main(session):\n    return 1\n")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    what, text = other
    file = write_dealt(theirs, text if what == "head" else "", ports)
    (theirs / "job.py").write_text(f"def main(session):\n    {text}\n")
    own = theirs if what == "job" else tmp_path
    jobs = {n: load_job((own if n == "dora" else tmp_path) / "job.py") for n in MEMBERS}
    for error in play(product, path, files={"dora": file}, job=jobs).values():
        assert isinstance(error, HandshakeMismatch)
        assert error.party == 2
        assert "the dealer (dora)" in str(error)
        assert "party 2" not in str(error)


def test_a_dealer_that_never_comes_is_named(tmp_path):
    path = write_dealt(tmp_path, "connect_deadline = 2.0")
    found = play(product, path, members=("alice", "bob"))
    check_missing(found, r"the dealer \(dora, 127\.0\.0\.1:\d+\) is not connected")


def test_a_dealer_that_raises_is_named(tmp_path):
    def main(session):
        if session.is_dealer:
            raise LookupError("the cupboard is bare")
        while True:
            product(session)

    found = play(main, write_dealt(tmp_path))
    for name in ("alice", "bob"):
        assert isinstance(found[name], PeerClosed)
        assert "the dealer (dora) ended the run" in str(found[name])
        assert "cupboard" not in str(found[name])


def test_the_policy_keeps_values_from_the_dealer(tmp_path):
    def main(session):
        x = session.share(torch.ones(2), owner="alice")
        session.reveal(x, to="bob", to_dealer=True)

    found = play(main, write_dealt(tmp_path, 'reveals = ["bob"]'))
    assert all(isinstance(error, RevealForbidden) for error in found.values()), found
    assert "reveal to the dealer" in str(found["dora"])  # it hears from nobody before it


def test_what_the_dealer_learns_is_on_record_by_its_name(tmp_path):
    def main(session):
        x = session.share(torch.ones(2), owner="alice")
        return session.reveal(x + x, to_dealer=True).tolist(), session.reveals[0].to

    found = play(main, write_dealt(tmp_path))
    assert list(found.values()) == [([2.0, 2.0], MEMBERS)] * 3


# Settings of a run on one machine -----------------------------------------------------------------


def test_the_setting_belongs_to_protocols_with_a_dealer():
    assert (Config(protocol="additive").dealer, Config(protocol="additive").helpers) == ("own", 1)
    assert (Config().dealer, Config().helpers) == (None, 0)
    assert Config(protocol="additive", dealer="none").helpers == 0
    with pytest.raises(ConfigError, match=r"protocol='trio'.*'additive', 'beaver' have one"):
        Config(dealer="own")
    with pytest.raises(ConfigError, match="'dealer' is no party's name"):
        tacit.run(print, parties=2, protocol="additive", names=("alice", "dealer"))
    with pytest.raises(ConfigError, match="allowed are 'own'"):
        Config(protocol="additive", dealer="somebody")


def test_a_run_on_this_machine_names_the_dealer(caplog):
    def main(session):
        if session.is_dealer:
            raise LookupError("the cupboard is bare")
        session.reveal(session.share(torch.ones(2), owner="bob") ** 2)

    def run(**options):
        with pytest.raises(PartyFailed) as found:
            tacit.run(main, parties=2, protocol="additive", names=("alice", "bob"), **options)
        return found.value

    error = run()
    assert error.headline.startswith("the dealer failed: LookupError: the cupboard is bare")
    assert isinstance(error.__cause__, LookupError)
    assert any("the dealer ended the run" in note for note in error.__notes__)
    assert "can open every secret" not in caplog.text
    run(dealer="insecure-first-party")
    assert caplog.text.count("alice runs the dealer, too") == 3
