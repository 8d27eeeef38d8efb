"""Base transfers: the right keys, keys of the right group, and messages that tell nothing."""

from __future__ import annotations

import secrets

import pytest
from tests.crypto.test_keys import x25519

from tacit.crypto import BaseReceiver, BaseSender, base_ot
from tacit.crypto.base_ot import PRIME, is_on_curve
from tacit.errors import CheatingDetected, ProtocolError

SESSION = bytes(range(16))
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the subgroup, RFC 7748, 4.1


def transfer(choices, session=SESSION, other=None):
    """Both sides' keys; `other` is the session that the receiver believes in."""
    receiver = BaseReceiver(choices, session=other or session, sender=1)
    sender = BaseSender(len(choices), session=session, receiver=0)
    return sender.keys(receiver.message), receiver.keys(sender.message)


def points(message: bytes) -> list[bytes]:
    return [message[i : i + 32] for i in range(0, len(message), 32)]


def multiplied(scalar: int, u: int) -> int:
    """scalar times the point u by the ladder, without clamping; 0 stands for the neutral point."""
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in reversed(range(scalar.bit_length())):
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        x3, z3 = (d * a + c * b) ** 2 % PRIME, u * (d * a - c * b) ** 2 % PRIME
        e = a * a - b * b
        x2, z2 = a * a * b * b % PRIME, e * (a * a + 121665 * e) % PRIME
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return x2 * pow(z2, PRIME - 2, PRIME) % PRIME


def chi_square(counts: list[int]) -> float:
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 / mean for count in counts)


@pytest.mark.parametrize("count", [0, 1, 2, 33])
def test_the_receiver_gets_the_key_that_it_chose(count):
    choices = [secrets.randbelow(2) for _ in range(count)]
    pairs, chosen = transfer(choices)
    assert chosen == [pair[c] for pair, c in zip(pairs, choices, strict=True)]
    assert len({key for pair in pairs for key in pair}) == 2 * count
    assert all(len(key) == 16 for key in chosen)


def test_the_senders_points_by_another_ladder(monkeypatch):
    """The key of each place is a hash of r pk_b: equal hashes need equal points."""
    seen = []

    def note(_session, index, _sender, _public, point):
        seen.append((index, bytes(bytearray(point))))  # the point is wiped
        return b""

    monkeypatch.setattr("tacit.crypto.base_ot._hashed", note)
    receiver = BaseReceiver([0, 1, 1], session=SESSION, sender=1)
    sender = BaseSender(3, session=SESSION, receiver=0)
    private = sender._private.private_bytes_raw()
    sender.keys(receiver.message)
    assert [point for _, point in seen] == [x25519(private, p) for p in points(receiver.message)]
    assert [index for index, _ in seen] == [0, 0, 1, 1, 2, 2]


def test_private_keys_serve_once_and_common_points_are_wiped(monkeypatch):
    hashed, made = base_ot._hashed, []

    def note(*parts):
        made.append(parts[-1])
        return hashed(*parts)

    monkeypatch.setattr(base_ot, "_hashed", note)
    receiver = BaseReceiver([0, 1], session=SESSION, sender=1)
    sender = BaseSender(2, session=SESSION, receiver=0)
    pairs, chosen = sender.keys(receiver.message), receiver.keys(sender.message)
    assert chosen == [pairs[0][0], pairs[1][1]]
    assert len(made) == 6
    assert not any(any(point) for point in made)
    assert (sender._private, receiver._private) == (None, None)
    for side, message in ((sender, receiver.message), (receiver, sender.message)):
        with pytest.raises(ProtocolError, match="were made before"):
            side.keys(message)


@pytest.mark.parametrize("choice", [0, 1])
def test_both_keys_are_points_of_the_prime_order_subgroup(choice):
    message = BaseReceiver([choice] * 6, session=SESSION, sender=1).message
    for point in points(message):
        u = int.from_bytes(point, "little")
        assert is_on_curve(u)
        assert multiplied(1, u) == u
        assert multiplied(ORDER, u) == 0


@pytest.mark.parametrize("choice", [0, 1])
def test_messages_are_uniform_whatever_is_chosen(choice):
    """Chi-square of the low half bytes of each place; one false alarm in 10^9 runs."""
    message = BaseReceiver([choice] * 300, session=SESSION, sender=1).message
    for place in (0, 1):
        kept = b"".join(point[:31] for point in points(message)[place::2])
        counts = [sum(byte & 15 == value for byte in kept) for value in range(16)]
        assert chi_square(counts) < 70


def test_euler_criterion():
    assert is_on_curve(9)
    assert not is_on_curve(0)
    squares = sum(is_on_curve(u) for u in range(1, 400))
    assert 150 < squares < 250


def test_keys_belong_to_one_session_and_one_transfer():
    pairs, chosen = transfer([0, 1], other=bytes(16))
    assert not {key for pair in pairs for key in pair} & {*chosen}
    receiver = BaseReceiver([0], session=SESSION, sender=1)
    sender = BaseSender(2, session=SESSION, receiver=0)
    first, second = sender.keys(receiver.message * 2)
    assert not {*first} & {*second}


def test_wrong_messages_are_typed_errors():
    receiver = BaseReceiver([0, 1], session=SESSION, sender=3)
    sender = BaseSender(2, session=SESSION, receiver=2)
    with pytest.raises(ProtocolError) as caught:
        sender.keys(receiver.message[:-1])
    assert caught.value.party == 2
    with pytest.raises(ProtocolError) as caught:
        receiver.keys(sender.message + b"\0")
    assert caught.value.party == 3
    with pytest.raises(ProtocolError, match="0 or 1"):
        BaseReceiver([2], session=SESSION, sender=1)


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31)])
def test_points_of_small_order_are_refused(point):
    sender = BaseSender(1, session=SESSION, receiver=2)
    with pytest.raises(CheatingDetected) as caught:
        sender.keys(point * 2)
    assert caught.value.party == 2
    with pytest.raises(CheatingDetected) as caught:
        BaseReceiver([0], session=SESSION, sender=1).keys(point)
    assert caught.value.party == 1
