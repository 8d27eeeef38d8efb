"""Tensors leave a limited memory and come back bit by bit; what the host changes is refused."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.enclave.trusted import chunk_cipher
from tacit.enclave.trusted.chunk_cipher import TAG_BYTES
from tacit.enclave.trusted.host_storage import FileStorage, MemoryStorage
from tacit.enclave.trusted.memory_budget import SMALL_LIMIT, chunk_bytes_for
from tacit.enclave.trusted.pages import PAGE
from tacit.enclave.trusted.sealed_memory import SealedMemory
from tacit.errors import ConfigError, OutOfMemory, SealedChunkRejected

CHUNK = chunk_bytes_for(SMALL_LIMIT)
SLOT = CHUNK + PAGE + TAG_BYTES


@pytest.fixture(scope="module", autouse=True, params=[0, 2], ids=["no threads", "2 threads"])
def threads(request):
    """Every test runs without threads that move chunks, and with some."""
    memory_of.num_threads = request.param


def memory_of(storage=None, limit=SMALL_LIMIT):
    storage = MemoryStorage() if storage is None else storage
    threads = memory_of.num_threads
    return SealedMemory(storage, limit=limit, measurement=bytes(32), num_threads=threads)


def numbers(count, seed=0, dtype=torch.float32):
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return (100 * drawn).to(dtype)


def adopted(memory, tensor):
    memory.adopt(tensor, "a test")
    return tensor


def evict_all(memory):
    """Makes the memory seal everything that is not in use."""
    with memory.working("everything", memory.limit):
        pass


def read(memory, tensor):
    with memory.opened("read", [tensor]):
        return tensor.clone()


@draws(60)
@given(
    shape=st.lists(st.integers(0, 30), max_size=3),  # 30**3 int64 are below SMALL_LIMIT
    dtype=st.sampled_from([torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.uint8]),
)
def test_tensors_come_back_bit_by_bit(shape, dtype):
    count = int(torch.tensor(shape).prod()) if shape else 1
    plain = [numbers(count, seed, dtype).reshape(shape) for seed in range(4)]
    with memory_of() as memory:
        held = [adopted(memory, one.clone()) for one in plain]
        evict_all(memory)
        assert memory.counters().resident == 0
        assert not any(bool(one.view(torch.uint8).any()) for one in held if one.dim())
        for one, wanted in zip(held, plain, strict=True):
            assert torch.equal(read(memory, one), wanted)


@pytest.mark.parametrize("kind", ["memory", "file", "memory of the machine"])
def test_tensors_that_are_larger_than_the_limit_together(kind, tmp_path):
    path = tmp_path / "sealed" if kind == "file" else None
    storage = None if kind == "memory" else FileStorage(path, SLOT)
    with memory_of(storage) as memory:
        held = [adopted(memory, numbers(10_000, seed)) for seed in range(40)]
        for _ in range(2):
            for seed, one in enumerate(held):
                assert torch.equal(read(memory, one), numbers(10_000, seed))
        counted = memory.counters()
    assert counted.peak <= SMALL_LIMIT < sum(one.nbytes for one in held) / 6
    assert counted.bytes_sealed <= sum(one.nbytes for one in held)  # each chunk once: none changed
    assert counted.bytes_opened >= sum(one.nbytes for one in held)
    assert counted.evicted >= 2 * counted.bytes_sealed // (CHUNK + PAGE)
    assert min(counted.seconds_sealing, counted.seconds_opening) > 0


def test_pages_of_sealed_chunks_go_back_to_the_system():
    """The memory of a sealed tensor is not resident, as the kernel sees it."""
    with memory_of(limit=64 << 20) as memory:
        held = adopted(memory, torch.ones(8 << 20))
        assert resident_pages(held) * PAGE >= held.nbytes - 2 * PAGE
        evict_all(memory)
        assert resident_pages(held) <= 2
        assert read(memory, held).sum() == held.numel()


def resident_pages(tensor):
    """How many pages of a tensor are present, from the process's page map."""
    first, last = tensor.data_ptr() // PAGE, (tensor.data_ptr() + tensor.nbytes - 1) // PAGE
    with open("/proc/self/pagemap", "rb", 0) as pages:
        pages.seek(8 * first)
        entries = torch.frombuffer(bytearray(pages.read(8 * (last - first + 1))), dtype=torch.int64)
    return int((entries < 0).sum())  # the highest bit: present


def test_views_stay_valid_and_a_part_is_opened_alone():
    with memory_of() as memory:
        base = adopted(memory, numbers(16 * CHUNK // 4).reshape(16, -1))
        row, turned = base[3], base.t()[1:]
        evict_all(memory)
        before = memory.counters().bytes_opened
        assert torch.equal(read(memory, row), numbers(16 * CHUNK // 4).reshape(16, -1)[3])
        assert memory.counters().bytes_opened - before <= 3 * CHUNK
        assert torch.equal(read(memory, turned), numbers(16 * CHUNK // 4).reshape(16, -1).t()[1:])


def test_freed_tensors_no_longer_count():
    with memory_of() as memory:
        for seed in range(20):
            adopted(memory, numbers(SMALL_LIMIT // 8, seed))
        assert memory.counters().resident == 0
        assert memory.counters().bytes_sealed == 0


def test_the_least_recently_used_tensor_leaves_first():
    with memory_of() as memory:
        one, two, three = (adopted(memory, numbers(SMALL_LIMIT // 16, s)) for s in range(3))
        read(memory, one)
        adopted(memory, fourth := numbers(SMALL_LIMIT // 8, 3))
        before = memory.counters().opened
        read(memory, one), read(memory, three), read(memory, fourth)
        assert memory.counters().opened == before
        assert torch.equal(read(memory, two), numbers(SMALL_LIMIT // 16, 1))
        assert memory.counters().opened > before


def test_written_parts_are_sealed_again():
    with memory_of() as memory:
        x = memory.new("a test", (40, CHUNK // 4), torch.float32)
        for turn in range(2):
            for i, row in enumerate(x):
                with memory.opened("write", [row], write=True):
                    row.fill_(i + turn)
            evict_all(memory)
        for i, row in enumerate(x):
            assert read(memory, row).eq(i + 1).all()


def test_results_are_found_before_anything_is_opened():
    with memory_of() as memory:
        x = adopted(memory, numbers(SMALL_LIMIT // 8).reshape(2, -1))
        evict_all(memory)
        view = memory.compute("a view", torch.Tensor.t, x)
        assert (view.data_ptr(), memory.counters().resident) == (x.data_ptr(), 0)
        double = memory.compute("twice", torch.add, x, x)
        assert torch.equal(read(memory, double), 2 * read(memory, x))
        assert torch.equal(read(memory, view), read(memory, x).t())


def test_what_does_not_fit_is_refused_by_name():
    with memory_of() as memory:
        x = adopted(memory, numbers(SMALL_LIMIT // 8))
        with pytest.raises(OutOfMemory, match="twice needs 393216 bytes") as refused:
            memory.compute("twice", torch.cat, [x, x])
        assert f"memory_limit leaves {SMALL_LIMIT}" in str(refused.value)
        assert "smaller batch" in str(refused.value)
        assert memory.counters().peak <= SMALL_LIMIT
    with pytest.raises(ConfigError, match="memory_limit"):
        memory_of(limit=1000)


# What the host may do ---------------------------------------------------------------------------


def sealed_memory(count=3 * CHUNK // 4):
    storage = MemoryStorage()
    memory = memory_of(storage)
    tensors = [adopted(memory, numbers(count, seed)) for seed in range(2)]
    evict_all(memory)
    return memory, storage, tensors


def slots_of(memory, tensor):
    return [chunk.slot for chunk in memory._blocks.chunks_of([tensor])]


@draws(60)
@given(byte=st.integers(0, CHUNK - 1), bit=st.integers(0, 7))
def test_one_changed_bit_is_refused_by_tensor_and_chunk(byte, bit):
    memory, storage, (x, _) = sealed_memory()
    slot = slots_of(memory, x)[1]
    data = bytearray(storage.slots[slot])
    data[byte] ^= 1 << bit
    storage.slots[slot] = bytes(data)
    wanted = "tensor 1 of a test, chunk 1: the host returned bytes that are changed, old, or of"
    with pytest.raises(SealedChunkRejected, match=wanted):
        read(memory, x)
    chunk = memory._blocks.chunks_of([x])[1]
    start = chunk.address - x.data_ptr()
    assert not x.view(torch.uint8)[start : start + chunk.size].any()
    memory.close()


def test_a_rolled_back_chunk_is_refused():
    memory, storage, (x, _) = sealed_memory()
    old = {slot: bytes(data) for slot, data in storage.slots.items()}
    with memory.opened("write", [x], write=True):
        x += 1
    evict_all(memory)
    assert torch.equal(read(memory, x), numbers(len(x)) + 1)
    evict_all(memory)
    storage.slots.update(old)
    with pytest.raises(SealedChunkRejected, match="chunk 0: the host returned bytes that are chan"):
        read(memory, x)


def test_swapped_chunks_are_refused():
    memory, storage, (x, y) = sealed_memory()
    for other in (slots_of(memory, x)[1], slots_of(memory, y)[0]):  # of this tensor, of another
        own = slots_of(memory, x)[0]
        kept = dict(storage.slots)
        storage.slots[own], storage.slots[other] = storage.slots[other], storage.slots[own]
        with pytest.raises(SealedChunkRejected, match="tensor 1 of a test, chunk 0"):
            read(memory, x)
        storage.slots.update(kept)
    assert torch.equal(read(memory, x), numbers(len(x)))  # the memory is still usable


@pytest.mark.parametrize("kept", [0, 1, TAG_BYTES, CHUNK + TAG_BYTES - 1])
def test_a_truncated_chunk_is_refused(kept):
    memory, storage, (x, _) = sealed_memory()
    slot = slots_of(memory, x)[1]
    storage.slots[slot] = storage.slots[slot][:kept]
    with pytest.raises(SealedChunkRejected, match=f"chunk 1: the host returned {kept} of 4112"):
        read(memory, x)


def test_no_two_seals_share_a_nonce_and_a_key(monkeypatch):
    used = []
    cipher = chunk_cipher.ChunkCipher._cipher

    def noting(self, version, tag=None):
        if tag is None:
            used.append((bytes(self._key), version))
        return cipher(self, version, tag)

    monkeypatch.setattr(chunk_cipher.ChunkCipher, "_cipher", noting)
    for _ in range(3):  # of one measurement
        with memory_of() as memory:
            x = adopted(memory, numbers(10 * CHUNK))
            for _ in range(3):
                with memory.opened("write", [x[:CHUNK]], write=True):
                    x[:CHUNK] += 1
                evict_all(memory)
    assert len(used) == len(set(used)) > 100
    assert len({key for key, _ in used}) == 3


def test_the_number_of_seals_is_limited(monkeypatch):
    monkeypatch.setattr(chunk_cipher, "MAX_SEALS", 5)
    with memory_of() as memory:
        _kept = adopted(memory, numbers(8 * CHUNK))
        with pytest.raises(SealedChunkRejected, match="chunk 5: 5 chunks were"):
            evict_all(memory)


def test_sealed_bytes_do_not_show_the_plaintext():
    storage = MemoryStorage()
    with memory_of(storage) as memory:
        _kept = adopted(memory, torch.full((20 * CHUNK,), 7, dtype=torch.uint8))
        evict_all(memory)
        sealed = [bytes(data) for data in storage.slots.values()]
    assert len(sealed) == len(set(sealed)) >= 20
    assert not any(bytes([7] * 8) in one for one in sealed)


def test_a_full_disk_is_named_and_nothing_is_lost():
    memory = memory_of(FileStorage(Path("/dev/full"), SLOT))
    x = adopted(memory, numbers(CHUNK // 4))
    with pytest.raises(SealedChunkRejected, match="chunk 0: it cannot be written: No space left"):
        evict_all(memory)
    assert torch.equal(read(memory, x), numbers(CHUNK // 4))


def test_a_storage_that_fails_is_named():
    class Broken(MemoryStorage):
        def read(self, slot, into):
            raise OSError(errno.EIO, "here")

    memory = memory_of(Broken())
    x = adopted(memory, numbers(CHUNK))
    evict_all(memory)
    with pytest.raises(SealedChunkRejected, match="chunk 0: it cannot be read: Input/output"):
        read(memory, x)
