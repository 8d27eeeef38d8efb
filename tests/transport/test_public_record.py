"""The record of what is public: its digest depends on every operation."""

from __future__ import annotations

from random import Random

from tacit.protocols.public_operands import CallRecord
from tacit.transport.mismatch import first_difference
from tacit.transport.public_record import DIGEST_BYTES, KEPT


def record(operations: list[tuple[str, str]]) -> CallRecord:
    made = CallRecord(compare=lambda: None)
    for name, data in operations:
        made.absorb(name, [data])
        assert len(made.digest) == DIGEST_BYTES
    return made


def operations(count: int, seed: int) -> list[tuple[str, str]]:
    random = Random(seed)
    return [
        (
            f"aten::op{random.randrange(9)}",
            random.randbytes(random.choice([0, 1, 40, 250, 2000])).hex(),
        )
        for _ in range(count)
    ]


def test_equal_operations_have_equal_digests():
    for count in (0, 1, 20, 200):
        done = operations(count, seed=count)
        assert record(done).digest == record(done).digest, f"{count} operations"


def test_every_changed_operation_changes_the_digest_and_is_found():
    done = operations(60, seed=3)
    whole = record(done)
    for i, (name, data) in enumerate(done):
        for other in ((name + "x", data), (name, data + "x"), (name, "y" + data[1:])):
            if other == (name, data):
                continue
            changed = record([*done[:i], other, *done[i + 1 :]])
            assert changed.digest != whole.digest
            found = first_difference({0: whole.excerpt(), 1: changed.excerpt()})
            assert found is not None
            assert found.position == i
    digests = {record(done[:count]).digest for count in range(61)}
    assert len(digests) == 61


def test_old_entries_are_dropped_and_counted_on():
    made = record([("op", str(i)) for i in range(KEPT + 10)])
    assert (made.first, made.count) == (10, KEPT + 10)
    assert made.entry(9) is None
    entry = made.entry(10)
    assert entry is not None
    assert entry.data.endswith(b"10{\0\0\0\0")
