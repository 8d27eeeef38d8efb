"""Keys: published vectors, agreement recomputed by other means, and nothing shown."""

from __future__ import annotations

import copy
import hmac
import pickle
import secrets
from functools import partial
from itertools import combinations

import pytest
from tests.crypto.board import Board, flip

from tacit.crypto import Key, agree_keys, default_groups
from tacit.crypto.agreement import X25519PrivateKey
from tacit.crypto.keys import group_of, key_label
from tacit.errors import CheatingDetected, ConfigError, ProtocolError, RevealForbidden

SESSION = bytes(range(16))


def hkdf(material: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    """RFC 5869 in six lines of standard library."""
    pseudo_random_key = hmac.digest(salt or bytes(32), material, "sha256")
    return expand(pseudo_random_key, info, size)


def expand(pseudo_random_key: bytes, info: bytes, size: int) -> bytes:
    block, output = b"", b""
    while len(output) < size:
        counter = bytes([len(output) // 32 + 1])
        block = hmac.digest(pseudo_random_key, block + info + counter, "sha256")
        output += block
    return output[:size]


def x25519(scalar: bytes, point: bytes) -> bytes:
    """The Montgomery ladder of RFC 7748 section 5 on Python integers."""
    p = 2**255 - 19
    k = (int.from_bytes(scalar, "little") & ~7 & (2**255 - 1)) | 2**254
    x1 = int.from_bytes(point, "little") & (2**255 - 1)
    x2, z2, x3, z3 = 1, 0, x1, 1
    for bit in range(254, -1, -1):
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a, c * b, a * a, b * b
        step = (
            aa * bb % p,
            (aa - bb) * (aa + 121665 * (aa - bb)) % p,
            (da + cb) ** 2 % p,
            x1 * (da - cb) ** 2 % p,
        )
        x2, z2, x3, z3 = step
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


def agree(parties: int, board: Board | None = None, **options):
    board = board or Board(parties)
    return board.run(partial(agree_keys, session=SESSION, **options))


def test_the_tests_own_hkdf_gives_the_vectors_of_rfc_5869():
    case1 = hkdf(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42)
    assert case1.hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )
    case3 = hkdf(b"\x0b" * 22, b"", b"", 42)
    assert case3.hex() == (
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    )


def test_the_tests_own_ladder_gives_the_vector_of_rfc_7748():
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    expected = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    assert x25519(scalar, point).hex() == expected


def test_a_pair_key_is_x25519_and_hkdf_as_specified(monkeypatch):
    secret = {}

    def generate():
        key = real()
        secret[key.public_key().public_bytes_raw()] = key.private_bytes_raw()
        return key

    real = X25519PrivateKey.generate
    monkeypatch.setattr("tacit.crypto.agreement.X25519PrivateKey.generate", generate)
    board = Board(2)
    rings = agree(2, board)
    publics = {sender: message[:32] for _, sender, _, message in board.log}
    shared = x25519(secret[publics[0]], publics[1])
    info = f"prf|{SESSION.hex()}|0,1".encode()
    key = hkdf(shared, publics[0] + publics[1], info, 32)
    assert (
        rings[0].key({0, 1}).derive("aes128-ctr", 16)
        == rings[1].key({0, 1}).derive("aes128-ctr", 16)
        == expand(key, b"aes128-ctr", 16)
    )
    assert rings[0].key({0, 1}).derive("chacha20", 32) == expand(key, b"chacha20", 32)


def contributions(board: Board, round_: int = 1) -> dict[int, bytes]:
    """What each party contributes to the only group of three, by the messages on the board."""
    return {sender: m[-32:] for number, sender, _, m in board.log if number == round_}


def test_a_group_key_is_the_contributions_of_all_through_hkdf():
    board = Board(3)
    rings = agree(3, board)
    material = b"".join(value for _, value in sorted(contributions(board).items()))
    key = hkdf(material, b"", f"prf|{SESSION.hex()}|0,1,2".encode(), 32)
    assert len(material) == 96
    assert all(
        ring.key((2, 0, 1)).derive("chacha20", 32) == expand(key, b"chacha20", 32) for ring in rings
    )


@pytest.mark.parametrize("parties", [1, 2, 3, 4, 5])
def test_members_of_every_group_agree_and_all_keys_differ(parties):
    rings = agree(parties)
    seen = set()
    for size in range(1, parties + 1):
        for group in combinations(range(parties), size):
            (aes,) = {rings[rank].key(group).derive("aes", 16) for rank in group}
            (chacha,) = {rings[rank].key(group).derive("chacha20", 32) for rank in group}
            seen |= {aes, chacha, chacha[:16]}
    assert len(seen) == 3 * (2**parties - 1)


def test_keys_are_fresh_every_time():
    first, second = agree(3), agree(3)
    for group in ((0,), (0, 1), (0, 1, 2)):
        assert first[0].key(group).derive("aes", 16) != second[0].key(group).derive("aes", 16)


def test_two_rounds_and_one_for_pairs_alone():
    every, pairs = Board(4), Board(4)
    agree(4, every)
    agree(4, pairs, groups=[])
    assert {entry[0] for entry in every.log} == {0, 1}
    assert {entry[0] for entry in pairs.log} == {0}


def test_nobody_outside_a_group_is_sent_contributions_to_its_key():
    board = Board(4)
    agree(4, board, groups=[(0, 1, 2)])
    links = {(sender, receiver) for number, sender, receiver, _ in board.log if number == 1}
    assert links == {(a, b) for a in range(3) for b in range(3) if a != b}
    sizes = {len(m) for number, sender, peer, m in board.log if number == 0 and 3 in (sender, peer)}
    assert sizes == {32}


def test_contributions_are_committed_to_before_any_is_shown():
    board = Board(3)
    agree(3, board)
    first = b"".join(message for number, *_, message in board.log if number == 0)
    for value in contributions(board).values():
        assert value not in first


def test_labels_and_sessions_separate():
    material = secrets.token_bytes(32)
    make = partial(Key.extract, material, salt=b"")
    keys = [
        make(session=SESSION, group=(0, 1)),
        make(session=SESSION, group=(0, 2)),
        make(session=bytes(16), group=(0, 1)),
        make(session=SESSION, group=(0, 1, 2)),
    ]
    derived = {key.derive(label, 32) for key in keys for label in ("a", "b", "chacha20")}
    assert len(derived) == 12
    assert key_label(SESSION, (1, 12)) != key_label(SESSION, (11, 2))


def test_many_parties_get_pairs_and_the_whole_group():
    groups = default_groups(9)
    assert {len(group) for group in groups} == {1, 2, 9}
    assert len(default_groups(8)) == 2**8 - 1


def test_a_key_that_was_not_agreed_names_those_that_were():
    rings = agree(3, groups=[])
    with pytest.raises(ConfigError, match=r"party 1 has no key of the parties \(0, 1, 2\).*\(1, 2"):
        rings[1].key({0, 1, 2})
    with pytest.raises(ConfigError, match=r"\(0, 2\)"):
        rings[1].key({0, 2})


def test_a_group_with_an_unknown_party_is_refused():
    assert all(isinstance(r, ConfigError) and "0 to 2" in str(r) for r in agree(3, groups=[(0, 3)]))


@pytest.mark.parametrize("point", [bytes(32), (1).to_bytes(32, "little")])
def test_a_point_of_small_order_is_cheating(point):
    def tamper(_round, sender, _receiver, message):
        return point + message[32:] if sender == 2 else message

    results = agree(3, Board(3, tamper))
    for result in results[:2]:
        assert isinstance(result, CheatingDetected)
        assert result.party == 2


def test_a_message_of_the_wrong_size_names_its_sender():
    def tamper(_round, sender, receiver, message):
        return message + b"!" if (sender, receiver) == (1, 0) else message

    result = agree(3, Board(3, tamper))[0]
    assert isinstance(result, ProtocolError)
    assert result.party == 1
    assert "65 bytes" in str(result)


# In round 1: a digest of all commitments, then the nonce and the contribution.
@pytest.mark.parametrize("rogue", range(3))
@pytest.mark.parametrize("index", [32, 63, 64, 95])
def test_a_party_that_opens_something_else_than_it_committed_to_is_named(rogue, index):
    def tamper(round_, sender, _receiver, message):
        return flip(message, index) if (round_, sender) == (1, rogue) else message

    results = agree(3, Board(3, tamper))
    for rank, result in enumerate(results):
        if rank != rogue:
            assert isinstance(result, CheatingDetected)
            assert result.party == rogue
            assert "key of (0, 1, 2)" in str(result)


@pytest.mark.parametrize("round_", [0, 1])
def test_a_party_that_commits_or_reports_differently_to_two_peers_is_found(round_):
    def tamper(number, sender, receiver, message):
        wrong = (number, sender, receiver) == (round_, 0, 2)
        return flip(message, 32 if round_ == 0 else 0) if wrong else message

    found = [r for r in agree(3, Board(3, tamper)) if isinstance(r, CheatingDetected)]
    assert found
    assert all("saw other commitments" in str(error) for error in found)


def test_a_key_shows_and_gives_away_nothing():
    key = Key(secrets.token_bytes(32), (0, 1))
    ring = agree(2)[0]
    assert repr(key) == str(key) == f"{key}" == "Key(group=(0, 1))"
    assert repr(ring) == "KeyRing(rank=0, groups=[(0,), (0, 1)])"
    for leak in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(RevealForbidden, match="one session"):
            leak(key)
    assert key != Key(key._secret, (0, 1))
    assert not hasattr(key, "__dict__")


def test_group_names_ignore_order_and_repetition():
    assert group_of([2, 0, 2, 1]) == (0, 1, 2)
