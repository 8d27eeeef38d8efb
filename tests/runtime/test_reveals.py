"""Every opening is on record, and one outside the policy opens nothing at any party."""

from __future__ import annotations

import json
from threading import Event, Thread

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import ConfigError, PartyFailed, RevealForbidden
from tacit.protocols.reveals import RevealPolicy
from tacit.transport.consensus import all_gather

NAMES = ("alice", "bob", "carol")


def opens(session):
    """What a program may open: a tensor, a nest, a module, a value, a share."""
    x = session.share(torch.tensor([[1.0, -2.0]]), owner=0)
    model = session.share(nn.Linear(2, 3), owner=1)
    session.reveal(x, to="bob")
    session.reveal({"a": x, "b": [x > 0]})
    session.reveal(model, to=2)
    session.numbers.reveal(x.value, 0)
    session.protocol.reveal(x.value.share, 1)
    return list(session.reveals)


@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_everything_that_is_opened_is_on_record(protocol):
    everybody = tacit.run(opens, names=NAMES, protocol=protocol)
    assert everybody[0] == everybody[1] == everybody[2]
    record = everybody[0]
    assert [entry.number for entry in record] == list(range(1, 8))
    assert [(entry.shape, entry.dtype, entry.to) for entry in record] == [
        ((1, 2), "float32", ("bob",)),
        ((1, 2), "float32", NAMES),
        ((1, 2), "bool", NAMES),
        ((3, 2), "float32", ("carol",)),
        ((3,), "float32", ("carol",)),
        ((1, 2), "float32", ("alice",)),
        ((1, 2), "int64", ("bob",)),
    ]
    operations = [entry.operation for entry in record]
    assert operations == sorted(operations)
    lines = [int(entry.where.split(":")[-1].split(" ")[0]) for entry in record]
    first = opens.__code__.co_firstlineno + 4
    assert lines == [first, first + 1, first + 1, first + 2, first + 2, first + 3, first + 4]
    assert all(entry.where.endswith(" in opens") for entry in record)
    assert all(entry.where.startswith(__file__) for entry in record)


def refusals(session):
    """What each way out does that the policy forbids: the error, and what was sent on the way."""
    x = session.share(torch.tensor([1.0, -2.0]), owner=0)
    model = session.share(nn.Linear(2, 3), owner=1)
    product = x * x  # which is computed when it is needed
    ways = {
        "all": lambda: session.reveal(x),
        "to": lambda: session.reveal(x, to="alice"),
        "list": lambda: session.reveal([x, x], to=2),
        "product": lambda: session.reveal(product),
        "module": lambda: session.reveal(model),
        "nest of modules": lambda: session.reveal([model, x], to=0),
        "value": lambda: session.numbers.reveal(x.value),
        "share": lambda: session.protocol.reveal(x.value.share),
    }
    if hasattr(session.protocol, "for_client"):
        ways["client"] = lambda: session.protocol.for_client(x.value.share)
    found = {}
    for name, way in ways.items():
        before = session.stats.messages, session.stats.bytes_received
        with pytest.raises(RevealForbidden) as error:
            way()
        assert (session.stats.messages, session.stats.bytes_received) == before, name
        found[name] = str(error.value)
    assert session.reveals == []
    allowed = session.reveal(x, to="bob")
    return found, allowed, len(session.reveals)


@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_a_reveal_outside_the_policy_opens_and_sends_nothing(protocol):
    everybody = tacit.run(refusals, names=NAMES, protocol=protocol, reveals=["bob"])
    for rank, (found, allowed, count) in enumerate(everybody):
        assert "reveal to all parties at " in found["all"]
        assert "reveal to party 0 (alice) at " in found["to"]
        assert "the reveal policy lets party 1 (bob) learn anything" in found["module"]
        assert "test_reveals.py:" in found["share"]
        assert count == 1
        assert (allowed is not None) == (rank == 1)


def open_nothing(session):
    x = session.share(torch.ones(2), owner=0)
    for to in (None, 0, 1, 2):
        with pytest.raises(RevealForbidden, match="lets nobody learn anything"):
            session.reveal(x, to=to)


def test_a_policy_may_let_nobody_learn_anything():
    tacit.run(open_nothing, reveals=[])


def open_too_early(session, errors, ended):
    """Party 0 comes to a reveal that it may not make while the others still compute."""
    try:
        all_gather(session.mesh, b"all are here")
        x = session.share(torch.ones(2), owner=0)
        if session.rank == 1:
            ended[2].wait()
        if session.rank:
            peer = 3 - session.rank
            session.mesh.exchange_bytes({peer: b"word"}, [peer])
        session.reveal(x)
    except BaseException as error:
        errors[session.rank] = error
        ended[session.rank].set()
        raise


def test_it_is_the_same_error_at_a_party_that_is_not_there_yet():
    errors, ended = {}, [Event() for _ in range(3)]
    with pytest.raises(PartyFailed, match="party 0 failed: RevealForbidden: reveal to all"):
        tacit.run(open_too_early, errors, ended, reveals=[1])
    assert {rank: type(error) for rank, error in errors.items()} == dict.fromkeys(
        range(3), RevealForbidden
    )
    assert "party 0 ended the run" in str(errors[2])


def test_the_record_is_a_file_in_the_folder(tmp_path):
    everybody = tacit.run(opens, names=NAMES, folder=tmp_path)
    for name, record in zip(NAMES, everybody, strict=True):
        lines = (tmp_path / name / "reveals.jsonl").read_text().splitlines()
        assert [json.loads(line)["where"] for line in lines] == [entry.where for entry in record]
        assert json.loads(lines[0])["to"] == ["bob"]
        assert (tmp_path / name).stat().st_mode & 0o077 == 0  # nobody else's


def open_without_record(session):
    x = session.share(torch.ones(2), owner=0)
    before = session.stats.messages
    with pytest.raises(ConfigError, match=r"reveals\.jsonl cannot be written .*nothing was opened"):
        session.reveal(x)
    assert session.stats.messages == before
    assert session.reveals == []


def test_what_cannot_be_recorded_is_not_opened(tmp_path):
    (tmp_path / "folder").write_text("in the way")
    tacit.run(open_without_record, folder=tmp_path / "folder")


def parties_by_name(session):
    assert session.name == session.names[session.rank]
    assert [session.rank_of(name) for name in session.names] == [0, 1, 2]
    x = session.share(torch.ones(1), owner=session.names[2])
    with pytest.raises(ConfigError, match="to='dave': allowed are"):
        session.reveal(x, to="dave")
    with pytest.raises(ConfigError, match="owner=True"):
        session.share(torch.ones(1), owner=True)
    return session.names


def test_parties_have_names():
    assert tacit.run(parties_by_name)[0] == ("party0", "party1", "party2")
    assert tacit.run(parties_by_name, names=NAMES)[0] == NAMES


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"names": ["a", "b"]}, "names="),
        ({"names": ["a", "b", "b"]}, "names="),
        ({"reveals": ["dave"]}, "reveals="),
        ({"reveals": [3]}, "the parties are 0 to 2"),
        ({"reveals": [1, 1]}, "different ranks"),
        ({"reveals": [-1]}, "different ranks"),
        ({"reveals": [0.0]}, "different ranks"),
    ],
)
def test_bad_names_and_policies_are_refused(bad, message):
    with pytest.raises(ConfigError, match=message):
        tacit.run(opens, **bad)


def test_the_policy_is_part_of_the_settings():
    from tacit.config import Config

    policies = [None, (), (0,), (0, 1), (1,)]
    assert len({Config(reveals=policy) for policy in policies}) == len(policies)
    assert Config(reveals=(1, 0)) == Config(reveals=(0, 1))


def test_a_reveal_of_another_lane_is_not_one_of_a_guard():
    """Lanes take turns while a guard waits. With a budget, only the reveals of a guard are free."""
    policy = RevealPolicy(["a", "b", "c"])
    with policy.guarding():
        policy.admit(0, (), "bool", None)
        lane = Thread(target=policy.admit, args=(1, (), "float32", None))
        lane.start()
        lane.join()
    policy.admit(2, (), "float32", None)
    assert [one.purpose for one in policy.record] == ["guard", "program", "program"]
