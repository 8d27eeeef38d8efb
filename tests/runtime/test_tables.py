"""`session.load` of tables as people have them: exports of hospitals, awkward csv, frames."""

import csv
import datetime
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime import hospital_exports as hospital
from tests.runtime.test_files import OWNER, loaded, refusal, same
from tests.tiers import draws
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.errors import ConfigError, DataRejected
from tacit.runtime.files import csv_table
from tacit.runtime.files.contents import Budget, FileRejected, Options
from tacit.runtime.files.loading import reading_options
from tacit.runtime.files.reading import read
from tacit.tables import Category, Csv, Date, Integer, Number, Truth, column_names

LIMIT = 1 << 24


def table(path, **options):
    """What the owner reads, as lists: by name, or a matrix."""
    tensors = read(path, reading_options(LIMIT, **options)).tensors
    if list(tensors) == [""]:
        return tensors[""].tolist()
    return {name: tensor.tolist() for name, tensor in tensors.items()}


def rejected(path, **options):
    """The reason that all parties see, and the place that only the owner sees."""
    with pytest.raises(FileRejected) as caught:
        table(path, **options)
    return caught.value.reason + "|" + caught.value.place


# Two hospitals ------------------------------------------------------------------------------------


@pytest.fixture
def exports(tmp_path):
    clinic, practice = hospital.patients(40, seed=1), hospital.patients(30, seed=2)
    hospital.write_clinic(tmp_path / "klinik.csv", clinic)
    hospital.write_practice(tmp_path / "practice.csv", practice)
    return tmp_path, clinic, practice


def test_two_hospitals_exports_are_loaded_and_trained_on(exports):
    folder, clinic, practice = exports
    wanted = torch.tensor(np.concatenate(list(map(hospital.expected, (clinic, practice)))))
    labels = torch.tensor([float(row[-1]) for row in clinic + practice])

    def main(session):
        found = []
        for owner, form in enumerate((hospital.CLINIC, hospital.PRACTICE)):
            path = folder / form["path"] if session.rank == owner else None
            shape = (None, hospital.WIDTH)
            for columns, size in ((hospital.FEATURES, shape), (hospital.LABEL, (None, 1))):
                options = {"columns": columns, "shape": size}
                found.append(session.load(path, owner, csv=form["csv"], **options))
        x, y = torch.cat(found[0::2]), torch.cat(found[1::2])[:, 0].float()
        torch.manual_seed(0)
        model = session.share(nn.Linear(hospital.WIDTH, 1), owner=2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scale = torch.tensor([0.01, 1, 1, 0.05] + [1] * 7)
        losses = []
        for _ in range(6):
            loss = F.binary_cross_entropy_with_logits(model(x * scale)[:, 0], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return session.reveal([x, y, losses[0], losses[-1]])

    for x, y, first, last in tacit.run(main):
        torch.testing.assert_close(x, wanted, rtol=0, atol=2**-15)
        assert torch.equal(y, labels)
        assert last < first - 0.05
    assert len(column_names(hospital.FEATURES)) == hospital.WIDTH


@pytest.mark.parametrize("who", range(3))
@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"sex": Category(["m", "f"])}, "columns['sex']"),
        ({"sex": Category(["f", "m", "x"])}, "columns['sex']"),
        ({"sex": Category(["f", "m"], codes=True)}, "columns['sex']"),
        ({"sex": Category(["f", "m"], missing="indicator")}, "columns['sex']"),
        ({"age": Number()}, "columns["),
        (["sex"], "nothing"),
        (None, "nothing"),
    ],
)
def test_all_parties_declare_the_same(tmp_path, other, words, who):
    (tmp_path / "a.csv").write_text("sex,age\nf,1\nm,2\n")

    def main(session):
        columns = other if session.rank == who else {"sex": Category(["f", "m"])}
        with pytest.raises(ConfigError, match="the parties differ in") as caught:
            session.load(tmp_path / "a.csv", owner=OWNER, columns=columns)
        return str(caught.value)

    messages = tacit.run(main)
    assert len(set(messages)) == 1
    assert words in messages[0]
    assert "every party gives the same columns=" in messages[0]


def test_a_column_of_a_declared_table_may_be_chosen_by_number(tmp_path):
    (tmp_path / "a.csv").write_text("f,3\nm,4\n")
    columns = {1: Integer(), 0: Category(["f", "m"], codes=True)}
    got = loaded(tmp_path / "a.csv", columns=columns, header=False)
    same(got, [[3, 0], [4, 1]], torch.int64)


# Awkward csv --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "options", "want"),
    [
        (b"a;b\n1;2\n3;4\n", {}, {"a": [1, 3], "b": [2, 4]}),
        (b"a\tb\n1\t2\n", {}, {"a": [1], "b": [2]}),
        (b"a|b\n1|2\n", {}, {"a": [1], "b": [2]}),
        (b"a:b\n1:2\n", {"csv": Csv(separator=":")}, {"a": [1], "b": [2]}),
        (b"a\n1\n2\n", {}, {"a": [1, 2]}),
        (b"a;b\r\n1,5;2\r\n", {"csv": Csv(decimal=",")}, {"a": [1.5], "b": [2]}),
        (b'a,b\n"1,5","2"\n', {"csv": Csv(decimal=",")}, {"a": [1.5], "b": [2]}),
        (b'a,b\n"1,234.5",2\n', {"csv": Csv(thousands=",")}, {"a": [1234.5], "b": [2]}),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", {}, {"a": [1], "b": [2]}),
        (b"gr\xf6\xdfe\n1\n", {"csv": Csv(encoding="latin-1")}, {"größe": [1]}),
        (b",a\n0,5\n1,6\n", {"without": [0]}, {"a": [5, 6]}),
        (b"id,a,a\n0,5,6\n", {"columns": ["id"]}, [[0]]),
        (b",a,a\n0,5,6\n", {"columns": [2, 1]}, [[6, 5]]),
        (b"id,a\n0,5\n", {"without": ["id"]}, {"a": [5]}),
        (b'a,note\n1,"x;y\n\n""q"""\n2,z\n', {"without": ["note"]}, {"a": [1, 2]}),
        (b"a,b\nTrue,1e3\nFALSE,2\n", {}, {"a": [True, False], "b": [1000.0, 2.0]}),
        (b"true,1\nfalse,2\n", {}, [[1, 1], [0, 2]]),
        (b"a,b\n1,\nNA,3\n", {"missing": "mean"}, {"a": [1, 1], "b": [3, 3]}),
        (b"a,b\n1,\n2,3\n", {"missing": 0}, {"a": [1, 2], "b": [0, 3]}),
        (
            b"a,b\n1,\n2,3\n",
            {"missing": "indicator", "columns": ["b", "a"]},
            [[0, 1, 1, 0], [3, 0, 2, 0]],
        ),
        (
            b"a\n \n#N/A\n-nan\n7\n",
            {"missing": "indicator"},
            {"a": [0, 0, 0, 7], "a missing": [1, 1, 1, 0]},
        ),
        (b"a , b\n 1 , 2 \n", {}, {"a": [1], "b": [2]}),
    ],
    ids=str,
)
def test_csv_as_it_comes(tmp_path, data, options, want):
    (tmp_path / "t.csv").write_bytes(data)
    assert table(tmp_path / "t.csv", **options) == want


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (b"", {}, "it is empty|"),
        (b"\xef\xbb\xbf", {}, "it is empty|"),
        (b"a;b\n", {}, "it has no rows|"),
        (b"a;b\n1,5;2\n", {}, "another decimal mark|line 2, column 1 ('a')"),
        (b"a;b\n1;2\n3;1.234,5\n", {}, "between thousands|line 3, column 2 ('b')"),
        (b"a\n28.02.2026\n", {}, "a cell is a date: columns={...}|line 2, column 1 ('a')"),
        (b"a\n1\nyes\n", {}, "a cell is text|line 3"),
        (b"a\n1\ntrue\n", {}, "a truth value among others|line 3"),
        (b"a\n<5\n", {}, "such as a unit or <|line 2"),
        (b"a,b\n1,2\n3\n", {}, "separator=|line 3: 1, not 2"),
        (b"a,b\n1,2\n3,4,5\n", {}, "separator=|line 3: 3, not 2"),
        (b"1,5;2,5\n1,5;2,5\n", {}, "several separators of columns fit|"),
        (b"gr\xf6\xdfe\n1\n", {}, "it is not utf-8: csv=tacit.tables.Csv(encoding=|line 1"),
        (b"a\0\n1\n", {}, "cannot be announced|"),
        (b"a,a\n1,2\n", {"columns": ["a"]}, "several of its columns have that name|"),
        (b"a,b,b\n1,2,3\n", {}, "the same name: without=|column 2 ('b')"),
        (b"a\n1\n", {"without": ["a"]}, "without= leaves no column|"),
        (b"a\n1\n", {"without": ["b"]}, "without='b': it has no column of that name|"),
        (b"a,a missing\n1,2\n", {"missing": "indicator"}, "the name of another column|"),
        (b"a\nNA\n", {"missing": "mean"}, "all cells of a column are missing|column 1 ('a')"),
        (b"true,3.5,x\n", {}, "the first line has names and numbers|"),
        (b"NA,false\n1,true\n", {"missing": 0, "columns": ["NA"]}, "no names of columns|"),
    ],
    ids=str,
)
def test_csv_that_is_refused_says_what_and_where(tmp_path, data, options, words):
    (tmp_path / "t.csv").write_bytes(data)
    if "announced" in words:
        assert "cannot be announced" in refusal(tmp_path / "t.csv", **options)
        return
    reason, place = words.split("|")
    told = rejected(tmp_path / "t.csv", **options).split("|")
    assert reason in told[0]
    assert place in told[1]


def test_compressed_csv(tmp_path):
    text = b"a;b\r\n1;2,5\r\n3;4,5\r\n"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text))
    assert table(tmp_path / "t.csv.gz", csv=Csv(decimal=",")) == {"a": [1, 3], "b": [2.5, 4.5]}
    (tmp_path / "T.TSV.GZ").write_bytes(gzip.compress(b"a\tb\n1\tx\n"))
    told = rejected(tmp_path / "T.TSV.GZ").split("|")
    assert "a cell is text" in told[0]
    assert "line 2, column 2 ('b')" in told[1]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("t.csv.gz", b"a\n1\n", "it is damaged, or of another format"),
        ("t.csv.gz", gzip.compress(b"a\n" + b"1\n" * 999, mtime=0)[:30], "it is damaged"),
        ("t.csv", gzip.compress(b"a\n1\n", mtime=0), "it is not utf-8"),
        ("t.zip", b"PK", "unpack it"),
        ("t.csv.zip", b"PK", "unpack it"),
        ("t.xlsx", b"PK", "save one as .csv"),
        ("t.txt", b"a\n1\n", "its suffix is none of .npy"),
    ],
)
def test_files_of_other_formats_are_refused(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    assert words in rejected(tmp_path / name)


def test_no_party_but_the_owner_is_told_where(tmp_path):
    (tmp_path / "t.csv").write_text("sex,born\nf,1.2.1990\nZanzibar,3.4.1991\n")
    told = refusal(tmp_path / "t.csv", columns={"sex": Category(["f", "m"])})
    assert "line 3, column 1 ('sex')): a cell is none of the declared texts" in told
    assert "Zanzibar" not in told
    wrong = {"born": Date("1990-01-01", "%Y-%m-%d")}
    assert "line 2, column 2 ('born')): a cell is no date" in refusal(
        tmp_path / "t.csv", columns=wrong
    )


CELL = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=8)
TEXTS = st.lists(CELL.filter(lambda text: text.strip() == text and text), unique=True, min_size=1)


@draws(60)
@given(st.data(), TEXTS, st.sampled_from(",;\t|:"), st.sampled_from(["\n", "\r\n", "\r"]))
def test_what_csv_writes_is_read(tmp_path_factory, data, texts, separator, end):
    rows = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(texts), st.integers(-(2**40), 2**40), st.floats(-1e6, 1e6), CELL
            ),
            min_size=1,
            max_size=5,
        )
    )
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator=end)
        writer.writerow(["text", "integer", "real", "note"])
        writer.writerows(rows)
    columns = {"text": Category(texts, codes=True), "integer": Integer()}
    text = Csv(separator=separator)
    assert table(path, columns=columns, csv=text, header=True) == [
        [texts.index(row[0]), row[1]] for row in rows
    ]
    real = table(path, columns={"real": Number()}, csv=text, header=True)
    assert real == [[float(np.float32(row[2]))] for row in rows]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_large_files_are_read_in_parts(tmp_path, monkeypatch, end):
    """Missing cells, categories and the mean are right across the chunks of a file."""
    count = 2000
    monkeypatch.setattr(csv_table, "CHUNK", 1000)
    lines = [f"{i};{'' if i % 3 else i % 7};{'ab'[i % 2]}" for i in range(count)]
    (tmp_path / "t.csv").write_bytes("".join(line + end for line in ["i;x;c", *lines]).encode())
    columns = {"i": Integer(), "x": Number(missing="mean"), "c": Category(["a", "b"])}
    got = read(tmp_path / "t.csv", reading_options(1 << 26, columns=columns)).tensors[""]
    present = torch.arange(0, count, 3)
    mean = (present % 7).double().mean().float()
    want = torch.where(torch.arange(count) % 3 == 0, (torch.arange(count) % 7).float(), mean)
    assert torch.equal(got[:, 1], want)
    assert torch.equal(got[:, 2], (torch.arange(count) % 2 == 0).float())
    lines[-1] = "1;x;a"
    (tmp_path / "t.csv").write_bytes("".join(line + end for line in ["i;x;c", *lines]).encode())
    assert f"line {count + 1}, column 2" in rejected(tmp_path / "t.csv", columns=columns)


# Parquet and frames -------------------------------------------------------------------------------


DAYS = [datetime.date(2026, 1, 2), None, datetime.date(2026, 1, 5)]
COLUMNS = {
    "age": Number(missing="mean"),
    "sex": Category(["f", "m"], missing="indicator"),
    "day": Date("2026-01-01", missing=0),
    "ok": Truth(missing=False),
    "count": Integer(),
    "level": Category([1, 2, 3], codes=True),
}
WANT = [[2, 0, 1, 0, 1, 1, 7, 1], [3, 0, 0, 1, 0, 0, 8, 0], [4, 1, 0, 0, 4, 0, 9, 2]]


def arrow_table():
    return pa.table(
        {
            "age": pa.array([2.0, None, 4.0]),
            "sex": pa.array(["m", None, "f"]).dictionary_encode(),
            "day": pa.array(DAYS),
            "ok": pa.array([True, None, False]),
            "count": pa.array([7, 8, 9], pa.int16()),
            "level": pa.array([2, 1, 3]),
        }
    )


def test_parquet_with_declared_columns(tmp_path):
    pq.write_table(arrow_table(), tmp_path / "t.parquet")
    same(loaded(tmp_path / "t.parquet", columns=COLUMNS), WANT, torch.float32)
    told = refusal(tmp_path / "t.parquet", columns={"sex": Category(["f", "m"])})
    assert "row 1, column 2 ('sex')): a cell is empty" in told
    told = refusal(tmp_path / "t.parquet", columns={"age": Truth(missing=True)})
    assert "a cell is a number that is neither 0 nor 1" in told
    got = loaded(tmp_path / "t.parquet", without=["sex", "day"], missing="indicator")
    assert got["ok missing"].tolist() == [False, True, False]
    assert got["age"].tolist() == [2, 0, 4]
    assert got["age"].dtype == torch.float64


def test_parquet_of_lists_and_bytes_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [[1], [2]], "b": [b"x", b"y"]}), tmp_path / "t.parquet")
    for column in ("a", "b"):
        words = "neither of numbers nor of text nor of dates"
        assert words in rejected(tmp_path / "t.parquet", columns={column: Number()})
        assert "not of numbers" in rejected(tmp_path / "t.parquet", columns=[column])


def frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {
        "age": [2.0, float("nan"), 4.0],
        "sex": ["m", None, "f"],
        "day": DAYS,
        "ok": [True, None, False],
        "count": [7, 8, 9],
        "level": [2, 1, 3],
    }
    frame = pandas.DataFrame(columns, index=["x", "y", "z"])
    frame["day"] = pandas.to_datetime(frame["day"])
    frame["sex"] = frame["sex"].astype("category")
    return frame, polars.DataFrame(columns)


def test_frames_are_loaded():
    for frame in (*frames(), arrow_table()):
        same(loaded_data(frame, columns=COLUMNS), WANT, torch.float32)
        assert "not of numbers" in rejected(frame)
        assert table(frame, columns=["count"]) == [[7], [8], [9]]
        got = loaded_data(frame, without=["sex", "day", "ok"], missing="mean")
        assert {name: values.tolist() for name, values in got.items()} == {
            "age": [2, 3, 4],
            "count": [7, 8, 9],
            "level": [2, 1, 3],
        }


def loaded_data(data, **options):
    def main(session):
        mine = data if session.rank == OWNER else None
        return session.reveal(session.load(mine, OWNER, **options))

    first, *others = tacit.run(main)
    assert all(str(other) == str(first) for other in others)
    return first


def test_frames_of_numbers_are_shared():
    for frame in frames():

        def main(session, frame=frame):
            mine, counts = frame[["count", "level"]], frame["count"]
            table = mine if session.rank == 1 else None
            x = session.share(table, owner=1, shape=(3, 2), dtype=torch.int64)
            y = session.share({"counts": counts}, owner=0)
            with pytest.raises(ConfigError, match=r"session\.load takes a frame"):
                session.share(frame, owner=1)
            return session.reveal([x, y["counts"]])

        x, y = tacit.run(main)[2]
        assert x.tolist() == [[7, 2], [8, 1], [9, 3]]
        assert y.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    "data",
    [
        torch.arange(6.0).reshape(2, 3),
        np.arange(6).reshape(2, 3),
        [[1, 2], [3, 4]],
        2.5,
        {"x": np.zeros((2, 2)), "y": [1, 2]},
        torch.zeros(2, requires_grad=True),
    ],
    ids=str,
)
def test_data_in_memory_is_loaded_as_files_are(data):
    got = loaded_data(data)
    if isinstance(data, dict):
        assert {name: values.tolist() for name, values in got.items()} == {
            "x": [[0, 0], [0, 0]],
            "y": [1, 2],
        }
    else:
        assert got.tolist() == torch.as_tensor(data).tolist()


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (b"1", {}, "the value is no tensor"),
        ([[1], [2, 3]], {}, "the value is no tensor"),
        ([1, None], {}, "the value is no tensor"),
        ({"a": "Zanzibar"}, {}, "'a' is no tensor"),
        (np.array(["Zanzibar"]), {}, "the value is no tensor"),
        (torch.zeros(2, dtype=torch.complex64), {}, "complex64"),
        (torch.zeros(2, device="meta"), {}, "no values"),
        (float("nan"), {}, "NaN"),
        ([1.0], {"columns": [0]}, "are for tables"),
        ([1.0], {"header": True}, "are for .csv"),
    ],
    ids=str,
)
def test_data_in_memory_that_is_refused(data, options, words):
    def main(session):
        mine = data if session.rank == OWNER else None
        with pytest.raises(DataRejected, match=words) as caught:
            session.load(mine, OWNER, **options)
        return str(caught.value)

    told = str(tacit.run(main))
    assert "Zanzibar" not in told
    assert "U8" not in told, "a dtype of text tells the length of the longest"


def test_a_secret_is_not_loaded_again():
    def main(session):
        secret = session.share(torch.zeros(2), owner=0)
        with pytest.raises(DataRejected, match="secret already"):
            session.load(secret, owner=1)

    tacit.run(main)


@pytest.mark.parametrize(
    "options",
    [
        {"columns": {"a": "number"}},
        {"columns": {"a": Number}},
        {"columns": {}},
        {"columns": {"a": Number()}, "missing": "mean"},
        {"columns": ["a"], "without": ["b"]},
        {"without": "a"},
        {"missing": "median"},
        {"missing": None},
        {"csv": ";"},
    ],
    ids=str,
)
def test_settings_are_checked(options):
    with pytest.raises(ConfigError, match=list(options)[-1]):
        reading_options(LIMIT, **options)


def test_what_is_one_hot_counts_for_the_limit(tmp_path):
    (tmp_path / "t.csv").write_text("c\n" + "a\n" * 100)
    columns = {"c": Category([*"abcdefgh"])}
    with pytest.raises(FileRejected, match="limit=800"):
        read(tmp_path / "t.csv", reading_options(800, columns=columns))
    assert read(tmp_path / "t.csv", Options(Budget(6400), ("c",), (columns["c"],)))
