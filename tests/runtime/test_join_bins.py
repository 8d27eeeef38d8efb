"""Bins of a join: every row that may match is compared once, and the chances of a failure."""

import math
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from tests.tiers import draws

from tacit.errors import ProtocolError
from tacit.runtime.files.contents import FileRejected
from tacit.runtime.joining.bins import (
    CANDIDATES,
    EXPANSION,
    FEWEST,
    SECURITY_BITS,
    BinSizes,
    bin_sizes,
    place_all,
    place_once,
)
from tacit.runtime.joining.ids import (
    EMPTY_FIRST,
    EMPTY_SECOND,
    candidate_bins,
    encoded_ids,
    hashed_ids,
    key_word_bits,
    keys,
    num_key_words,
)

SEED = bytes(range(32))
ROWS = st.integers(0, 3000)


def hashes(count, start=0):
    return hashed_ids(encoded_ids([range(start, start + count)]), SEED)


# Ids --------------------------------------------------------------------------------------------

CELL = st.one_of(st.integers(), st.text(min_size=1, max_size=4))


@draws(200)
@given(st.tuples(CELL, CELL), st.tuples(CELL, CELL))
def test_ids_are_equal_exactly_if_all_texts_are(a, b):
    same = [str(cell) for cell in a] == [str(cell) for cell in b]
    one, other = (encoded_ids([[cell] for cell in row]) for row in (a, b))
    assert (one == other) == same


def test_cells_do_not_run_into_each_other():
    pairs = [("a|b", "c"), ("a", "b|c"), ("ab", "c"), ("a", "bc"), ("1", "23"), ("12", "3")]
    assert len({*encoded_ids(list(zip(*pairs, strict=True)))}) == len(pairs)


def test_texts_are_compared_as_bytes():
    ways = [unicodedata.normalize(form, "é") for form in ("NFC", "NFD")]
    assert len({*encoded_ids([[*ways, "E", "e", " e", "01", 1, "\ud800"]])}) == 8
    assert encoded_ids([[1]]) == encoded_ids([["1"]]) == encoded_ids([np.array([1])])


@pytest.mark.parametrize("cell", [None, "", float("nan"), 1.0, True, b"a", np.float32(2)])
def test_what_is_no_id_is_refused_without_showing_it(cell):
    with pytest.raises(FileRejected) as caught:
        encoded_ids([["a", cell]])
    assert "row 1" in caught.value.place
    assert "row" not in caught.value.reason
    assert repr(cell) not in caught.value.reason + caught.value.place


def test_an_id_that_comes_twice_is_refused_by_its_rows():
    with pytest.raises(FileRejected) as caught:
        encoded_ids([["anna", "berta", 7, "7"]])
    assert "rows 2 and 3" in caught.value.place
    assert not any(text in caught.value.reason for text in ("anna", "7"))


# Keys -------------------------------------------------------------------------------------------


@draws(60)
@given(st.sampled_from([32, 64]), st.integers(2, 120))
def test_keys_are_the_lowest_bits_of_the_fingerprint(ring, bits):
    sizes = BinSizes(1, 1, bits, False)
    words, width = num_key_words(sizes, ring), key_word_bits(sizes, ring)
    assert words * width >= bits
    assert width < ring
    made = keys(hashes(20), sizes, ring)
    assert made.shape == (20, words)
    assert 0 <= int(made.min()) <= int(made.max()) < 1 << width
    for row, found in zip(hashes(20).tolist(), made.tolist(), strict=True):
        fingerprint = ((row[0] << 1) % (1 << 64)) | row[1] << 64
        key = sum(word << (i * width) for i, word in enumerate(found))
        assert key == fingerprint % (1 << (words * width))
        assert key % 2 == 0
    assert EMPTY_FIRST % 2 == EMPTY_SECOND % 2 == 1 != EMPTY_SECOND - EMPTY_FIRST


# Placement --------------------------------------------------------------------------------------


@draws(40)
@given(ROWS, ROWS, st.integers(0, 3000))
def test_two_rows_with_the_same_id_meet_in_exactly_one_bin(first, second, offset):
    first, second = sorted((first, second))
    sizes = bin_sizes(first, second)
    ours, theirs = hashes(first), hashes(second, offset)
    once = place_once(candidate_bins(ours, sizes), sizes, first)
    everywhere = place_all(candidate_bins(theirs, sizes), sizes, second)
    assert sorted(once.rows) == list(range(first))
    assert len({*once.bins}) == first
    assert max(once.bins, default=0) < sizes.bins
    assert len({*zip(everywhere.bins, everywhere.slots, strict=True)}) == len(everywhere.rows)
    in_bin = {(b, r + offset) for b, r in zip(everywhere.bins, everywhere.rows, strict=True)}
    met = [row for b, row in zip(once.bins, once.rows, strict=True) if (b, row) in in_bin]
    assert sorted(met) == sorted({*range(first)} & {*range(offset, offset + second)})


def test_bins_are_filled_in_any_pieces():
    sizes = bin_sizes(2500, 2600)
    assert sizes.hashed
    placed = place_all(candidate_bins(hashes(2600), sizes), sizes, 2600)
    values = torch.arange(2600 * 2).reshape(-1, 2)
    whole = placed.filled(values, -1, 0, sizes.bins)
    assert whole.shape == (sizes.bins, sizes.load, 2)
    assert int((whole[..., 0] >= 0).sum()) == 3 * 2600
    pieces = [
        placed.filled(values, -1, i, min(i + 1000, sizes.bins)) for i in range(0, sizes.bins, 1000)
    ]
    assert torch.equal(torch.cat(pieces), whole)


def test_a_placement_is_found_whenever_there_is_one():
    tight = np.array([[0, 1, 2]] * 3)  # three rows, three bins
    assert sorted(place_once(tight, BinSizes(3, 1, 8, True), 3).bins) == [0, 1, 2]
    chain = np.array([[0, 1, 1], [0, 1, 1], [1, 2, 2], [2, 3, 3]])
    assert sorted(place_once(chain, BinSizes(4, 1, 8, True), 4).bins) == [0, 1, 2, 3]
    with pytest.raises(ProtocolError, match=f"2\\^-{SECURITY_BITS}.*run it again"):
        place_once(np.array([[0, 1, 2]] * 4), BinSizes(9, 1, 8, True), 4)
    with pytest.raises(ProtocolError, match="more rows than it has places"):
        place_all(np.array([[0, 1, 2]] * 4), BinSizes(9, 3, 8, True), 4)


# Chances ----------------------------------------------------------------------------------------


def test_short_tables_compare_all_pairs():
    for first, second in [(0, 0), (0, 9), (1, 1), (30, 40)]:
        sizes = bin_sizes(first, second)
        assert sizes == BinSizes(max(first, 1), max(second, 1), sizes.key_bits, hashed=False)
    assert bin_sizes(1000, 1000).hashed


@draws(60)
@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_an_overflow_and_a_wrong_match_have_small_chances(first, second):
    first, second = sorted((first, second))
    sizes = bin_sizes(first, second)
    assert sizes.bins * sizes.load <= first * second
    assert sizes.key_bits - 1 >= SECURITY_BITS + math.log2(sizes.bins * sizes.load)
    if sizes.hashed:
        assert tail(second, sizes.bins // 3, sizes.load) * sizes.bins <= 2.0**-SECURITY_BITS


def tail(trials, third, load):
    """P[binomial(trials, 1 / third) > load], summed term by term."""
    if load >= trials:
        return 0.0
    p, k = 1 / third, load + 1
    log_term = math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
    term = math.exp(log_term + k * math.log(p) + (trials - k) * math.log1p(-p))
    total = 0.0
    while k <= trials and term > total * 1e-12:
        total += term
        term *= (trials - k) / (k + 1) * p / (1 - p)
        k += 1
    return total


def test_rows_without_a_placement_have_a_small_chance():
    """The bound of NOTE [candidates] at the fewest rows, and that it falls with more."""
    chances = [log2_of_no_placement(rows) for rows in (FEWEST, 2 * FEWEST, 8 * FEWEST)]
    assert chances[0] < -SECURITY_BITS - 2
    assert chances[0] > chances[1] > chances[2]


def log2_of_no_placement(rows):
    """A bound on the chance that some k rows have only k - 1 candidate bins, for the least such k.

    Then each of those bins is a candidate of two of the rows at least. If a of the t bins of a
    third are among them, there are C(t, a) choices, times the ways in which k rows reach each of
    them twice at least, k! [z^k] (e^z - 1 - z)^a <= k! z^-k (e^z - 1 - z)^a for every z > 0, over
    t^k. Its logarithm w(a) is concave, so w(a) + w(b) + w(c) <= 3 w((k - 1) / 3), and there are
    C(k - 2, 2) ways to write a + b + c = k - 1.
    """
    third = math.ceil(EXPANSION * rows / CANDIDATES)
    few = np.unique(np.geomspace(4, rows, 200).astype(int))
    gaps = np.diff([*few, few[-1] + 1])  # a term stands for those up to the next
    terms = [log_of_blocked_sets(rows, third, int(k)) for k in few]
    total = sum(gap * math.exp(term) for term, gap in zip(terms, gaps, strict=True))
    return math.log2(total)


def log_of_blocked_sets(rows, third, k):
    a, z = (k - 1) / 3, np.exp(np.linspace(-7, 4, 2000))
    ways = math.lgamma(k + 1) + (a * np.log(np.expm1(z) - z) - k * np.log(z)).min()
    weight = log_choices(third, a) + ways - k * math.log(third)
    return log_choices(rows, k) + math.log(math.comb(k - 2, 2)) + 3 * weight


def log_choices(n, k):
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def test_a_placement_fails_only_if_there_is_none():
    """On tables with few more bins than rows, where that is often; against scipy."""
    rng, rows, third, found = np.random.default_rng(5), 24, 9, []
    for candidates in rng.integers(0, third, (400, rows, 3)) + third * np.arange(3):
        pairs = (np.repeat(np.arange(rows), 3), candidates.reshape(-1))
        graph = csr_matrix((np.ones(3 * rows), pairs), (rows, 3 * third))
        exists = (maximum_bipartite_matching(graph, perm_type="column") >= 0).all()
        assert has_placement(candidates, 3 * third) == exists
        found.append(exists)
    assert 0.05 < np.mean(found) < 0.95


def has_placement(candidates, bins):
    try:
        place_once(candidates, BinSizes(bins, 1, 8, True), len(candidates))
    except ProtocolError:
        return False
    return True
