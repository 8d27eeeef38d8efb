"""`session.load`: files that only their owner has, in every format, and what is refused."""

import io
import json
import os
import re
import struct
import sys
import zipfile
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from tests.fuzz.mutate import mutations
from tests.runtime.data_files import LABELS, PIXELS, columns, idx, write_all, write_csv
from tests.runtime.rogue import say

import tacit
from tacit.errors import ConfigError, DataRejected, Error, PartyFailed, ProtocolDesync
from tacit.runtime.files.contents import Budget, Options
from tacit.runtime.files.messages import decode_message, encode_message
from tacit.runtime.files.reading import read

OWNER = 1
COUNT = 60


class Untouchable:
    """The path at a party that does not have the file."""

    def __getattribute__(self, name):
        raise AssertionError(f"a party that is not the owner looked at its path ({name})")


def loaded(path, **options):
    """What all parties load, revealed; or the error of each."""
    found = tacit.run(load_one, path, **options)
    return found if isinstance(found[0], Exception) else found[2]


def load_one(session, path, **options):
    try:
        secret = session.load(
            path if session.rank == OWNER else Untouchable(), owner=OWNER, **options
        )
    except Error as error:
        return error
    return session.reveal(tuple(secret) if hasattr(secret, "classes") else secret)


POSITION = re.compile(r"(line|row|column|member|picture|group|at|:) \d|\d (rows|columns)")


def refusal(path, **options):
    """The reason that every party gives; its owner's has the path and the position as well."""
    errors = loaded(path, **options)
    assert all(isinstance(error, DataRejected) for error in errors), errors
    assert all(error.party == OWNER for error in errors)
    assert all(error.__cause__ is None and error.__context__ is None for error in errors)
    messages = [str(error) for error in errors]
    assert str(path) in messages[OWNER]
    assert os.path.basename(path) not in messages[0]
    assert messages[0] == messages[2]
    assert f"party {OWNER}" in messages[0]
    assert not POSITION.search(messages[0]), "where in the file is the owner's matter"
    return messages[OWNER]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("data")
    write_all(made, COUNT)
    return made


def same(got, want, dtype):
    assert got.dtype == dtype
    torch.testing.assert_close(got, torch.as_tensor(want).to(dtype), rtol=0, atol=2**-16)


# Every format -----------------------------------------------------------------------------------


def test_npy(folder):
    same(loaded(folder / "x.npy", shape=(None, 64)), PIXELS[:COUNT], torch.float64)


@pytest.mark.parametrize("name", ["xy.npz", "packed.npz", "xy.safetensors"])
def test_a_dict_of_tensors(folder, name):
    got = loaded(folder / name)
    same(got["x"], PIXELS[:COUNT], torch.float64 if name == "xy.npz" else torch.float32)
    same(got["y"], LABELS[:COUNT], torch.int64)


@pytest.mark.parametrize(("name", "real"), [("table.csv", "float32"), ("table.parquet", "float64")])
def test_columns_by_name_or_chosen(folder, name, real):
    real = getattr(torch, real)
    got = loaded(folder / name)
    assert list(got) == [*(f"p{i}" for i in range(64)), "label"]
    same(got["p20"], PIXELS[:COUNT, 20], real)
    same(got["label"], LABELS[:COUNT], torch.int64)
    got = loaded(folder / name, columns=["p30", "p2", 64], shape=(COUNT, 3), dtype=real)
    want = np.stack([PIXELS[:COUNT, 30], PIXELS[:COUNT, 2], LABELS[:COUNT]], 1)
    same(got, want, real)


def test_a_csv_without_names_is_a_matrix(folder):
    same(loaded(folder / "matrix.csv"), PIXELS[:COUNT], torch.int64)
    same(loaded(folder / "matrix.csv", columns=[3, 0]), PIXELS[:COUNT, [3, 0]], torch.int64)


def test_idx(folder):
    images = PIXELS[:COUNT].reshape(-1, 8, 8)
    same(loaded(folder / "images-idx3-ubyte", dtype=torch.uint8), images, torch.uint8)
    same(loaded(folder / "labels-idx1-ubyte.gz"), LABELS[:COUNT], torch.uint8)


def test_a_folder_of_pictures(folder):
    expected = {"images": (5, 3, 8, 8), "labels": (None,)}
    images, labels = loaded(folder / "picturespng", shape=expected)
    order = np.argsort(LABELS[:5], kind="stable")
    want = torch.as_tensor(PIXELS[:5][order].reshape(5, 1, 8, 8) * 15 / 255).expand(5, 3, 8, 8)
    drawn = labels.argsort()
    same(images[drawn], want, torch.float32)
    same(labels[drawn], np.arange(5), torch.int64)


def test_the_order_of_pictures_tells_nothing_of_their_classes(tmp_path):
    """Whoever guesses classes by the place of a row is right as often as by chance."""
    classes, each, repeats = 3, 8, 40
    for label in range(classes):
        (tmp_path / str(label)).mkdir()
        for number in range(each):
            picture = Image.new("L", (1, 1), 10 * (label * each + number))
            picture.save(tmp_path / str(label) / f"{number}.bmp")
    orders = [read(tmp_path, Options(Budget(1 << 20))).tensors for _ in range(repeats)]
    by_place = torch.arange(classes).repeat_interleave(each)
    right = sum(int((one["labels"] == by_place).sum()) for one in orders)
    guesses, chance = repeats * classes * each, 1 / classes
    # the guesses of one order depend on each other a little; 6 sigma of independent ones
    assert abs(right - guesses * chance) < 6 * (guesses * chance * (1 - chance)) ** 0.5
    assert len({tuple(one["labels"].tolist()) for one in orders}) == repeats
    for one in orders:  # a picture keeps its class
        shown = (one["images"][:, 0, 0, 0] * 255 / 10).round().long()
        assert (shown // each).equal(one["labels"])
        assert shown.sort().values.equal(torch.arange(classes * each))


def test_how_many_classes_is_public_and_their_names_are_not(folder):
    def main(session):
        pictures = session.load(folder / "picturespng" if session.rank == 0 else None, owner=0)
        return pictures.classes, repr(pictures)

    for classes, text in tacit.run(main):
        assert classes == 5
        assert "digit" not in text


def test_pictures_become_alike(tmp_path):
    for name, size in (("a", (8, 6)), ("b", (10, 20))):
        (tmp_path / name).mkdir()
        Image.new("L", size, 51).save(tmp_path / name / "one.png")
    assert "a picture has another size" in refusal(tmp_path)
    images, _ = loaded(tmp_path, size=(4, 5))
    same(images, torch.full((2, 3, 4, 5), 0.2), torch.float32)


def test_the_owner_may_be_named_and_the_model_trains_on_it(folder):
    def main(session):
        path = folder / "packed.npz" if session.name == "party2" else "elsewhere.npz"
        data = session.load(path, owner="party2")
        torch.manual_seed(0)
        model = session.share(torch.nn.Linear(64, 10), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses = []
        for _ in range(4):
            loss = torch.nn.functional.cross_entropy(model(data["x"] / 16), data["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(session.reveal(loss)))
        return losses

    losses = tacit.run(main)[0]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.zeros((0, 4), np.float32),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array([True, False, True]),
        np.array([-1.5, 2.25], np.float16),
        np.array([1, 65535], np.uint16),
        np.array([1, 2**32 - 1], np.uint32),
        np.array([1, 2**36], np.uint64),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_shapes_orders_and_dtypes(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    got = loaded(tmp_path / "a.npy")
    assert got.shape == array.shape
    assert (got.numpy() == array).all()


# What everybody expects -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shape": (COUNT, 63)}, "shape (60, 64), and shape=(60, 63) is expected"),
        ({"shape": (COUNT,)}, "shape"),
        ({"dtype": torch.float32}, "is torch.float64, and dtype=torch.float32 is expected"),
        ({"shape": {"z": (1,)}}, "shape= names 'z', which is not in it"),
        ({"limit": 1000}, "more than limit=1000 bytes"),
    ],
)
@pytest.mark.parametrize("who", range(3))
def test_what_any_party_expects_is_checked_at_all(folder, options, reason, who):
    def main(session):
        mine = options if session.rank == who else {}
        with pytest.raises(DataRejected) as caught:
            session.load(folder / "x.npy", owner=OWNER, **mine)
        return str(caught.value)

    messages = tacit.run(main)
    assert all(reason in message for message in messages)
    if who != OWNER:
        assert all(f"party {who}" in message for message in messages)


def test_by_name(folder):
    good = {"shape": {"x": (None, 64)}, "dtype": {"y": torch.int64}}
    assert loaded(folder / "xy.npz", **good)["x"].shape == (COUNT, 64)
    assert "'y' is torch.int64" in refusal(folder / "xy.npz", dtype={"y": torch.int32})


@pytest.mark.parametrize(
    "options",
    [
        {"shape": (-1, 3)},
        {"shape": 3},
        {"dtype": torch.complex64},
        {"dtype": int},
        {"columns": "label"},
        {"columns": []},
        {"columns": [1.5]},
        {"header": "yes"},
        {"size": 8},
        {"size": (8, 0)},
        {"limit": "1 GB"},
        {"owner": "party7"},
    ],
    ids=str,
)
def test_settings_are_checked(options):
    def main(session):
        with pytest.raises(ConfigError, match=next(iter(options))):
            session.load("a.csv", **{"owner": 0} | options)

    tacit.run(main)


def test_the_parties_must_mean_the_same_owner(folder):
    def main(session):
        with pytest.raises(ConfigError, match=r"party 0 .*owner=0.*party 1 .*owner=1"):
            session.load(folder / "x.npy", owner=min(session.rank, 1))

    tacit.run(main)


def test_the_session_goes_on_after_a_refusal(folder):
    def main(session):
        with pytest.raises(DataRejected):
            session.load(None, owner=0)
        return session.reveal(session.load(folder / "x.npy", owner=0))

    same(tacit.run(main)[1], PIXELS[:COUNT], torch.float64)


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("a,b\n1,2\n3,Zanzibar\n", {}, "line 3, column 2 ('b')): a cell is text"),
        ("a,b\n1,2\n\n3,nan\n", {}, "line 4, column 2 ('b')): a cell is empty or NaN"),
        ("a,b\n1,-inf\n", {}, "line 2, column 2 ('b')): a cell is infinite"),
        ("a,b\n1,\n", {}, "line 2, column 2 ('b')): a cell is empty or NaN"),
        ("a,b\n1,1_000\n", {}, "line 2, column 2 ('b')): a cell is a number with more"),
        ("a,b\n1,2\n3\n", {}, "line 3: 1, not 2): a line has another number of columns"),
        ("a,b\n1,2000000.5\n", {}, "'b' has a number that is beyond 2^20"),
        ("a,b\n1,99999999999\n", {}, "'b' has a number that is beyond 2^36"),
        ("a,b\n1,9999999999999999999999\n", {}, "'b' has a number that is beyond 2^20"),
        ("a,b\n", {}, "no rows"),
        ("", {}, "empty"),
        ("Zanzibar,34\nCairo,20\n", {}, "the first line has names and numbers"),
        ("0,1,2\n5,6,7\n", {}, "the first line counts from 0"),
        (",a\n0,5\n", {}, "column 1): a column has no name: without="),
        ("a,a\n0,5\n", {}, "the same name"),
        ('a,b\n1,"2"Zanzibar\n', {}, "line 2): it is not csv"),
        ("a\n" + "1" * (1 << 23), {}, "bytes"),
        ('a\n"' + "Zanzibar\n" * 600_000, {}, "csv"),
        ("a,b\n1,2\n", {"columns": ["c"]}, "columns='c': it has no column of that name"),
        ("a,b\n1,2\n", {"columns": [2]}, "2 columns): columns=2: it has fewer columns"),
        ("1.5,2\n", {"columns": ["c"]}, "no names of columns"),
        ("a" * 300 + ",b\n1,2\n", {}, "cannot be announced"),
        ("a\n" + "1\n" * 1000, {"limit": 4000}, "more than limit=4000 bytes"),
        ("a\n1\n", {"size": (1, 1)}, "size= is for folders"),
    ],
)
def test_csv_is_refused_by_line_and_column(tmp_path, text, options, reason):
    (tmp_path / "secret.csv").write_text(text)
    message = refusal(tmp_path / "secret.csv", **options)
    assert reason in message
    assert "Zanzibar" not in message


@pytest.mark.parametrize(
    ("text", "options", "want"),
    [
        ("0,1,2\n5,6,7\n", {"header": False}, [[0, 1, 2], [5, 6, 7]]),
        ("0,1\n5,6.5\n", {"header": True}, {"0": [5], "1": [6.5]}),
        ('\ufeffa,"b, c"\r\n 1 ,-2e-1\r\n\r\n', {}, {"a": [1], "b, c": [-0.2]}),
        ('a,note\n1,"two\nlines"\n2,x\n', {"columns": ["a"]}, [[1], [2]]),
    ],
)
def test_csv_is_read(tmp_path, text, options, want):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    got = loaded(tmp_path / "t.csv", **options)
    if isinstance(want, dict):
        assert list(got) == list(want)
        for name, values in want.items():
            torch.testing.assert_close(got[name].tolist(), values, rtol=0, atol=2**-16)
    else:
        assert got.tolist() == want


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (
            np.array([[1.0, 2.0], [3.0, np.nan]]),
            "the tensor has a number that is NaN",
        ),
        (np.array([1.0, -np.inf], np.float16), "the tensor has a number that is infinite"),
        (np.array([2.0**21]), "beyond 2^20 in magnitude: scale it"),
        (np.array([1, -(2**40)]), "the tensor has a number that is beyond 2^36"),
        (np.array([2**63], np.uint64), "2^63"),
        (np.array([1j]), "not that of an array of plain numbers"),
        (np.array(["Zanzibar"]), "not that of an array of plain numbers"),
        (np.zeros(3, [("a", "f4"), ("b", "i4")]), "not that of an array of plain numbers"),
    ],
    ids=str,
)
def test_values_that_no_secret_holds(tmp_path, array, reason):
    np.save(tmp_path / "secret.npy", array)
    assert reason in refusal(tmp_path / "secret.npy")


def test_only_the_owner_is_told_where_a_number_is(tmp_path):
    np.save(tmp_path / "secret.npy", np.array([[1.0, 2.0], [3.0, np.nan]]))
    told = [str(error) for error in loaded(tmp_path / "secret.npy")]
    assert "secret.npy at row 1, column 1): the tensor has a number that is NaN" in told[OWNER]
    assert all("row 1" not in text for rank, text in enumerate(told) if rank != OWNER)


class Payload:
    def __reduce__(self):
        return os.mkdir, (os.environ["TACIT_TEST_PAYLOAD"],)


def test_objects_are_never_made(tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    monkeypatch.setenv("TACIT_TEST_PAYLOAD", str(ran))
    np.save(tmp_path / "secret.npy", np.array([Payload()]), allow_pickle=True)
    np.savez(tmp_path / "secret.npz", a=np.array([Payload()]))
    assert "arrays of objects" in refusal(tmp_path / "secret.npy")
    assert "arrays of objects" in refusal(tmp_path / "secret.npz")
    assert not ran.exists()


def test_what_unpacks_to_too_much(tmp_path):
    """Refused by what headers say, before any of it is unpacked."""
    np.savez_compressed(tmp_path / "bomb.npz", a=np.zeros(1 << 24, np.uint8))
    assert (tmp_path / "bomb.npz").stat().st_size < 1 << 16
    assert "more than limit" in refusal(tmp_path / "bomb.npz", limit=1 << 26)
    zeros = pa.table({"a": np.zeros(1 << 24, np.uint8)})
    pq.write_table(zeros, tmp_path / "bomb.parquet")
    assert "more than limit" in refusal(tmp_path / "bomb.parquet", limit=1 << 26)
    (tmp_path / "pictures" / "a").mkdir(parents=True)
    Image.new("1", (8200, 8200)).save(tmp_path / "pictures" / "a" / "bomb.png")
    assert "a picture has more than" in refusal(tmp_path / "pictures")


def test_lengths_that_lie(tmp_path):
    data = idx(np.zeros((4, 4)))
    (tmp_path / "long.idx").write_bytes(data + b"\0")
    assert "longer" in refusal(tmp_path / "long.idx")
    (tmp_path / "vast.idx").write_bytes(bytes([0, 0, 8, 2]) + struct.pack(">II", 1 << 14, 1 << 14))
    assert "shorter" in refusal(tmp_path / "vast.idx")
    member = io.BytesIO()
    np.save(member, np.zeros(3))
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        archive.writestr("a.npy", member.getvalue() + b"\0")
    assert "length" in refusal(tmp_path / "twice.npz")


def test_parquet_of_other_things(tmp_path):
    table = pa.table({"a": [1.0, None, 2.0], "city": ["Zanzibar", "b", "c"], "ok": [True] * 3})
    pq.write_table(table, tmp_path / "secret.parquet")
    assert "column 2 ('city')): a column is not of numbers" in refusal(tmp_path / "secret.parquet")
    assert "row 1, column 1 ('a')): a cell is empty" in refusal(
        tmp_path / "secret.parquet", columns=["a"]
    )
    assert loaded(tmp_path / "secret.parquet", columns=["ok"]).tolist() == [[True]] * 3


def test_safetensors_of_other_dtypes(tmp_path):
    save_file({"a": torch.zeros(2).to(torch.float8_e4m3fn)}, tmp_path / "secret.safetensors")
    assert "float8_e4m3fn" in refusal(tmp_path / "secret.safetensors")


def test_paths_that_are_no_data(tmp_path):
    assert "no such file" in refusal(tmp_path / "missing.csv")
    (tmp_path / "secret.txt").write_text("1")
    assert ".parquet" in refusal(tmp_path / "secret.txt")
    (tmp_path / "empty").mkdir()
    assert "subfolder for each class" in refusal(tmp_path / "empty")
    os.mkfifo(tmp_path / "pipe.csv")
    assert "neither a file nor a folder" in refusal(tmp_path / "pipe.csv")


@pytest.mark.parametrize(
    ("module", "name", "package"),
    [
        ("pyarrow.parquet", "table.parquet", "pyarrow"),
        ("safetensors", "xy.safetensors", "safetensors"),
        ("PIL.Image", "picturespng", "pillow"),
    ],
)
def test_a_missing_package_is_named(folder, monkeypatch, module, name, package):
    monkeypatch.setitem(sys.modules, module, None)
    assert f"takes the package {package}" in refusal(folder / name)


# What a peer sends ------------------------------------------------------------------------------


def against(*messages):
    """What the others raise if party 1 says this, first to announce its file."""

    def main(session):
        if session.rank == OWNER:
            say(session.mesh, *messages)
            return None
        with pytest.raises(Error) as caught:
            session.load("x.npy", owner=OWNER, limit=1 << 20)
        return caught.value

    return [error for error in tacit.run(main) if error is not None]


def word(**changes):
    file = {"form": "tensor", "classes": 0, "tensors": [["", [2, 3], "float32"]]}
    fields = {
        "owner": OWNER,
        "shape": None,
        "dtype": None,
        "limit": 1 << 62 - 1,
        "columns": None,
        "failure": "",
    }
    return json.dumps(fields | {"file": file | changes.pop("file", {})} | changes).encode()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        word(owner=True),
        word(limit=-1),
        word(failure="x" * 1001),
        word(failure="line\n\x1b[31m"),
        word(shape=[-1]),
        word(dtype="object"),
        word(more=1),
        word(file={"form": "tuple"}),
        word(file={"form": "pictures"}),
        word(file={"tensors": []}),
        word(file={"tensors": [["", [1] * 17, "float32"]]}),
        word(file={"tensors": [["", [1.0], "float32"]]}),
        word(file={"tensors": [["", [1 << 63], "float32"]]}),
        word(file={"tensors": [["", [2], "complex64"]]}),
        word(file={"form": "dict", "tensors": [["a", [2], "int8"]] * 2}),
        word(file={"form": "dict", "tensors": [["a" * 257, [2], "int8"]]}),
    ],
    ids=lambda message: message[-60:].decode("latin-1"),
)
def test_an_announcement_is_read_strictly(message):
    errors = against(message)
    assert len(errors) == 2
    assert all(isinstance(error, ProtocolDesync) and error.party == OWNER for error in errors)


def test_an_announcement_beyond_the_limit_allocates_nothing():
    for error in against(word(file={"tensors": [["", [1 << 40, 1 << 21], "float32"]]}), b""):
        assert isinstance(error, DataRejected)
        assert "limit=1048576" in str(error)


def test_malformed_announcements():
    """Read as one that could have been written, or not at all."""
    for done, message in mutations(word(), seed=5, count=400):
        try:
            read = decode_message(message)
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        assert decode_message(encode_message(read)) == read, done


def test_all_parties_agree_on_malformed_files(tmp_path):
    """Each is loaded by all parties or refused at all, and the next one is loaded after it."""
    write_csv(tmp_path / "a.csv", PIXELS[:5, :6], LABELS[:5])
    np.savez(tmp_path / "a.npz", **columns(PIXELS[:5, :6], LABELS[:5]))
    paths = []
    for source in (tmp_path / "a.csv", tmp_path / "a.npz"):
        for number, (_, data) in enumerate(mutations(source.read_bytes(), seed=3, count=30)):
            paths.append(tmp_path / f"{number}{source.suffix}")
            paths[-1].write_bytes(data)

    def main(session):
        outcomes = []
        for path in paths:
            try:
                session.load(path if session.rank == OWNER else None, owner=OWNER)
                outcomes.append("")
            except DataRejected as error:
                outcomes.append(type(error).__name__)
        return outcomes

    first, second, third = tacit.run(main)
    assert first == second == third
    assert "DataRejected" in first


def test_a_run_names_the_owner_whichever_party_raises_first(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age\n61\nold\n")
    another_raised = Event()

    def main(session):
        try:
            session.load(path if session.rank == OWNER else None, owner=OWNER)
        except DataRejected:
            if session.rank == OWNER:
                another_raised.wait(60)
            another_raised.set()
            raise

    with pytest.raises(PartyFailed) as caught:
        tacit.run(main)
    assert caught.value.party == OWNER
    assert f"{path} at line 3, column 1 ('age')" in str(caught.value)
