"""Secret checkpoints: encrypted, refused if anything is wrong, and as good as no pause."""

import errno
import hashlib
import json
import os
import re
import shutil
import struct
import threading
from dataclasses import asdict
from io import BytesIO

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from tests.runtime.rogue import say
from torch import nn

import tacit
from tacit.errors import CheckpointRejected, ConfigError, PartyFailed, ProtocolDesync
from tacit.nn import encrypted_file, load, save
from tacit.nn.checkpoint_agreement import Answer
from tacit.nn.checkpoint_file import checkpoint_file
from tacit.tensor import SecretTensor
from tacit.transport.consensus import MAX_QUOTED

KEYS = [bytes([i]) * 32 for i in range(3)]
SEED = torch.Generator().manual_seed(4)
X, Y = torch.randn(8, 4, generator=SEED), torch.randn(8, 2, generator=SEED)


def build(seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    model.register_buffer("seen", torch.tensor(seed))
    return model


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def train(session, model, optimizer, steps):
    x, y = session.share(X, owner=0), session.share(Y, owner=1)
    for _ in range(steps):
        optimizer.zero_grad()
        difference = model(x) - y
        (difference * difference).sum().backward()
        optimizer.step()


def write(folder, *, seed=0, step=0, protocol="trio", keys=KEYS, **kwargs):
    def main(session):
        model = session.share(build(seed), owner=0)
        optimizer = sgd(model)
        train(session, model, optimizer, 1)
        return save(session, folder, model, optimizer, key=keys[session.rank], step=step, **kwargs)

    return tacit.run(main, protocol=protocol)


def refusal(folder, *, keys=KEYS, make=build, deadline=120.0, **settings):
    """The message with which all parties refuse a checkpoint."""

    def main(session):
        model = make()
        try:
            load(session, folder, model, key=keys[session.rank])
        except CheckpointRejected as error:
            assert not any(isinstance(p, SecretTensor) for p in model.parameters())
            return str(error), error.party
        return None

    results = tacit.run(main, deadline=deadline, **settings)
    assert None not in results
    assert len({party for _, party in results}) == 1
    return results


@pytest.mark.parametrize(
    ("make", "again"),
    [
        (sgd, "trio"),
        (sgd, "replicated"),
        (lambda m: torch.optim.SGD(m.parameters(), lr=0.01), "trio"),
        (lambda m: torch.optim.Adam(m.parameters(), lr=0.01), "trio"),
    ],
    ids=["momentum", "momentum, another protocol", "sgd", "adam"],
)
def test_training_goes_on_as_if_uninterrupted(tmp_path, make, again):
    def whole(session):
        model = session.share(build(), owner=0)
        train(session, model, make(model), 4)
        return session.reveal(model)

    def first(session):
        model = session.share(build(), owner=0)
        optimizer = make(model)
        train(session, model, optimizer, 2)
        save(
            session, tmp_path, model, optimizer, key=KEYS[session.rank], step=2, extra={"epoch": 1}
        )

    def second(session):
        model = build(seed=9)
        if session.rank == 2:
            model = model.to("meta")
        optimizer = make(model)
        found = load(session, tmp_path, model, optimizer, key=KEYS[session.rank])
        assert found.step == 2
        assert found.extra == {"epoch": 1}
        train(session, model, optimizer, 2)
        return session.reveal(model), found.id

    want = tacit.run(whole)[0]
    tacit.run(first)
    results = tacit.run(second, protocol=again)
    assert len({identity for _, identity in results}) == 1
    for got, _ in results:
        assert got.seen == 0
        for a, b in zip(got.parameters(), want.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=2e-3, rtol=0)


def test_a_secret_module_is_overwritten_in_place_and_settings_come_back(tmp_path):
    def main(session):
        model = session.share(build(), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5, nesterov=True)
        save(session, tmp_path, model, optimizer, key=KEYS[session.rank])
        before = session.reveal(model)
        train(session, model, optimizer, 1)
        parameters = list(model.parameters())
        fresh = torch.optim.SGD(model.parameters(), lr=0.9, momentum=0.9)
        load(session, tmp_path, model, fresh, key=KEYS[session.rank])
        assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
        assert fresh.param_groups[0]["lr"] == 0.25
        assert fresh.param_groups[0]["nesterov"]
        return before, session.reveal(model)

    for before, after in tacit.run(main):
        assert all(
            torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True)
        )


def test_bits_and_public_tensors_in_an_optimizers_state(tmp_path):
    bits, kinds = torch.tensor([True, False, True]), (torch.bfloat16, torch.bool, torch.int8)

    class Odd(torch.optim.SGD):
        pass

    def main(session):
        model = session.share(nn.Linear(3, 1), owner=0)
        optimizer = Odd(model.parameters(), lr=0.1)
        optimizer.state[model.weight] = {
            "bits": session.share(bits, owner=1),
            "step": torch.tensor(3.0),
            "pair": (1.5, torch.ones(2, dtype=kinds[0]), torch.tensor([True]), torch.zeros(0)),
            "none": None,
        }
        save(session, tmp_path, model, optimizer, key=KEYS[session.rank])
        model = nn.Linear(3, 1)
        other = Odd(model.parameters(), lr=0.5)
        load(session, tmp_path, model, other, key=KEYS[session.rank])
        state = other.state[model.weight]
        return session.reveal(state["bits"]), state["step"], state["pair"], state["none"]

    for got, step, pair, none in tacit.run(main):
        assert torch.equal(got, bits)
        assert step == 3.0
        assert pair[0] == 1.5
        assert pair[1].dtype == torch.bfloat16
        assert pair[2].dtype == torch.bool
        assert pair[3].shape == (0,)
        assert none is None


def test_shares_are_refreshed_and_the_file_holds_none_in_clear(tmp_path):
    def main(session):
        model = session.share(build(), owner=0)
        save(session, tmp_path, model, key=KEYS[session.rank])
        old = dict(model[0].weight.value.share.parts)
        load(session, tmp_path, model, key=KEYS[session.rank])
        new = model[0].weight.value.share.parts
        assert all(not (old[i] == new[i]).any() for i in old)
        raw = checkpoint_file(tmp_path, session.rank).read_bytes()
        return any(part.cpu().numpy().tobytes()[:16] in raw for part in old.values())

    assert tacit.run(main) == [False] * 3


def test_a_checkpoint_is_never_replaced(tmp_path):
    first = write(tmp_path, step=1)[0]
    with pytest.raises(PartyFailed, match=r"save: party 0 could not write .*own"):
        write(tmp_path, step=2)
    assert {path.name for path in tmp_path.iterdir()} == {
        checkpoint_file("", rank).name for rank in range(3)
    }
    assert checkpoint_file(tmp_path, 0).stat().st_mode & 0o077 == 0
    found = tacit.run(lambda s: load(s, tmp_path, build(), key=KEYS[s.rank]))
    assert {checkpoint.id for checkpoint in found} == {first.id}


def test_a_new_folder_is_its_owners_alone_and_an_old_wide_one_is_told(tmp_path, caplog):
    old_mask = os.umask(0o022)
    try:
        write(tmp_path / "new" / "inner")
        wide = tmp_path / "wide"
        wide.mkdir()
        wide.chmod(0o755)
        write(wide)
    finally:
        os.umask(old_mask)
    assert (tmp_path / "new" / "inner").stat().st_mode & 0o777 == 0o700
    for folder in (tmp_path / "new" / "inner", wide):
        assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600] * 3
    assert [r.message for r in caplog.records] == [
        f"others than its owner may look into {wide}: chmod 700 it"
    ]


def test_a_missing_file_is_refused(tmp_path):
    write(tmp_path)
    checkpoint_file(tmp_path, 1).unlink()
    for rank, (message, party) in enumerate(refusal(tmp_path)):
        assert party == 1
        assert "there is no such file" in message
        assert (str(tmp_path) in message) == (rank == 1)


def test_another_partys_file_is_refused(tmp_path):
    write(tmp_path)
    shutil.copy(checkpoint_file(tmp_path, 0), checkpoint_file(tmp_path, 2))
    messages = refusal(tmp_path)
    assert {party for _, party in messages} == {2}
    assert "it belongs to party 0" in messages[2][0]
    assert "it belongs to another party" in messages[0][0]


def test_another_partys_file_with_a_changed_header_is_refused(tmp_path):
    write(tmp_path, keys=[KEYS[0]] * 3)
    raw = checkpoint_file(tmp_path, 0).read_bytes().replace(b'"party": 0', b'"party": 2')
    checkpoint_file(tmp_path, 2).write_bytes(raw)
    assert "it was changed" in refusal(tmp_path, keys=[KEYS[0]] * 3)[0][0]


def test_a_wrong_key_is_refused(tmp_path):
    write(tmp_path)
    message, party = refusal(tmp_path, keys=[KEYS[0], KEYS[2], KEYS[2]])[0]
    assert party == 1
    assert "the key is wrong" in message


@pytest.mark.parametrize("keep", [0, 10, 30, 100, 0.5, -1])
def test_a_truncated_file_is_refused(tmp_path, keep, monkeypatch):
    monkeypatch.setattr(encrypted_file, "CHUNK", 256)
    write(tmp_path)
    path = checkpoint_file(tmp_path, 0)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep) if isinstance(keep, float) else keep])
    message, party = refusal(tmp_path)[1]
    assert party == 0
    assert "cut short" in message or "not a file of this kind" in message


def test_a_file_cut_between_chunks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(encrypted_file, "CHUNK", 256)
    write(tmp_path)
    path = checkpoint_file(tmp_path, 0)
    raw = path.read_bytes()
    start = (
        len(encrypted_file.MAGIC) + 4 + struct.unpack_from("<I", raw, len(encrypted_file.MAGIC))[0]
    )
    first = 4 + struct.unpack_from("<I", raw, start)[0]
    for changed in (raw[: start + first], raw[:start] + raw[start + first :], raw + b"x"):
        path.write_bytes(changed)
        assert refusal(tmp_path)[0][1] == 0


@pytest.mark.parametrize("place", [3, 25, 0.05, 0.1, 0.3, 0.9, -1])
def test_a_changed_byte_is_refused(tmp_path, place):
    write(tmp_path)
    path = checkpoint_file(tmp_path, 2)
    raw = bytearray(path.read_bytes())
    raw[int(len(raw) * place) if isinstance(place, float) else place] ^= 1
    path.write_bytes(raw)
    assert refusal(tmp_path)[0][1] == 2


HEADERS = [
    b"[" * 60_000,
    b"[1]",
    b"\xff",
    b'{"party": 0}',
    b'{"party": "' + b"x" * 60_000 + b'"}',
    b"1" * 5000,
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_a_header_that_says_nothing_is_refused(tmp_path, header):
    path = checkpoint_file(tmp_path, 0)
    path.write_bytes(encrypted_file.MAGIC + struct.pack("<I", len(header)) + header)
    for message, _ in refusal(tmp_path, parties=1, protocol="cleartext"):
        assert len(message) < 2 * MAX_QUOTED


@pytest.mark.parametrize("value", ["Infinity", "1e400", "-1", "null", "[]", '"a"', "{}", "1.5"])
@pytest.mark.parametrize("name", ["n", "r", "id", "step", "salt", "kdf", "scrypt"])
def test_a_field_of_the_header_that_makes_no_sense_is_refused(tmp_path, name, value, monkeypatch):
    monkeypatch.setitem(encrypted_file.SCRYPT, "n", 2)
    alone = {"parties": 1, "protocol": "cleartext"}
    tacit.run(lambda s: save(s, tmp_path, s.share(build(), owner=0), key="words"), **alone)
    path = checkpoint_file(tmp_path, 0)
    raw = path.read_bytes()
    [size] = struct.unpack_from("<I", raw, len(encrypted_file.MAGIC))
    start = len(encrypted_file.MAGIC) + 4
    pattern = rb'"%s": ("[^"]*"|\{[^{}]*\}|\{.*\}|[0-9]+)' % name.encode()
    header, changes = re.subn(
        pattern, f'"{name}": {value}'.encode(), raw[start : start + size], count=1
    )
    assert changes == 1
    path.write_bytes(
        encrypted_file.MAGIC + struct.pack("<I", len(header)) + header + raw[start + size :]
    )
    assert refusal(tmp_path, keys=["words"], **alone)


def test_files_of_different_checkpoints_are_refused(tmp_path):
    write(tmp_path / "first", step=1)
    write(tmp_path / "second", step=2)
    shutil.copy(checkpoint_file(tmp_path / "first", 1), checkpoint_file(tmp_path / "second", 1))
    message = refusal(tmp_path / "second")[0][0]
    assert "party 0: step 2, party 1: step 1" in message


def test_another_module_or_session_is_refused(tmp_path):
    write(tmp_path)
    message = refusal(tmp_path, make=lambda: nn.Sequential(nn.Linear(4, 5)))[0][0]
    assert "at 0.weight it holds (6, 4)" in message
    assert "fraction_bits=16" in refusal(tmp_path, fraction_bits=12)[0][0]
    assert "form='three parts'" in refusal(tmp_path, protocol="cleartext")[0][0]


def test_another_optimizer_is_refused(tmp_path):
    write(tmp_path)

    def main(session, make):
        model = build()
        with pytest.raises(CheckpointRejected) as caught:
            load(session, tmp_path, model, make(model), key=KEYS[session.rank])
        return str(caught.value)

    message = tacit.run(main, lambda m: torch.optim.Adam(m.parameters()))[0]
    assert "the state of SGD, not of Adam" in message
    message = tacit.run(main, lambda m: torch.optim.SGD(m[0].parameters(), lr=1.0))[0]
    assert "4 parameters in 1 groups" in message


def test_a_passphrase(tmp_path, monkeypatch):
    monkeypatch.setitem(encrypted_file.SCRYPT, "n", 1 << 10)
    words = ["correct horse", "battery", "staple"]
    write(tmp_path, keys=words)
    assert "wrong" in refusal(tmp_path, keys=["correct horse", "battery", "stable"])[0][0]
    assert "saved with a passphrase" in refusal(tmp_path, keys=KEYS)[0][0]

    def main(session):
        return load(session, tmp_path, build(), key=words[session.rank]).step

    assert tacit.run(main) == [0, 0, 0]
    with checkpoint_file(tmp_path, 0).open("rb") as file:
        assert encrypted_file.read_header(file)[0]["kdf"]["scrypt"] == encrypted_file.SCRYPT


def test_a_passphrase_is_in_no_error(tmp_path):
    with pytest.raises(ConfigError) as caught:
        encrypted_file.write_file(tmp_path / "file", {}, [], "secret \udcff words")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert not list(tmp_path.iterdir())


# AES-GCM does not commit to its key ----------------------------------------------------------


def times(a: int, b: int) -> int:
    """The product in the field of GCM (NIST SP 800-38D, 6.3): bit 0 is the leftmost."""
    product = 0
    for place in range(127, -1, -1):
        if b >> place & 1:
            product ^= a
        a = a >> 1 ^ (0xE1 << 120 if a & 1 else 0)
    return product


def inverse(a: int) -> int:
    """a^(2^128 - 2)."""
    result, power = 1 << 127, a
    for _ in range(127):
        power = times(power, power)
        result = times(result, power)
    return result


def opens_under_both(keys: list[bytes], nonce: bytes, header: bytes) -> bytes:
    """One block and a tag that AES-GCM accepts under two keys: a linear equation in the block."""
    padded = header + bytes(-len(header) % 16)
    blocks = [int.from_bytes(padded[i : i + 16], "big") for i in range(0, len(padded), 16)]
    length = 8 * len(header) << 64 | 128
    constants, squares = [], []
    for key in keys:
        cipher = Cipher(AES(key), ECB()).encryptor()
        point = int.from_bytes(cipher.update(bytes(16)), "big")
        total = 0
        for block in blocks:
            total = times(total ^ block, point)
        square = times(point, point)
        start = int.from_bytes(cipher.update(nonce + bytes([0, 0, 0, 1])), "big")
        constants.append(times(total, square) ^ times(length, point) ^ start)
        squares.append(square)
    block = times(constants[0] ^ constants[1], inverse(squares[0] ^ squares[1]))
    tag = constants[0] ^ times(block, squares[0])
    return block.to_bytes(16, "big") + tag.to_bytes(16, "big")


def test_a_file_that_two_keys_would_open_opens_under_the_one_of_its_commitment():
    salt, keys = bytes(range(32)), [bytes([1]) * 32, bytes([2]) * 32]
    derived = [encrypted_file._file_key(key, salt, {}) for key in keys]
    kdf = {"salt": salt.hex(), "commitment": derived[0][1].hex()}
    binding = hashlib.sha256(b"any header").digest()
    sealed = opens_under_both([key for key, _ in derived], bytes(12), binding + b"\x01")
    opened = [AESGCM(key).decrypt(bytes(12), sealed, binding + b"\x01") for key, _ in derived]
    assert opened[0] != opened[1]  # the cipher alone is content with both
    file = struct.pack("<I", len(sealed)) + sealed
    assert encrypted_file.read_body(BytesIO(file), {"kdf": kdf}, binding, keys[0]) == opened[0]
    with pytest.raises(CheckpointRejected, match="the key is wrong"):
        encrypted_file.read_body(BytesIO(file), {"kdf": kdf}, binding, keys[1])


@pytest.mark.parametrize("cost", [(1 << 20, 32, 16), (1 << 25, 1, 1), (2, 0, 1), (-4, -2, 1)])
def test_a_header_cannot_ask_for_any_effort(cost):
    scrypt = dict(zip("nrp", cost, strict=True))
    header = {"kdf": {"salt": "00" * 32, "commitment": "00" * 32, "scrypt": scrypt}}
    with pytest.raises(CheckpointRejected, match="header cannot be read"):
        encrypted_file.read_body(BytesIO(), header, bytes(32), "words")


SAID = [
    b"{",
    b"[1]",
    b"{}",
    b"[" * 100_000,
    b'{"refusal": "", "is_missing": false, "id": 5, "step": 0, "form": "", "parties": 3}',
    b'{"refusal": "", "is_missing": true, "id": "", "step": 0, "form": "", "parties": 3}',
    b"\xff\xfe",
    b"",
]


@pytest.mark.parametrize("said", SAID, ids=range(len(SAID)))
def test_an_answer_that_says_nothing_names_who_gave_it(tmp_path, said):
    write(tmp_path)

    def main(session):
        if session.rank == 1:
            return say(session.mesh, said)
        model = build()
        try:
            load(session, tmp_path, model, key=KEYS[session.rank])
        except ProtocolDesync as error:
            assert not any(isinstance(p, SecretTensor) for p in model.parameters())
            return error.party
        return "loaded"

    assert tacit.run(main, deadline=120.0) == [1, None, 1]


def test_what_a_peer_says_of_its_file_is_escaped_and_cut(tmp_path):
    write(tmp_path)
    answer = Answer("\x1b[2J\n" + "x" * 10_000, False, "", 0, "", 0)
    said = json.dumps(asdict(answer)).encode()

    def main(session):
        if session.rank == 1:
            return say(session.mesh, said, b"")
        try:
            load(session, tmp_path, build(), key=KEYS[session.rank])
        except CheckpointRejected as error:
            return str(error)
        return ""

    told = tacit.run(main, deadline=120.0)[0]
    assert "\\x1b[2J\\n" in told
    assert told.isprintable()
    assert len(told) < MAX_QUOTED + 100


def test_settings_are_checked(tmp_path):
    def main(session):
        model = session.share(build(), owner=0)
        with pytest.raises(ConfigError, match="32 bytes"):
            save(session, tmp_path, model, key=b"short")
        with pytest.raises(ConfigError, match="empty"):
            save(session, tmp_path, model, key="")
        with pytest.raises(ConfigError, match="JSON"):
            save(session, tmp_path, model, key=KEYS[0], extra={1, 2})
        with pytest.raises(ConfigError, match="not secret"):
            save(session, tmp_path, build(), key=KEYS[0])

    tacit.run(main, parties=1, protocol="cleartext")
    assert not list(tmp_path.iterdir())


def test_parties_save_the_same_or_nothing(tmp_path):
    def main(session):
        model = session.share(build(), owner=0)
        save(session, tmp_path, model, key=KEYS[session.rank], step=session.rank == 1)

    with pytest.raises(PartyFailed, match="differ in step"):
        tacit.run(main)
    assert not list(tmp_path.iterdir())


def fails(name, code, bad):
    """A function of os that raises OSError in the thread of party `bad`."""
    original = getattr(os, name)

    def function(*args, **kwargs):
        if threading.current_thread().name == f"tacit-party-{bad}":
            raise OSError(code, os.strerror(code))
        return original(*args, **kwargs)

    return function


@pytest.mark.parametrize("name", ["mkdir", "open", "fsync", "replace"])
def test_a_full_disk_at_one_party_stops_all(tmp_path, monkeypatch, name):
    write(tmp_path / "first", step=1)

    def main(session):
        model = session.share(build(), owner=0)
        own = tmp_path / f"second-{session.rank}"
        with pytest.raises(CheckpointRejected) as caught:
            save(session, own, model, key=KEYS[session.rank], step=2)
        assert caught.value.party == 1
        assert "No space left on device" in str(caught.value)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fails(name, errno.ENOSPC, bad=1))
        tacit.run(main)
    assert not checkpoint_file(tmp_path / "second-1", 1).exists()
    assert not list(tmp_path.rglob(".*"))
    found = tacit.run(lambda s: load(s, tmp_path / "first", build(), key=KEYS[s.rank]))
    assert [checkpoint.step for checkpoint in found] == [1, 1, 1]


def test_a_folder_that_is_none_stops_all(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")

    def main(session):
        model = session.share(build(), owner=0)
        folder = blocked if session.rank == 1 else tmp_path
        with pytest.raises(CheckpointRejected) as caught:
            save(session, folder, model, key=KEYS[session.rank], step=2)
        assert caught.value.party == 1

    tacit.run(main)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
