import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import backend, levels
from tacit.kernels.openssl_aes import stream_aes128_ctr
from tacit.kernels.stream import CIPHERS, IN_PLACE, mask, stream, streams
from tacit.ring import RING64
from tacit.ring.reference import stream as reference

CIPHER_NAMES = list(CIPHERS)
ciphers = st.sampled_from(CIPHER_NAMES)
operations = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
dtypes = st.sampled_from([torch.int32, torch.int64])
# Around the size of a group of blocks, of what is staged, and of what a thread takes.
sizes = st.one_of(st.integers(0, 40), st.sampled_from([127, 128, 129, 639, 640, 641, 1000]))


def key_of(cipher: str, first: int = 0) -> bytes:
    return bytes((first + i) % 256 for i in range(CIPHERS[cipher].key_bytes))


def draw_words(cipher, count, *, operation=0, offset=0, dtype=torch.int32, first=0):
    out = torch.full((count,), -1, dtype=dtype)
    result = stream(key_of(cipher, first), out, operation=operation, offset=offset, cipher=cipher)
    assert result is out
    return out


def as_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.numpy().tobytes()


@draws(60)
@given(ciphers, operations, st.integers(0, 2**62), sizes, dtypes)
def test_equals_the_reference(cipher, operation, word_offset, count, dtype):
    offset = 4 * word_offset
    out = draw_words(cipher, count, operation=operation, offset=offset, dtype=dtype)
    expected = reference.keystream(key_of(cipher), operation, offset, out.nbytes, cipher)
    assert as_bytes(out) == expected


@draws(100)
@given(ciphers, st.sampled_from([*IN_PLACE]), operations, st.integers(0, 300), sizes, rings, seeds)
def test_a_mask_is_the_stream_on_values(cipher, how, operation, place, count, ring, seed):
    values = ring_tensor(ring, (count,), seed)
    where = {"operation": operation, "offset": place * ring.dtype.itemsize, "cipher": cipher}
    words = reference.stream(key_of(cipher), torch.empty_like(values), **where)
    expected = IN_PLACE[how](values.clone(), words)
    assert mask(key_of(cipher), values, how, **where) is values
    assert values.equal(expected)


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
@pytest.mark.parametrize("how", IN_PLACE)
def test_a_large_mask_on_any_number_of_threads(cipher, how):
    if backend.native_for(torch.empty(0)) is None:
        pytest.skip("the reference is too slow for this size")
    values = ring_tensor(RING64, ((1 << 18) + 13,), 3)
    words = stream(key_of(cipher), torch.empty_like(values), operation=9, offset=24, cipher=cipher)
    expected, before = IN_PLACE[how](values.clone(), words), backend.num_threads()
    try:
        for threads in (1, 2, 5):
            backend.set_num_threads(threads)
            found = values.clone()
            mask(key_of(cipher), found, how, operation=9, offset=24, cipher=cipher)
            assert found.equal(expected)
    finally:
        backend.set_num_threads(before)


def test_what_a_mask_needs():
    values = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ConfigError, match="add, sub, xor"):
        mask(bytes(16), values, "mul", operation=1)
    with pytest.raises(ConfigError, match="multiple of 8"):
        mask(bytes(16), values, "add", operation=1, offset=4)
    with pytest.raises(ConfigError, match="contiguous"):
        mask(bytes(16), values[::2], "add", operation=1)
    with pytest.raises(ConfigError, match="16 bytes"):
        mask(bytes(32), values, "add", operation=1)


@draws(60)
@given(ciphers, st.integers(0, 60), st.lists(st.integers(0, 400), max_size=6))
def test_any_split_equals_the_whole(cipher, start, parts):
    whole = draw_words(cipher, sum(parts), operation=7, offset=4 * start)
    pieces, place = [], start
    for part in parts:
        pieces.append(draw_words(cipher, part, operation=7, offset=4 * place))
        place += part
    assert torch.equal(torch.cat([whole[:0], *pieces]), whole)


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
@pytest.mark.parametrize("offset", [0, 4, 60, 1 << 32, (1 << 36) - 64 * 4096])
def test_large_equals_openssl_with_any_thread_count(cipher, offset):
    count = (1 << 20) + 13
    if backend.native_for(torch.empty(0)) is None:
        pytest.skip("the reference is too slow for this size")
    before = backend.num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            backend.set_num_threads(threads)
            results.append(draw_words(cipher, count, operation=9, offset=offset))
    finally:
        backend.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    block, skip = divmod(offset, CIPHERS[cipher].block_bytes)
    key, zeros = key_of(cipher), bytes(skip + results[0].nbytes)
    if cipher == "aes128-ctr":
        start = (9).to_bytes(8, "big") + block.to_bytes(8, "big")
        whole = Cipher(algorithms.AES(key), modes.CTR(start)).encryptor().update(zeros)
    else:
        start = block.to_bytes(8, "little") + (9).to_bytes(8, "little")
        whole = Cipher(algorithms.ChaCha20(key, start), None).encryptor().update(zeros)
    assert as_bytes(results[0]) == whole[skip:]


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
def test_keys_and_operations_give_different_streams(cipher):
    a = draw_words(cipher, 64)
    assert not torch.equal(a, draw_words(cipher, 64, operation=1))
    assert not torch.equal(a, draw_words(cipher, 64, operation=1 << 63))
    assert not torch.equal(a, draw_words(cipher, 64, first=1))


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
def test_both_dtypes_and_any_shape_hold_the_same_bytes(cipher):
    narrow = draw_words(cipher, 200, dtype=torch.int32)
    wide = torch.empty(2, 5, 10, dtype=torch.int64)
    stream(key_of(cipher), wide, operation=0, cipher=cipher)
    assert as_bytes(narrow) == as_bytes(wide)


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
def test_the_last_block_is_reached_and_not_passed(cipher):
    end = CIPHERS[cipher].limit
    out = draw_words(cipher, 5, offset=end - 20)
    assert as_bytes(out) == reference.keystream(key_of(cipher), 0, end - 20, 20, cipher)
    with pytest.raises(ConfigError, match="offset"):
        draw_words(cipher, 5, offset=end - 16)


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
def test_several_streams_are_those_of_each(cipher):
    keys, sizes, offsets = (
        [key_of(cipher), key_of(cipher)[::-1]] * 3,
        [64, 192, 128] * 2,
        [0, 64] * 3,
    )
    out = torch.empty(sum(sizes) // 8, dtype=torch.int64)
    streams(keys, out, sizes, operation=7, offsets=offsets, cipher=cipher)
    parts = [torch.empty(size // 8, dtype=torch.int64) for size in sizes]
    for key, part, offset in zip(keys, parts, offsets, strict=True):
        stream(key, part, operation=7, offset=offset, cipher=cipher)
    assert torch.equal(out, torch.cat(parts))
    for wrong in ([64, 200, 120], [64, 192, 64]):
        with pytest.raises(ConfigError, match="multiples of 64"):
            streams(keys[:3], out[:48], wrong, operation=7, offsets=offsets[:3], cipher=cipher)


def test_aes_of_the_standard():
    """FIPS 197, appendix B: its key and plaintext, as operation and counter."""
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    operation, counter = 0x3243F6A8885A308D, 0x313198A2E0370734
    out = torch.empty(2, dtype=torch.int64)
    stream(key, out, operation=operation, offset=16 * counter)
    assert as_bytes(out).hex() == "3925841d02dc09fbdc118597196a0b32"


def test_chacha20_of_the_standard():
    """RFC 8439, 2.3.2: its 32-bit counter and 96-bit nonce as our two 64-bit numbers."""
    tail = bytes.fromhex("01000000 000000090000004a00000000")
    counter, operation = (int.from_bytes(tail[i : i + 8], "little") for i in (0, 8))
    out = torch.empty(8, dtype=torch.int64)
    stream(key_of("chacha20"), out, operation=operation, offset=64 * counter, cipher="chacha20")
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert as_bytes(out).hex() == expected


def test_chacha20_of_zeros():
    """The first block of the all-zero key, as in the original cipher's published vectors."""
    out = torch.empty(4, dtype=torch.int64)
    stream(bytes(32), out, operation=0, cipher="chacha20")
    assert as_bytes(out).hex() == "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"


@pytest.mark.parametrize("count", [0, 1, 4, 5, 1000, (1 << 18) + 3])
def test_openssl_stands_in_where_the_host_has_no_aes(count):
    out = torch.full((count + 1,), -1, dtype=torch.int32)
    stream_aes128_ctr(key_of("aes128-ctr"), 5, 3, 4, out.data_ptr(), 4 * count)
    assert torch.equal(out[:-1], draw_words("aes128-ctr", count, operation=5, offset=52))
    assert out[-1] == -1


def test_levels_without_aes_have_the_stream_of_others(choose):
    """A plan records it like a kernel; all levels that lack the instructions are concerned."""
    for level in levels.usable_levels():
        choose(level)
        drawn = draw_words("aes128-ctr", 50, operation=3, offset=12)
        assert backend.load_native().stream_aes128_ctr
        choose("reference")
        assert torch.equal(draw_words("aes128-ctr", 50, operation=3, offset=12), drawn)


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
def test_forced_reference(cipher, force_reference):
    fast = draw_words(cipher, 50, operation=3, offset=12)
    force_reference()
    assert torch.equal(draw_words(cipher, 50, operation=3, offset=12), fast)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"key": bytes(15)}, "key"),
        ({"key": bytes(32)}, "key"),
        ({"key": "0123456789abcdef"}, "key"),
        ({"cipher": "chacha20"}, "key"),
        ({"cipher": "rc4"}, "cipher"),
        ({"operation": -1}, "operation"),
        ({"operation": 1 << 64}, "operation"),
        ({"offset": -4}, "offset"),
        ({"offset": 2}, "offset"),
        ({"out": torch.empty(4)}, "dtype"),
        ({"out": torch.empty(4, dtype=torch.uint8)}, "dtype"),
        ({"out": torch.empty(4, 4, dtype=torch.int64).T}, "contiguous"),
    ],
)
def test_bad_arguments_are_named(change, field):
    good = {"key": bytes(16), "out": torch.empty(4, dtype=torch.int64), "operation": 0}
    with pytest.raises(ConfigError, match=field):
        stream(**{**good, **change})
