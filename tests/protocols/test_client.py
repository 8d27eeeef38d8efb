"""Clients outside: their inputs arrive, and only they learn their results."""

import pytest
import torch

import tacit
from tacit.errors import ConfigError
from tacit.protocols.clients import join_output, split_input

VALUES = [0, 1, -1, 5, -(2**31), 2**31 - 1]


def double(session, messages):
    p = session.protocol
    x = p.from_client(messages[session.rank])
    return p.for_client(p.add(x, x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_client_gives_and_gets(dtype):
    value = torch.tensor(VALUES, dtype=dtype)
    bits = torch.iinfo(dtype).bits
    answers = tacit.run(double, split_input(value), ring=bits, fraction_bits=8)
    assert torch.equal(join_output(answers), value + value)


def multiply(session, messages):
    p = session.protocol
    x = p.from_client(messages[session.rank], limit=2**31)
    y = p.mul(x, x, shift=4)
    return p.for_client(y)


def test_a_pending_result_is_divided_before_it_leaves():
    value = torch.tensor([3, -100, 4096])
    got = join_output(tacit.run(multiply, split_input(value)))
    assert set((got - (value * value >> 4)).tolist()) <= {0, 1}


def count(session, messages):
    p = session.protocol
    with session.stats.scope("client") as cost:
        p.for_client(p.from_client(messages[session.rank]))
    return cost.messages, cost.rounds


def test_clients_cost_the_parties_no_message():
    assert tacit.run(count, split_input(torch.arange(9))) == [(0, 0)] * 3


def take_anothers(session, messages):
    session.protocol.from_client(messages[(session.rank + 1) % 3])


def test_a_message_for_another_party_is_refused():
    with pytest.raises(tacit.errors.PartyFailed, match="not the message for party"):
        tacit.run(take_anothers, split_input(torch.arange(4)))


def test_a_message_of_another_ring_is_refused():
    with pytest.raises(tacit.errors.PartyFailed, match="64 bits: the ring has 32"):
        tacit.run(double, split_input(torch.arange(4)), ring=32, fraction_bits=8)


def test_messages_show_nothing():
    for message in split_input(torch.tensor([12345678901])):
        assert "12345678901" not in repr(message)
        assert "seed" not in repr(message)


def test_no_two_inputs_share_a_mask():
    value = torch.zeros(1000, dtype=torch.int64)
    first, second = split_input(value)[1].masked, split_input(value)[1].masked
    assert (first == second).sum() == 0


def test_a_missing_answer_is_named():
    with pytest.raises(ConfigError, match="party 0 and party 1"):
        join_output([torch.zeros(3), None, None])
