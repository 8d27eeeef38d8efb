"""Sealed tensors come back bit by bit, within the budget; what the host changes is refused."""

from __future__ import annotations

import ctypes
import errno
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.enclave.trusted import chunk_cipher
from tacit.enclave.trusted.chunk_cipher import SLACK_BYTES, TAG_BYTES
from tacit.enclave.trusted.host_storage import FileStorage, MemoryStorage
from tacit.enclave.trusted.plaintext import PlaintextBudget
from tacit.enclave.trusted.sealed_store import BUDGET_BYTES, SealedStore
from tacit.errors import ConfigError, OutOfMemory, SealedChunkRejected

CHUNK = 1024
MEASUREMENT = bytes(32)
PLACES = CHUNK + SLACK_BYTES  # of the budget, for a chunk


def store_of(places=4, *, storage=None, **options):
    storage = MemoryStorage() if storage is None else storage
    options = {"measurement": MEASUREMENT, "chunk_bytes": CHUNK} | options
    return SealedStore(storage, budget=places * PLACES, **options)


def numbers(count, seed=0, dtype=torch.float32):
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return (100 * drawn).to(dtype)


def evicted(store):
    """Fills the store with something else, so that every chunk of other tensors is sealed."""
    store.put("filler", torch.zeros(2 * store.counters().budget // 4))
    store.delete("filler")


@draws(60)
@given(
    shape=st.lists(st.integers(0, 40), max_size=3),
    dtype=st.sampled_from([torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.uint8]),
    places=st.integers(4, 7),
)
def test_tensors_come_back_bit_by_bit(shape, dtype, places):
    count = int(torch.tensor(shape).prod()) if shape else 1
    stored = {f"t{i}": numbers(count, i, dtype).reshape(shape) for i in range(4)}
    with store_of(places, storage=MemoryStorage()) as store:
        for name, tensor in stored.items():
            store.put(name, tensor)
        for name, tensor in stored.items():
            flat = [chunk.clone() for chunk in store.chunks(name)]
            together = torch.cat(flat) if flat else torch.empty(0, dtype=dtype)
            assert together.dtype == dtype
            assert torch.equal(together, tensor.reshape(-1))
        assert store.counters().peak_resident <= places * PLACES


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_tensor_much_larger_than_the_budget(kind, tmp_path):
    storage = FileStorage(tmp_path / "sealed", CHUNK + TAG_BYTES) if kind == "file" else None
    x = numbers(100_000)
    with store_of(4, storage=storage) as store:
        store.put("x", x)
        store.put_chunks("y", x.shape, x.dtype, (chunk.relu() for chunk in store.chunks("x")))
        for chunk in store.chunks("y", write=True):
            chunk *= 2
        start = 0
        for chunk in store.chunks("y"):
            assert torch.equal(chunk, 2 * x[start : start + chunk.numel()].relu())
            start += chunk.numel()
        counted = store.counters()
    chunks = -(-x.nbytes // CHUNK)
    assert start == x.numel()
    assert counted.peak_resident <= counted.budget == 4 * PLACES < x.nbytes / 90
    assert counted.bytes_sealed >= 3 * x.nbytes - 3 * CHUNK  # x, y, and y again
    assert counted.bytes_opened >= 3 * x.nbytes - 9 * CHUNK
    assert counted.evicted >= 5 * chunks - 4


def test_what_fits_is_never_sealed():
    with store_of(8) as store:
        store.put("x", numbers(4 * CHUNK // 4))
        for _ in range(3):
            store.get("x")
        counted = store.counters()
    assert (counted.bytes_sealed, counted.opened, counted.evicted) == (0, 0, 0)
    assert counted.hits == 12


def test_the_least_recently_used_chunk_leaves_first():
    with store_of(4) as store:
        for name in "abce":
            store.put(name, numbers(CHUNK // 4))
        _ = [chunk.sum() for chunk in store.chunks("a")]
        del _
        store.put("d", numbers(CHUNK // 4))  # b leaves
        before = store.counters()
        for name in "ace":
            next(iter(store.chunks(name)))
        assert store.counters().opened == before.opened
        next(iter(store.chunks("b")))
        assert store.counters().opened == before.opened + 1


def test_only_written_chunks_are_sealed_again():
    with store_of(4) as store:
        store.put("x", numbers(2 * CHUNK))  # eight chunks, so that each pass sends all of them out
        evicted(store)
        before = store.counters()
        read(store)
        read(store)
        after = store.counters()
        assert after.opened == before.opened + 16
        assert after.evicted >= before.evicted + 12
        assert after.bytes_sealed == before.bytes_sealed
        for chunk in store.chunks("x", write=True):
            chunk += 1
        assert torch.equal(read(store), numbers(2 * CHUNK) + 1)
        assert store.counters().bytes_sealed == before.bytes_sealed + 8 * CHUNK


def test_the_default_budget_is_90_megabytes():
    with SealedStore(MemoryStorage(), measurement=MEASUREMENT) as store:
        assert store.counters().budget == BUDGET_BYTES == 90_000_000


def test_what_the_program_keeps_counts_and_is_refused_beyond_the_budget():
    with store_of(6) as store:
        store.put("x", numbers(CHUNK // 2))  # two chunks
        kept = [store.get("x"), store.get("x")]
        assert store.counters().resident >= 4 * CHUNK
        with pytest.raises(OutOfMemory, match="of which the program holds"):
            kept.append(store.get("x"))
        del kept[0]
        assert torch.equal(store.get("x"), kept[0])
        assert store.counters().peak_resident <= 6 * PLACES


def test_freed_plaintext_is_overwritten_and_no_longer_counted():
    budget = PlaintextBudget(100, lambda: False)
    buffer = budget.allocate(60)
    buffer[:] = b"s" * 60
    tensor = torch.frombuffer(buffer, dtype=torch.uint8)
    address = tensor.data_ptr()
    assert address == ctypes.addressof(buffer)
    del buffer
    assert (budget.resident, bytes(tensor.numpy())) == (60, b"s" * 60)
    del tensor
    assert (budget.resident, budget.peak) == (0, 60)
    assert ctypes.string_at(address, 60) == bytes(60)  # it is kept for the next buffer
    again = budget.allocate(60)
    assert ctypes.addressof(again) == address
    assert bytes(again) == bytes(60)


def test_memory_in_use_and_unused_stays_within_the_budget():
    budget = PlaintextBudget(100, lambda: False)
    for size in (60, 30, 50, 90, 10, 100):
        assert len(budget.allocate(size)) == size
        assert budget.resident + budget._unused_bytes <= 100


# What the host may do ---------------------------------------------------------------------------


def sealed_store(num_chunks=3):
    storage = MemoryStorage()
    store = store_of(4, storage=storage)
    store.put("x", numbers(num_chunks * CHUNK // 4))
    evicted(store)
    assert len(storage.slots) >= num_chunks
    return store, storage


def slots_of(store, name="x"):
    return [chunk.slot for chunk in store._entries[name].chunks]


def read(store, name="x"):
    return torch.cat([chunk.clone() for chunk in store.chunks(name)])


@draws(60)
@given(byte=st.integers(0, CHUNK + TAG_BYTES - 1), bit=st.integers(0, 7))
def test_one_changed_bit_is_refused_by_tensor_and_chunk(byte, bit):
    store, storage = sealed_store()
    slot = slots_of(store)[1]
    data = bytearray(storage.slots[slot])
    data[byte] ^= 1 << bit
    storage.slots[slot] = bytes(data)
    with pytest.raises(
        SealedChunkRejected,
        match="tensor 'x', chunk 1: the host returned bytes that are changed, old, or of",
    ):
        read(store)
    store.close()


def test_a_rolled_back_chunk_is_refused():
    store, storage = sealed_store()
    old = {slot: bytes(data) for slot, data in storage.slots.items()}
    for chunk in store.chunks("x", write=True):
        chunk += 1
    evicted(store)
    assert torch.equal(read(store), numbers(3 * CHUNK // 4) + 1)
    evicted(store)
    storage.slots.update(old)
    with pytest.raises(
        SealedChunkRejected,
        match="tensor 'x', chunk 0: the host returned bytes that are changed, old",
    ):
        read(store)


def test_swapped_chunks_are_refused():
    store, storage = sealed_store()
    one, two, _ = slots_of(store)
    storage.slots[one], storage.slots[two] = storage.slots[two], storage.slots[one]
    with pytest.raises(SealedChunkRejected, match="tensor 'x', chunk 0"):
        read(store)


def test_a_chunk_of_another_tensor_is_refused():
    store, storage = sealed_store()
    store.put("y", numbers(3 * CHUNK // 4, seed=1))
    evicted(store)
    storage.slots[slots_of(store)[2]] = storage.slots[slots_of(store, "y")[2]]
    with pytest.raises(SealedChunkRejected, match="tensor 'x', chunk 2"):
        read(store)
    assert torch.equal(read(store, "y"), numbers(3 * CHUNK // 4, seed=1))


@pytest.mark.parametrize("kept", [0, 1, TAG_BYTES, CHUNK + TAG_BYTES - 1])
def test_a_truncated_chunk_is_refused(kept):
    store, storage = sealed_store()
    slot = slots_of(store)[2]
    storage.slots[slot] = storage.slots[slot][:kept]
    with pytest.raises(SealedChunkRejected, match=f"chunk 2: the host returned {kept} of 1040"):
        read(store)


def test_a_refused_chunk_leaves_the_store_usable():
    store, storage = sealed_store()
    slot = slots_of(store)[0]
    good, storage.slots[slot] = storage.slots[slot], b""
    for _ in range(5):
        with pytest.raises(SealedChunkRejected):
            read(store)
    storage.slots[slot] = good
    assert torch.equal(read(store), numbers(3 * CHUNK // 4))


def test_no_two_seals_share_a_nonce_and_a_key(monkeypatch):
    used = []
    cipher = chunk_cipher.ChunkCipher._cipher

    def noting(self, version, tag=None):
        if tag is None:
            used.append((bytes(self._key), version))
        return cipher(self, version, tag)

    monkeypatch.setattr(chunk_cipher.ChunkCipher, "_cipher", noting)
    for _ in range(3):  # one root key and one measurement
        with store_of(4, root=bytes(32)) as store:
            store.put("x", numbers(5 * CHUNK))
            for chunk in store.chunks("x", write=True):
                chunk += 1
            store.put("x", numbers(5 * CHUNK))
    assert len(used) == len(set(used)) > 100
    assert len({key for key, _ in used}) == 3


def test_the_number_of_seals_is_limited(monkeypatch):
    monkeypatch.setattr(chunk_cipher, "MAX_SEALS", 5)
    with (
        store_of(4) as store,
        pytest.raises(SealedChunkRejected, match="tensor 'x', chunk 5: 5 chunks were sealed"),
    ):
        store.put("x", numbers(20 * CHUNK))


def test_sealed_bytes_do_not_show_the_plaintext():
    storage = MemoryStorage()
    with store_of(4, storage=storage) as store:
        store.put("x", torch.full((20 * CHUNK,), 7, dtype=torch.uint8))
        sealed = [bytes(data) for data in storage.slots.values()]
    assert len(sealed) == len(set(sealed)) == 16
    assert not any(bytes([7] * 8) in one for one in sealed)


def test_a_full_disk_is_named_and_nothing_is_lost():
    storage = FileStorage(Path("/dev/full"), CHUNK + TAG_BYTES)
    store = store_of(4, storage=storage)
    store.put("x", numbers(CHUNK // 4))
    with pytest.raises(SealedChunkRejected, match="chunk 0: it cannot be written: No space left"):
        store.put("y", numbers(4 * CHUNK))
    assert torch.equal(store.get("x"), numbers(CHUNK // 4))
    assert "y" not in store


def test_a_storage_that_fails_is_named():
    class Broken(MemoryStorage):
        def read(self, slot, into):
            raise OSError(errno.EIO, "here")

    store = store_of(4, storage=Broken())
    store.put("x", numbers(2 * CHUNK))
    with pytest.raises(SealedChunkRejected, match="'x', chunk 0: it cannot be read: Input/output"):
        read(store)


# Mistakes of a caller, and threads ---------------------------------------------------------------


def test_mistakes_are_named():
    with store_of(4) as store:
        with pytest.raises(ConfigError, match="no tensor 'x'"):
            store.get("x")
        with pytest.raises(ConfigError, match="fewer chunks than 2"):
            store.put_chunks("x", (CHUNK // 2,), torch.float32, [torch.zeros(CHUNK // 4)])
        with pytest.raises(ConfigError, match="more chunks than 1"):
            store.put_chunks("x", (CHUNK // 4,), torch.float32, [torch.zeros(CHUNK // 4)] * 2)
        with pytest.raises(ConfigError, match="chunk 0: it was given 8 bytes of torch"):
            store.put_chunks("x", (CHUNK // 4,), torch.float32, [torch.zeros(2)])
        store.put("x", numbers(CHUNK))
        chunks = store.chunks("x")
        next(chunks)
        store.put("x", numbers(CHUNK))
        with pytest.raises(ConfigError, match="deleted or replaced while it was read"):
            list(chunks)
    for chunk_bytes in (0, 24, 2 * CHUNK):
        with pytest.raises(ConfigError, match="4 fit into budget"):
            store_of(4, chunk_bytes=chunk_bytes)


def test_a_failed_put_keeps_the_earlier_tensor():
    with store_of(4) as store:
        store.put("x", numbers(CHUNK))
        with pytest.raises(ConfigError):
            store.put_chunks("x", (CHUNK,), torch.float32, [torch.zeros(CHUNK // 4)])
        assert torch.equal(read(store), numbers(CHUNK))


def test_abandoned_iterators_release_their_chunks():
    with store_of(4) as store:
        store.put("x", numbers(CHUNK))
        for _ in range(50):
            chunks = store.chunks("x")
            next(chunks)
            del chunks
        assert torch.equal(read(store), numbers(CHUNK))


def test_several_threads():
    x, wrong = numbers(10 * CHUNK), []
    with store_of(12) as store:
        store.put("x", x)

        def work():
            for _ in range(5):
                if not torch.equal(read(store), x):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_the_next_chunk_is_opened_while_this_one_is_used():
    class Noting(MemoryStorage):
        def __init__(self):
            super().__init__()
            self.read_slots, self.changed = [], threading.Condition()

        def read(self, slot, into):
            with self.changed:
                self.read_slots.append(slot)
                self.changed.notify_all()
            return super().read(slot, into)

    storage = Noting()
    with store_of(4, storage=storage) as store:
        store.put("x", numbers(2 * CHUNK))
        slots = slots_of(store)
        chunks = store.chunks("x")
        next(chunks)
        with storage.changed:
            assert storage.changed.wait_for(lambda: slots[1] in storage.read_slots, 30)
        chunks.close()
