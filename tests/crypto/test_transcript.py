"""Transcripts: different histories, different digests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto import Transcript

Entries = list[tuple[str, bytes]]


def digest_of(entries: Entries, domain: str = "test") -> bytes:
    transcript = Transcript(domain)
    for label, data in entries:
        transcript.absorb(label, data)
    return transcript.digest()


def test_equal_histories_agree_and_reading_changes_nothing():
    entries = [("a", b"one"), ("b", b"two")]
    transcript = Transcript("test").absorb("a", b"one")
    assert transcript.digest() == transcript.digest()
    assert transcript.absorb("b", b"two").digest() == digest_of(entries)


@pytest.mark.parametrize(
    "other",
    [
        [("a", b"onet"), ("b", b"wo")],
        [("a", b"on"), ("b", b"etwo")],
        [("ao", b"ne"), ("b", b"two")],
        [("a", b"onebtwo")],
        [("a", b"one"), ("btwo", b"")],
        [("a", b"one"), ("b", b"two"), ("", b"")],
        [("b", b"two"), ("a", b"one")],
        [("a", b"one")],
    ],
)
def test_moving_a_byte_between_fields_changes_the_digest(other):
    assert digest_of(other) != digest_of([("a", b"one"), ("b", b"two")])


entries = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=4)), max_size=4)


@given(entries, entries)
def test_digests_are_equal_only_for_equal_histories(left, right):
    assert (digest_of(left) == digest_of(right)) == (left == right)


def test_domains_separate():
    assert digest_of([], "one") != digest_of([], "two")


def test_tensors_enter_with_dtype_and_shape():
    zeros = torch.zeros(2, 3, dtype=torch.int32)
    others = [zeros.view(3, 2), zeros.view(6), zeros.to(torch.int64), zeros.view(torch.float32)]
    digests = {Transcript("t").absorb("x", tensor).digest() for tensor in [zeros, *others]}
    digests.add(Transcript("t").absorb("x", bytes(24)).digest())
    assert len(digests) == 6


def test_a_tensor_enters_by_its_values_not_by_its_strides():
    base = torch.arange(12).view(3, 4)
    strided, copied = base.t(), base.t().contiguous()
    assert Transcript("t").absorb("x", strided).digest() == (
        Transcript("t").absorb("x", copied).digest()
    )


@pytest.mark.parametrize("tensor", [torch.zeros(0), torch.tensor(5), torch.tensor([True])])
def test_odd_tensors_enter(tensor):
    assert len(Transcript("t").absorb("x", tensor).digest()) == 32


def test_challenges_follow_the_history_and_never_repeat():
    first, second = Transcript("t").absorb("x", b"1"), Transcript("t").absorb("x", b"1")
    a, b = first.challenge("c", 48), first.challenge("c", 48)
    assert a == second.challenge("c", 48)
    assert b == second.challenge("c", 48)
    assert a != b
    assert len(a) == 48
    assert Transcript("t").absorb("x", b"2").challenge("c", 48) != a
    assert Transcript("t").absorb("x", b"1").challenge("d", 48) != a
    assert Transcript("t").absorb("x", b"1").challenge("c", 32) != a[:32]
    assert first.digest() == second.digest()


def test_a_digest_cannot_be_continued_by_hand():
    """What ends a digest is no entry, so no data makes one transcript the digest of another."""
    transcript = Transcript("t").absorb("x", b"1")
    ended = Transcript("t").absorb("x", b"1" + b"\xff" * 8 + b"digest")
    assert transcript.digest() != ended.digest()
    assert transcript.challenge("c", 32) != transcript.digest()
