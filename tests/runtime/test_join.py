"""`session.join` and `session.intersect` against a merge in plain, and what is refused."""

import gzip
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.tiers import spread
from torch import nn

import tacit
from tacit import tables as tables_module
from tacit.errors import ConfigError, DataRejected, Error, RevealForbidden
from tacit.runtime.joining.bins import bin_sizes
from tacit.runtime.joining.ids import key_word_bits, num_key_words

LEFT, RIGHT = 1, 0  # the owners; the order of tables is not that of the ranks
UNIT = 2.0**16


class Untouchable:
    """The table at a party that does not have it."""

    def __getattribute__(self, name):
        raise AssertionError(f"a party that is not the owner looked at the table ({name})")


def tables(left, right, common, seed=0):
    """Two tables of so many rows, in which so many ids are the same."""
    rng = random.Random(seed)
    ids = rng.sample(range(10**6), left + right - common)
    ours, theirs = ids[:left], ids[left - common :]
    rng.shuffle(theirs)
    numbers = np.random.default_rng(seed)
    return (
        {"id": ours, "age": numbers.normal(size=left), "dose": numbers.normal(size=left)},
        {"bmi": numbers.normal(size=right), "id": [str(i) for i in theirs]},
    )


def merged(left, right, on="id"):
    """The rows that match, in units of the fixed-point numbers, sorted."""
    on = [on] if isinstance(on, str) else on

    def rows(table):
        ids = zip(*(map(str, table[name]) for name in on), strict=True)
        columns = [np.asarray(table[name], np.float32) for name in table if name not in on]
        numbers = np.stack(columns, 1) if columns else np.empty((len(table[on[0]]), 0))
        return dict(zip(ids, np.round(numbers * UNIT).tolist(), strict=True))

    ours, theirs = rows(left), rows(right)
    return sorted((*ours[one], *theirs[one]) for one in ours.keys() & theirs.keys())


def own(session, left, right):
    return (
        left if session.rank == LEFT else Untouchable(),
        right if session.rank == RIGHT else Untouchable(),
    )


def joined(session, left, right, on="id", size=None):
    """The rows that match, sorted; rows that do not are zeros."""
    made = session.join(*own(session, left, right), on=on, owners=(LEFT, RIGHT), size=size)
    table, matched = session.reveal((made.table, made.matched), to_dealer=True)
    assert set(matched.tolist()) <= {0.0, 1.0}
    assert not table[matched == 0].any()
    rows = sorted(map(tuple, (table[matched == 1].double() * UNIT).round().tolist()))
    return rows, len(made), made.names


CASES = [(0, 0, 0), (0, 5, 0), (5, 0, 0), (1, 1, 1), (1, 1, 0), (7, 9, 0), (6, 6, 6), (9, 4, 3)]


def test_the_same_rows_as_a_merge_in_plain():
    """Sizes, what matches, the compaction to a revealed and to a public size; in one session."""

    def main(session):
        for seed, case in enumerate(CASES):
            left, right = tables(*case, seed=seed)
            want, shorter = merged(left, right), min(case[:2])
            rows, count, names = joined(session, left, right)
            assert (rows, count, names) == (want, max(shorter, 1), ("age", "dose", "bmi"))
            rows, count, _ = joined(session, left, right, size="reveal")
            assert (rows, count) == (want, len(want))
            rows, count, _ = joined(session, left, right, size=max(case[2], 1))
            assert (rows, count) == (want, min(max(case[2], 1), shorter))

    tacit.run(main)


def test_tables_in_bins():
    left, right = tables(700, 500, 300)
    want = merged(left, right)

    def main(session):
        rows, count, _ = joined(session, left, right)
        assert rows == want
        assert count > 2000  # in bins
        rows, count, _ = joined(session, right, left)  # the shorter one first
        assert len(rows) == len(want)
        rows, count, _ = joined(session, left, right, size=350)
        assert (rows, count) == (want, 350)

    tacit.run(main)


PROTOCOLS = {
    "replicated": 3,
    "replicated-malicious": 3,
    "quad": 4,
    "additive": 2,
    "beaver": 3,
    "cleartext": 2,
    "enclave": 2,
}


@pytest.mark.parametrize("protocol", spread([*PROTOCOLS], quick=2))
@pytest.mark.parametrize("ring", [64, 32])
def test_every_protocol_and_both_rings(protocol, ring):
    """Bins in pieces, too: the limit of memory is small."""
    if (protocol, ring) == ("enclave", 32):
        pytest.skip("an enclave computes with floats, not in a ring")
    left, right = tables(30, 40, 12)
    left = {"id": left["id"], "age": np.round(left["age"] * 16) / 16}
    right = {"id": right["id"], "bmi": np.round(right["bmi"] * 16) / 16}
    want = merged(left, right)

    def main(session):
        assert joined(session, left, right, size="reveal")[:2] == (want, 12)
        found = session.intersect(*own(session, left, right), "id", owners=(LEFT, RIGHT), to=LEFT)
        both = {*map(str, left["id"])} & {*right["id"]}
        wanted = [str(one) in both for one in left["id"]]
        assert (None if found is None else found.tolist()) == (
            wanted if session.rank == LEFT else None
        )

    options = {} if protocol == "enclave" else {"memory_limit": 1 << 20}
    bits = {"ring": 32, "fraction_bits": 8} if ring == 32 else {}
    tacit.run(main, parties=PROTOCOLS[protocol], protocol=protocol, **bits, **options)


def test_ids_of_several_columns_and_both_kinds():
    left = {
        "clinic": ["a", "a|b", "ab", "é", "x", "1"],
        "number": [1, 2, 3, 4, 5, "01"],
        "age": [1, 2, 3, 4, 5, 6],
    }
    right = {
        "number": ["1", "b|2", "2", "4", "5", 1],
        "clinic": ["a", "a", "a|b", "e\u0301", "x", 1],
        "bmi": torch.arange(6),
    }
    want = merged(left, right, ["clinic", "number"])
    assert len(want) == 3

    def main(session):
        assert joined(session, left, right, on=["clinic", "number"])[0] == want

    tacit.run(main)


def test_who_learns_what_of_an_intersection():
    left, right = tables(300, 200, 120)
    both = {*map(str, left["id"])} & {*right["id"]}

    def main(session):
        results = {}
        for to in (LEFT, RIGHT):
            before = len(session.reveals)
            results[to] = session.intersect(
                *own(session, left, right), "id", owners=(LEFT, RIGHT), to=to
            )
            [entry] = session.reveals[before:]
            assert entry.to == (f"party{to}",)
        return results

    found = tacit.run(main)
    for owner, table in ((LEFT, left), (RIGHT, right)):
        wanted = [str(one) in both for one in table["id"]]
        assert found[owner][owner].tolist() == wanted
        assert [found[rank][owner] for rank in range(3) if rank != owner] == [None, None]


def test_a_join_reveals_nothing_but_what_it_was_asked_for():
    left, right = tables(9, 7, 4)

    def main(session):
        tables = own(session, left, right)
        session.join(*tables, "id", owners=(LEFT, RIGHT))
        assert session.reveals == []
        session.join(*tables, "id", owners=(LEFT, RIGHT), size=7)  # no table has more rows
        assert session.reveals == []
        session.join(*tables, "id", owners=(LEFT, RIGHT), size=5)
        session.join(*tables, "id", owners=(LEFT, RIGHT), size="reveal")
        assert [(one.shape, one.dtype) for one in session.reveals] == [((), "bool"), ((), "int64")]

    tacit.run(main)


def test_messages_do_not_depend_on_the_data():
    """As many messages, of as many bytes, whatever matches."""

    def main(session, left, right):
        session.join(*own(session, left, right), "id", owners=(LEFT, RIGHT), size=200)
        stats = session.stats
        return stats.bytes_sent, stats.messages, stats.rounds

    runs = [tacit.run(main, *tables(500, 400, common, seed=common)) for common in (0, 150, 200)]
    assert runs[0] == runs[1] == runs[2]


# Refusals ---------------------------------------------------------------------------------------


def refused(left, right, on="id", **options):
    """The error that every party raises."""

    def main(session):
        try:
            session.join(*own(session, left, right), on, owners=(LEFT, RIGHT), **options)
        except Error as error:
            assert session.reveals == [] or "size" in options
            return error
        raise AssertionError("nothing was refused")

    errors = tacit.run(main)
    assert len({type(error) for error in errors}) == 1
    return errors


GOOD = {"id": ["anna", "berta"], "age": [1.0, 2.0]}
OTHER = {"id": ["anna", "carla"], "bmi": [1.0, 2.0]}
WRONG = {
    "an id comes twice": ({"id": ["anna", "anna"], "age": [1, 2]}, "rows 0 and 1"),
    "an id is missing": ({"id": ["anna", None], "age": [1, 2]}, "row 1"),
    "neither a text nor an integer": ({"id": [1.5, 2.5], "age": [1, 2]}, "row 0"),
    "no column of that name": ({"key": ["anna"], "age": [1]}, ""),
    "different numbers of rows": ({"id": ["anna"], "age": [1, 2]}, ""),
    "'age' has a cell that is no number": ({"id": ["anna"], "age": ["anna"]}, ""),
    "'age' has a number that is NaN": ({"id": ["anna"], "age": [float("nan")]}, "at 0"),
    "'age' is no column": ({"id": ["anna"], "age": [[1.0]]}, ""),
    "a name of a column is a int": ({"id": ["anna"], 3: [1.0]}, ""),
    "a dict of columns": (17, ""),
}


@pytest.mark.parametrize("reason", spread([*WRONG], quick=4))
def test_a_table_that_is_not_usable(reason):
    table, place = WRONG[reason]
    errors = refused(table, OTHER)
    for rank, error in enumerate(errors):
        assert isinstance(error, DataRejected)
        assert error.party == LEFT
        assert reason in str(error)
        assert "anna" not in str(error)
        assert (place in str(error)) == (rank == LEFT or not place)


def test_arguments_that_are_refused(tmp_path):
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(b"id,bmi\n1,2\n")

    def main(session):
        with pytest.raises(ConfigError, match="two owners"):
            session.join(GOOD, OTHER, "id", owners=(0, 0))
        with pytest.raises(ConfigError, match="on="):
            session.join(GOOD, OTHER, [], owners=(0, 1))
        with pytest.raises(ConfigError, match="size="):
            session.join(GOOD, OTHER, "id", size=0)
        with pytest.raises(ConfigError, match="one of the two owners"):
            session.intersect(GOOD, OTHER, "id", to=2)
        with pytest.raises(ConfigError, match="the parties differ in on="):
            session.join(GOOD, OTHER, "id" if session.rank else "key")
        with pytest.raises(ConfigError, match="both tables have a column 'age'"):
            session.join(GOOD, GOOD, "id")
        with pytest.raises(ConfigError, match="size=1: more rows match"):
            session.join({"id": [1, 2, 3]}, {"id": [3, 4, 1]}, "id", size=1)
        with pytest.raises(ConfigError, match="no column of the joined table"):
            session.join(GOOD, OTHER, "id")["weight"]
        with pytest.raises(DataRejected, match="cannot be read"):
            session.join(GOOD, tmp_path / "missing.csv", "id")
        with pytest.raises(DataRejected, match="damaged, or of another format"):
            session.join(GOOD, damaged, "id")
        with pytest.raises(DataRejected, match="save one as"):
            session.join(GOOD, tmp_path / "table.xlsx", "id")

    tacit.run(main)


def test_the_policy_decides_before_anything_is_shared():
    def main(session):
        with pytest.raises(RevealForbidden), session.stats.scope("intersect") as spent:
            session.intersect(GOOD, OTHER, "id", to=1)
        assert spent.bytes_sent == 0
        found = session.intersect(GOOD, OTHER, "id", to=0)
        assert (found is None) == (session.rank != 0)
        for size in (1, "reveal"):
            with pytest.raises(RevealForbidden), session.stats.scope("join") as spent:
                session.join(GOOD, OTHER, "id", size=size)
            assert spent.bytes_sent < 250  # sizes and names
        assert len(session.join(GOOD, OTHER, "id", size=2)) == 2

    tacit.run(main, reveals=[0])


# Uses -------------------------------------------------------------------------------------------


def test_csv_files_and_columns(tmp_path):
    """The other parties need no path; names are those of the files."""
    (tmp_path / "a.csv").write_text('id,"age, in years"\nx1,30\n007,40\n"a,b",50\n')
    (tmp_path / "b.csv.gz").write_bytes(
        gzip.compress("bmi,id\n20.5,007\n30.25,7\n21,x1\n".encode("utf-8-sig"))
    )

    def main(session):
        made = session.join(
            *own(session, tmp_path / "a.csv", str(tmp_path / "b.csv.gz")),
            "id",
            owners=(LEFT, RIGHT),
            size="reveal",
        )
        assert repr(made) == "Joined(2 rows, columns 'age, in years', 'bmi')"
        matrix = session.reveal(made[["bmi", "age, in years"]])
        assert sorted(matrix.tolist()) == [[20.5, 40], [21, 30]]
        assert torch.equal(session.reveal(made["bmi"]), matrix[:, 0])

    tacit.run(main)


def test_tables_as_hospitals_export_them(tmp_path):
    """Semicolons, a decimal comma, a category, empty cells; and a parquet file."""
    rows = ["Nr;Alter;Station", "0012;61,5;A", "13;;B", "x-1;70,25;A"]
    (tmp_path / "a.csv").write_text("\n".join(rows), encoding="latin-1")
    ids = pa.array(["13", "0012", "y"])
    pq.write_table(pa.table({"Nr": ids, "dose": [1.5, 2.0, 3.0]}), tmp_path / "b.parquet")
    csv = tables_module.Csv(decimal=",", encoding="latin-1")
    columns = {
        "Alter": tables_module.Number(missing="indicator"),
        "Station": tables_module.Category(["A", "B"]),
        "dose": tables_module.Number(),
    }

    def main(session):
        paths = own(session, tmp_path / "a.csv", tmp_path / "b.parquet")
        made = session.join(
            *paths, "Nr", owners=(LEFT, RIGHT), size="reveal", columns=columns, csv=csv
        )
        assert made.names == ("Alter", "Alter missing", "Station=A", "Station=B", "dose")
        found = sorted(session.reveal(made.table).tolist())
        assert found == [[0.0, 1.0, 0.0, 1.0, 1.5], [61.5, 0.0, 1.0, 0.0, 2.0]]

    tacit.run(main)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames(package):
    frames = pytest.importorskip(package)
    left, right = tables(8, 9, 5)
    want = merged(left, right)

    def main(session):
        assert joined(session, frames.DataFrame(left), frames.DataFrame(right))[0] == want

    tacit.run(main)


def test_two_hospitals_train_on_what_they_share():
    """Weights of unmatched rows are 0: the same steps as in plain on the rows that match."""
    rng = np.random.default_rng(3)
    left, right = tables(60, 50, 40)
    both = {str(one): i for i, one in enumerate(left["id"])}
    right["ill"] = [float(rng.random() < 0.5) for _ in right["id"]]
    for row, one in enumerate(right["id"]):
        if one in both:
            right["ill"][row] = float(left["age"][both[one]] + right["bmi"][row] > 0)

    def steps(model, x, y, weight, count):
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for _ in range(5):
            optimizer.zero_grad()
            logits = model(x).squeeze(1)
            losses = nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
            ((losses * weight).sum() / count).backward()
            optimizer.step()
        return model.weight.detach()

    def start():
        model = nn.Linear(3, 1)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        return model

    def main(session):
        made = session.join(*own(session, left, right), "id", owners=(LEFT, RIGHT))
        model = session.share(start(), owner=0)
        x = made[["age", "dose", "bmi"]]
        return session.reveal(steps(model, x, made["ill"], made.matched, 40))

    rows = torch.tensor(merged(left, right)) / UNIT
    want = steps(start(), rows[:, :3], rows[:, 3], torch.ones(40), 40)
    torch.testing.assert_close(tacit.run(main)[0], want, rtol=0, atol=2e-3)


def test_a_repeated_join_reads_its_tables_each_time():
    def main(session):
        mine = {**GOOD, "age": [0.0, 2.0]}
        step = session.repeated(lambda: session.join(mine, OTHER, "id").table.sum())
        for age in range(5):
            mine["age"][0] = float(age)
            assert float(session.reveal(step())) == age + 1.0
        assert "it joins tables" in step.summary()

    tacit.run(main)


# Cost -------------------------------------------------------------------------------------------


def declared(protocol, sizes, columns):
    """The bytes that each party sends for one piece of bins: inputs, equality, bits, products."""
    costs, ring = protocol.costs, protocol.ring.bits
    bins, pairs, words = sizes.bins, sizes.bins * sizes.load, num_key_words(sizes, ring)
    first, second = (0, columns[0]), (1, columns[1])  # owners and numbers of columns
    parts = [
        costs.share(words * bins, first[0]),
        costs.share(first[1] * bins, first[0]),
        costs.share(words * pairs, second[0]),
        costs.share(second[1] * pairs, second[0]),
        *[costs.is_zero(pairs, key_word_bits(sizes, ring) + 1)] * words,
        *[costs.bit_and(pairs, 1, 2)] * (words - 1),
        costs.inject_sums(pairs, 1, False, 1),
        costs.bilinear(first[1] * bins),
        costs.bilinear(second[1] * bins),
    ]
    sent = [0] * protocol.parties
    for part in parts:
        for (sender, _, _), bits in part.bits.items():
            sent[sender] += bits // 8
    return sent


@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize("protocol", ["trio", "replicated", "quad"])
def test_bytes_are_as_declared(protocol, ring):
    left, right = tables(20, 30, 9)
    sizes = bin_sizes(20, 30)

    def main(session):
        with session.stats.scope("joined") as spent:
            session.join(left, right, "id")
        return spent.bytes_sent, declared(session.protocol, sizes, (2, 1))

    found = tacit.run(
        main,
        parties=4 if protocol == "quad" else 3,
        protocol=protocol,
        ring=ring,
        fraction_bits=8,
    )
    for rank, (counted, wanted) in enumerate(found):
        told = counted - wanted[rank]  # in two rounds before: arguments, sizes, names of columns
        assert 0 < told < 250, (rank, counted, wanted[rank])
