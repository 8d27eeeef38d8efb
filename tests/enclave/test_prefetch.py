"""Chunks that are opened ahead and sealed behind by threads: within the limit, and never unseen."""

from __future__ import annotations

import errno
import threading

import pytest
import torch
from tests.enclave.test_sealed_memory import SLOT, adopted, evict_all, numbers, read

from tacit.enclave.trusted import chunk_transfers
from tacit.enclave.trusted.host_storage import FileStorage, MemoryStorage
from tacit.enclave.trusted.memory_budget import SMALL_LIMIT, chunk_bytes_for
from tacit.enclave.trusted.sealed_memory import SealedMemory
from tacit.errors import SealedChunkRejected

LIMIT = 4 * SMALL_LIMIT
COUNT = LIMIT // 4 // 8  # numbers that are an eighth of the limit


def memory_of(storage=None, num_threads=2):
    storage = MemoryStorage() if storage is None else storage
    return SealedMemory(storage, limit=LIMIT, measurement=bytes(32), num_threads=num_threads)


def settled(memory, tensors=()):
    """Waits until threads have nothing to do; returns the bytes of tensors that are inside."""
    memory._transfers._ahead.submit(int).result(timeout=30)
    with memory._lock:
        for chunk in memory._blocks.chunks_of(tensors):
            memory._transfers.wait(chunk)
        return sum(c.size for c in memory._blocks.chunks_of(tensors) if c.is_inside)


def sealed(memory, count=3):
    tensors = [adopted(memory, numbers(COUNT, seed)) for seed in range(count)]
    evict_all(memory)
    return tensors


def test_what_is_opened_ahead_is_inside_when_it_is_used():
    with memory_of() as memory:
        x, y, z = sealed(memory)
        with memory.opened("present", [x]):
            memory.prefetch("next", [y])
            assert settled(memory, [y]) == y.nbytes
            before = memory.counters()
            assert before.resident == x.nbytes + y.nbytes
        assert torch.equal(read(memory, y), numbers(COUNT, 1))
        assert memory.counters().opened == before.opened
        assert settled(memory, [z]) == 0


def test_without_threads_nothing_is_opened_ahead():
    with memory_of(num_threads=0) as memory:
        [x] = sealed(memory, 1)
        memory.prefetch("next", [x])
        assert memory.counters().resident == 0


def test_prefetching_takes_half_of_what_operations_leave_and_evicts_nothing_in_use():
    with memory_of() as memory:
        x, y, z = sealed(memory)
        with memory.working("much", LIMIT // 2), memory.opened("present", [x]):
            memory.prefetch("next", [y, z])
            assert settled(memory, [y, z]) <= LIMIT // 4
            assert settled(memory, [y, z]) > LIMIT // 4 - 2 * chunk_bytes_for(LIMIT)
            assert torch.equal(x, numbers(COUNT))
        evict_all(memory)
        with memory.opened("both", [x, y]), memory.working("the rest", LIMIT - 2 * x.nbytes):
            memory.prefetch("no room", [z])
            assert settled(memory, [z]) == 0
            assert torch.equal(y, numbers(COUNT, 1))
        assert memory.counters().peak == LIMIT


def test_operations_take_the_room_of_what_was_opened_ahead():
    with memory_of() as memory:
        x, y, _ = sealed(memory)
        memory.prefetch("next", [x, y])
        with memory.working("everything", LIMIT):
            assert settled(memory, [x, y]) == 0
        assert torch.equal(read(memory, y), numbers(COUNT, 1))


def test_a_changed_chunk_is_refused_when_it_is_used_and_not_before():
    storage = MemoryStorage()
    with memory_of(storage) as memory:
        x, y, z = sealed(memory)
        slot = memory._blocks.chunks_of([y])[3].slot
        honest = storage.slots[slot]
        storage.slots[slot] = bytes([honest[0] ^ 1]) + bytes(honest[1:])
        memory.prefetch("next", [y, z])
        settled(memory, [y, z])
        storage.slots[slot] = honest  # too late: what was returned first counts
        assert torch.equal(read(memory, x), numbers(COUNT))
        assert torch.equal(read(memory, y[:100]), numbers(COUNT, 1)[:100])
        resident = memory.counters().resident
        with pytest.raises(SealedChunkRejected, match="tensor 2 of a test, chunk 3: the host ret"):
            read(memory, y)
        assert memory.counters().resident <= resident  # the refused chunk takes no room
        assert torch.equal(read(memory, z), numbers(COUNT, 2))


def test_a_storage_that_fails_ahead_is_named_at_the_use():
    class Broken(MemoryStorage):
        def read(self, slot, into):
            raise OSError(errno.EIO, "here")

    with memory_of(Broken()) as memory:
        [x] = sealed(memory, 1)
        memory.prefetch("next", [x])
        settled(memory, [x])
        with pytest.raises(SealedChunkRejected, match="chunk 0: it cannot be read: Input/output"):
            read(memory, x)


class Slow(MemoryStorage):
    """A storage that answers when it is told to."""

    def __init__(self):
        super().__init__()
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def read(self, slot, into):
        self.asked.set()
        assert self.may_answer.wait(30)
        return super().read(slot, into)


def test_an_operation_waits_for_what_is_on_its_way():
    storage = Slow()
    with memory_of(storage) as memory:
        [x] = sealed(memory, 1)
        memory.prefetch("next", [x])
        assert storage.asked.wait(30)
        threading.Timer(0.05, storage.may_answer.set).start()
        opened = memory.counters().opened
        assert torch.equal(read(memory, x), numbers(COUNT))
        assert memory.counters().opened - opened == len(memory._blocks.chunks_of([x]))
        assert memory.counters().seconds_waiting >= 0.04


def test_a_tensor_that_is_freed_on_its_way_keeps_its_memory_until_then():
    storage = Slow()
    with memory_of(storage) as memory:
        x, y, _ = sealed(memory)
        memory.prefetch("next", [x])
        assert storage.asked.wait(30)
        threading.Timer(0.05, storage.may_answer.set).start()
        del x
        assert memory.counters().resident == 0  # it has waited, and erased what came
        assert torch.equal(read(memory, y), numbers(COUNT, 1))


def test_a_newer_request_replaces_an_older_one():
    storage = Slow()
    with memory_of(storage) as memory:
        x, y, z = sealed(memory)
        with memory._lock:  # nothing begins before all three are asked for
            for one in (x, y, z):
                memory.prefetch("next", [one])
        storage.may_answer.set()
        assert (settled(memory, [x]), settled(memory, [z])) == (0, z.nbytes)


def test_closing_ends_the_threads():
    before = set(threading.enumerate())
    storage = Slow()
    memory = memory_of(storage)
    x, _y, _z = sealed(memory)
    memory.prefetch("next", [x])
    assert storage.asked.wait(30)
    assert len({*threading.enumerate()} - before) == 3
    threading.Timer(0.05, storage.may_answer.set).start()
    memory.close()
    assert not [one for one in {*threading.enumerate()} - before if "chunks" in one.name]
    assert not storage.slots


def test_chunks_that_leave_next_are_sealed_behind():
    with memory_of() as memory:
        held = [adopted(memory, numbers(COUNT, seed)) for seed in range(7)]
        assert memory.counters().bytes_sealed == 0  # there is room
        held.append(adopted(memory, numbers(COUNT, 7)))
        settled(memory, held)
        sealed_bytes = memory.counters().bytes_sealed
        assert LIMIT // 8 <= sealed_bytes <= LIMIT // 8 + 2 * chunk_bytes_for(LIMIT)
        with memory.working("room", LIMIT // 8):  # what is sealed leaves, and nothing else
            assert settled(memory, held[1:]) == 7 * held[0].nbytes
        for seed, one in enumerate(held):
            assert torch.equal(read(memory, one), numbers(COUNT, seed))


def test_what_is_written_again_is_sealed_again():
    with memory_of() as memory:
        held = [adopted(memory, numbers(COUNT, seed)) for seed in range(8)]
        settled(memory, held)
        with memory.opened("write", held[:1], write=True):
            held[0].add_(1)
        evict_all(memory)
        assert torch.equal(read(memory, held[0]), numbers(COUNT) + 1)


def test_a_full_disk_is_named_by_the_next_operation_that_needs_room(tmp_path):
    memory = memory_of(FileStorage(tmp_path / "sealed", SLOT * 4))

    def full(slot, data):
        raise OSError(errno.ENOSPC, "here")

    memory._chunks._storage.write = full
    held = [adopted(memory, numbers(COUNT, seed)) for seed in range(8)]
    settled(memory, held)
    with pytest.raises(SealedChunkRejected, match="chunk 0: it cannot be written: No space left"):
        adopted(memory, numbers(COUNT, 8))
    assert torch.equal(held[0], numbers(COUNT))
    memory.close()


@pytest.mark.parametrize("num_threads", [1, 4])
def test_walks_with_prefetching_read_what_was_written(num_threads):
    """Many tensors, read and written in turn, in a memory of which they need five times as much."""
    with memory_of(num_threads=num_threads) as memory:
        held = [adopted(memory, numbers(COUNT, seed)) for seed in range(40)]
        added = [0] * len(held)
        order = torch.randint(40, (150,), generator=torch.Generator().manual_seed(1)).tolist()
        for i, following in zip(order, [*order[1:], 0], strict=True):
            memory.prefetch("next", [held[following]])
            assert torch.equal(read(memory, held[i]), numbers(COUNT, i) + added[i])
            if i % 3 == 0:
                with memory.opened("write", [held[i]], write=True):
                    held[i].copy_(numbers(COUNT, i) + (added[i] + 1))
                added[i] += 1
        assert memory.counters().peak <= LIMIT


def test_threads_are_for_cores_that_are_free(monkeypatch):
    for cores, threads in {1: 0, 2: 0, 3: 1, 4: 2, 16: 4}.items():
        monkeypatch.setattr(chunk_transfers.os, "sched_getaffinity", lambda _, n=cores: range(n))
        assert chunk_transfers.num_transfer_threads() == threads
