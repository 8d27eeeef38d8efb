"""The circuits of `gates` for one digit, node or gate; a lane holds a word of 64 columns.

Rows are pointers to a word of each lane, `words` apart; `there` says which lanes have one. A wire
is P = hat ^ lambda, here p_hat and p_i. Products p_S of lambdas p_1, p_2, ... are numbered by the
set S of their factors: bit i - 1 of S for p_i. A product of wires is
    P_1 ... P_d = XOR over sets S of p_S (product of the hats that are not in S).
Products of all sets, and cases of all values, are ANDs of two short tuples, for the low and for the
high bits of their number: with all 2^d of them registers would not suffice. Dealt rows have the
order of `tacit.ring.reference.gates.carry_rows`.
"""

# mypy: disable-error-code="assignment, misc"
# Tuples grow in unrolled loops.

import triton
import triton.language as tl


@triton.jit
def read(rows: tl.tensor, at: tl.tensor, there: tl.tensor) -> tl.tensor:
    """Returns the words of the row at distance `at`."""
    return tl.load(rows + at, mask=there, other=0)


@triton.jit
def read_sum(
    rows: tl.tensor, others: tl.tensor, at: tl.tensor, there: tl.tensor, PAIR: tl.constexpr
) -> tl.tensor:
    """Returns the words of the row at distance `at`, if PAIR XOR those of the other rows."""
    value = read(rows, at, there)
    if PAIR:
        value ^= read(others, at, there)
    return value


@triton.jit
def emit(out: tl.tensor, pad: tl.tensor, at: tl.tensor, value: tl.tensor, there: tl.tensor) -> None:
    """Writes a row XOR its pad; the pad may be `out` itself."""
    tl.store(out + at, value ^ read(pad, at, there), mask=there)


@triton.jit
def cases(
    rows: tl.tensor, words: tl.tensor, there: tl.tensor, FIRST: tl.constexpr, LAST: tl.constexpr
) -> tl.tuple:
    """Returns for each value 0, 1, 2, ... where bits FIRST..LAST-1 of the rows have it."""
    x = (there.to(tl.int64) * 0 - 1,)
    for i in tl.static_range(FIRST, LAST):
        bit = read(rows, i * words, there)
        without = ()
        with_it = ()
        for a in tl.static_range(1 << (i - FIRST)):
            without += (x[a] & ~bit,)
            with_it += (x[a] & bit,)
        x = without + with_it
    return x


@triton.jit
def products(
    rows: tl.tensor,
    others: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    TOP: tl.constexpr,
    PAIR: tl.constexpr,
) -> tl.tuple:
    """Returns the product of each set of inputs FIRST..LAST-1; of the empty set it is all ones.

    Input i is row i, or row TOP - i if TOP is not None.
    """
    x = (there.to(tl.int64) * 0 - 1,)
    for i in tl.static_range(FIRST, LAST):
        bit = read_sum(rows, others, (i if TOP is None else TOP - i) * words, there, PAIR)
        with_it = ()
        for s in tl.static_range(1 << (i - FIRST)):
            with_it += (x[s] & bit,)
        x = x + with_it
    return x


# Leaves -----------------------------------------------------------------------------------------


@triton.jit
def high_bits(
    rows: tl.tensor, words: tl.tensor, there: tl.tensor, LOW: tl.constexpr, SIZE: tl.constexpr
) -> tl.tuple:
    """Returns the bits of a digit above the lowest LOW."""
    x = ()
    for i in tl.static_range(LOW, SIZE):
        x += (read(rows, i * words, there),)
    return x


@triton.jit
def high_case(bits: tl.tuple, h: tl.tensor, there: tl.tensor, COUNT: tl.constexpr) -> tl.tensor:
    """Returns where the number with these bits is h."""
    x = there.to(tl.int64) * 0 - 1
    for i in tl.static_range(COUNT):
        x &= bits[i] ^ (((h >> i) & 1) - 1)
    return x


@triton.jit
def leaf_table(
    v: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Writes the one-hot table E_a = [2^SIZE - 1 - V == a], a = 1..2^SIZE - 1, XOR the pad.

    E_a is an AND of a case of the low (at most four) bits and one of the high bits.
    """
    LOW: tl.constexpr = 4 if SIZE > 4 else SIZE
    FIRST: tl.constexpr = 0 if SIZE > 4 else 1  # entry 0 is not dealt
    low = cases(v, words, there, 0, LOW)
    bits = high_bits(v, words, there, LOW, SIZE)
    for h in range(1 << (SIZE - LOW)):
        high = high_case(bits, ~h, there, SIZE - LOW)  # the complement of the high bits is h
        at = ((h << LOW) - 1) * words
        for a in tl.static_range(FIRST, 1 << LOW):
            value = low[(1 << LOW) - 1 - a] & high
            emit(out, pad, at + a * words, value, there if a > 0 else there & (high * 0 + h > 0))


@triton.jit
def leaf(
    u: tl.tensor,
    tables: tl.tensor,
    first: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Returns shares of G = [U + V >= 2^SIZE] and P = [U + V == 2^SIZE - 1].

    G is the XOR of E_a for a < U, and P = E_U. E_0, which is not dealt, is 1 XOR all others: it
    counts in G if U > 0, else in P.
    """
    LOW: tl.constexpr = 4 if SIZE > 4 else SIZE
    FIRST: tl.constexpr = 0 if SIZE > 4 else 1  # entry 0 is not dealt
    low = cases(u, words, there, 0, LOW)
    bits = high_bits(u, words, there, LOW, SIZE)
    above = ~(low[0] & high_case(bits, 0, there, SIZE - LOW))  # [U > a], beginning with a = 0
    positive = above
    entry = (above & 0) ^ first  # E_0, to which the loop adds all others
    match = above & 0
    before = above & 0
    for h in range(1 << (SIZE - LOW)):
        high = high_case(bits, h, there, SIZE - LOW)
        at = ((h << LOW) - 1) * words
        for a in tl.static_range(FIRST, 1 << LOW):
            one = read(tables, at + a * words, there if a > 0 else there & (high * 0 + h > 0))
            above &= ~(low[a] & high)
            match ^= one & low[a] & high
            before ^= one & above
            entry ^= one
    return before ^ (entry & positive), match ^ (entry & ~positive)


# Dealt rows -------------------------------------------------------------------------------------


@triton.jit
def deal_carry(
    g: tl.tensor,
    p: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    also: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Writes the dealt rows of a carry node, XOR the pad; g and p are lambdas.

    They are p_S for two or more factors, g_{j+1} p_S for S neither empty nor full, the merged row
    p_1 g_2 ^ p_1 p_2 g_3 ^ ..., and p_SIZE p_S, which only lanes of `also` have: nodes with a P.
    """
    HALF: tl.constexpr = (SIZE - 1) // 2
    ALL: tl.constexpr = 1 << (SIZE - 1)  # sets of p_1..p_{SIZE-1}
    MERGED: tl.constexpr = 3 * ALL - 3 * SIZE
    low = products(p, p, words, there, 0, HALF, SIZE - 1, False)
    high = products(p, p, words, there, HALF, SIZE - 1, SIZE - 1, False)
    last = read(p, 0, also)
    masks = ()
    for j in tl.static_range(SIZE):
        masks += (read(g, (SIZE - 1 - j) * words, there),)
    merged = masks[0] & 0
    for s in tl.static_range(1, ALL):
        value = low[s % (1 << HALF)] & high[s >> HALF]
        for j in tl.static_range(1, SIZE):
            if (s >> j) == 0:
                if s == (1 << j) - 1:
                    merged ^= value & masks[j]
                else:
                    row = ALL - SIZE + (1 << j) - 2 * j + s - 1
                    emit(out, pad, row * words, value & masks[j], there)
            if (s >> j) == 1 and s > (1 << j):
                emit(out, pad, (s - j - 2) * words, value, there)
        emit(out, pad, (MERGED + s) * words, value & last, also)
    emit(out, pad, MERGED * words, merged, there)


@triton.jit
def deal_and(
    p: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Writes the products of at least two of SIZE lambdas, XOR the pad."""
    HALF: tl.constexpr = SIZE // 2
    low = products(p, p, words, there, 0, HALF, None, False)
    high = products(p, p, words, there, HALF, SIZE, None, False)
    for j in tl.static_range(1, SIZE):
        for s in tl.static_range((1 << j) + 1, 2 << j):
            value = low[s % (1 << HALF)] & high[s >> HALF]
            emit(out, pad, (s - j - 2) * words, value, there)


# Gates ------------------------------------------------------------------------------------------


@triton.jit
def carry(
    hats: tl.tensor,
    theirs: tl.tensor,
    shares: tl.tensor,
    p: tl.tensor,
    dealt: tl.tensor,
    first: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    also: tl.tensor,
    SIZE: tl.constexpr,
    PAIR: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Returns shares of G = G_1 ^ P_1 G_2 ^ ... and, for lanes of `also`, of P = P_1 ... P_SIZE.

    In hats and shares, the rows of P begin `p` words after those of G. With PAIR the hats are
    `hats ^ theirs`. For each set S of lambdas, p_S is multiplied by the hats of the other factors:
    G_{j+1} P_1 ... P_j has the terms (g_hat p_S ^ g_{j+1} p_S) times hats of {1..j} without S.
    """
    HALF: tl.constexpr = (SIZE - 1) // 2
    ALL: tl.constexpr = 1 << (SIZE - 1)
    MERGED: tl.constexpr = 3 * ALL - 3 * SIZE
    p_hats = hats + p
    p_theirs = theirs + p
    p_shares = shares + p
    low = products(p_hats, p_theirs, words, there, 0, HALF, SIZE - 1, PAIR)
    high = products(p_hats, p_theirs, words, there, HALF, SIZE - 1, SIZE - 1, PAIR)
    last = read_sum(p_hats, p_theirs, 0, also, PAIR)
    g = ()
    generate = read(dealt, MERGED * words, there)
    for j in tl.static_range(SIZE):  # S is empty: p_S = 1, of which `first` is a share
        g += (read_sum(hats, theirs, (SIZE - 1 - j) * words, there, PAIR),)
        term = (g[j] & first) ^ read(shares, (SIZE - 1 - j) * words, there)
        others = low[((1 << j) - 1) % (1 << HALF)] & high[((1 << j) - 1) >> HALF]
        generate ^= term & others
    term = (last & first) ^ read(p_shares, 0, also)
    propagate = term & low[(ALL - 1) % (1 << HALF)] & high[(ALL - 1) >> HALF]
    for i in tl.static_range(SIZE - 1):
        for s in tl.static_range(1 << i, 2 << i):  # sets whose last factor is p_{i+1}
            if s == (1 << i):
                own = read(p_shares, (SIZE - 1 - i) * words, there)
            else:
                own = read(dealt, (s - i - 2) * words, there)
            for j in tl.static_range(i + 1, SIZE):
                term = g[j] & own
                if s < (1 << j) - 1:  # the full set is in the merged row
                    row = ALL - SIZE + (1 << j) - 2 * j + s - 1
                    term ^= read(dealt, row * words, there)
                others = low[((1 << j) - 1 - s) % (1 << HALF)] & high[((1 << j) - 1 - s) >> HALF]
                generate ^= term & others
            term = (last & own) ^ read(dealt, (MERGED + s) * words, also)
            propagate ^= term & low[(ALL - 1 - s) % (1 << HALF)] & high[(ALL - 1 - s) >> HALF]
    return generate, propagate


@triton.jit
def and_all(
    hats: tl.tensor,
    shares: tl.tensor,
    dealt: tl.tensor,
    first: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
) -> tl.tensor:
    """Returns a share of the AND of SIZE inputs."""
    HALF: tl.constexpr = SIZE // 2
    ALL: tl.constexpr = 1 << SIZE
    low = products(hats, hats, words, there, 0, HALF, None, False)
    high = products(hats, hats, words, there, HALF, SIZE, None, False)
    result = low[(ALL - 1) % (1 << HALF)] & high[(ALL - 1) >> HALF] & first
    for i in tl.static_range(SIZE):
        for s in tl.static_range(1 << i, 2 << i):
            if s == (1 << i):
                own = read(shares, i * words, there)
            else:
                own = read(dealt, (s - i - 2) * words, there)
            result ^= own & low[(ALL - 1 - s) % (1 << HALF)] & high[(ALL - 1 - s) >> HALF]
    return result
