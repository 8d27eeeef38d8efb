"""The circuits of nodes and gates with many inputs, which few elements take (`sign_plan`).

They do what the functions of these names in `circuits` do, but for all sets S of inputs at the same
time: a tile has a row for each set and a column for each word. There, all sets are unrolled: for
many inputs that takes the compiler minutes, and few words would leave most of a GPU idle.
"""

import triton
import triton.language as tl

from .circuits import emit, read, read_sum


@triton.jit
def sets_of(INPUTS: tl.constexpr) -> tl.tensor:
    """Returns the numbers of all sets of inputs, one below the other."""
    return tl.arange(0, 1 << INPUTS).to(tl.int64)[:, None]


@triton.jit
def last_of(sets: tl.tensor, INPUTS: tl.constexpr) -> tl.tensor:
    """Returns the highest input of each set, counted from 0; 0 for the empty one."""
    last = sets * 0
    for i in tl.static_range(1, INPUTS):
        last += tl.minimum(sets >> i, 1)
    return last


@triton.jit
def has_several(sets: tl.tensor) -> tl.tensor:
    """Returns whether a set has two inputs or more."""
    return (sets & (sets - 1)) != 0


@triton.jit
def multiplied(x: tl.tensor, bit: tl.tensor, is_factor: tl.tensor) -> tl.tensor:
    """Returns x & bit for the sets for which `is_factor` is 1, and x for those where it is 0."""
    return x & (bit[None, :] | (is_factor - 1))


@triton.jit
def emit_sets(
    out: tl.tensor, pad: tl.tensor, at: tl.tensor, value: tl.tensor, there: tl.tensor
) -> None:
    """Writes a row for each set XOR its pad."""
    emit(out[None, :], pad[None, :], at, value, there)


@triton.jit
def all_products(
    rows: tl.tensor, words: tl.tensor, there: tl.tensor, INPUTS: tl.constexpr, TOP: tl.constexpr
) -> tl.tensor:
    """Returns the product of each set of lambdas. Input i is row i, or TOP - i if TOP is given."""
    sets = sets_of(INPUTS)
    x = sets * 0 + (there.to(tl.int64) * 0 - 1)[None, :]
    for i in tl.static_range(INPUTS):
        bit = read(rows, (i if TOP is None else TOP - i) * words, there)
        x = multiplied(x, bit, (sets >> i) & 1)
    return x


@triton.jit
def own_products(
    shares: tl.tensor,
    dealt: tl.tensor,
    first: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    INPUTS: tl.constexpr,
    TOP: tl.constexpr,
) -> tl.tensor:
    """Returns a share of the product of each set of lambdas; those of two or more are dealt."""
    sets = sets_of(INPUTS)
    last = last_of(sets, INPUTS)
    several, here = has_several(sets), there[None, :]
    own = read(dealt[None, :], (sets - last - 2) * words, several & here)
    input_row = last if TOP is None else TOP - last
    own ^= read(shares[None, :], input_row * words, (sets > 0) & (several == 0) & here)
    return own ^ tl.where(sets == 0, first, 0)


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
    """Writes the dealt rows of a carry node, XOR the pad; g and p are lambdas."""
    ALL: tl.constexpr = 1 << (SIZE - 1)
    MERGED: tl.constexpr = 3 * ALL - 3 * SIZE
    sets, here = sets_of(SIZE - 1), there[None, :]
    last = last_of(sets, SIZE - 1)
    value = all_products(p, words, there, SIZE - 1, SIZE - 1)
    emit_sets(out, pad, (sets - last - 2) * words, value, has_several(sets) & here)
    merged = there.to(tl.int64) * 0
    full = merged - 1  # p_1 ... p_j
    for j in tl.static_range(1, SIZE):
        mask = read(g, (SIZE - 1 - j) * words, there)
        full &= read(p, (SIZE - j) * words, there)
        merged ^= full & mask
        row = ALL - SIZE + (1 << j) - 2 * j + sets - 1
        is_part = (sets > 0) & (sets < (1 << j) - 1)
        emit_sets(out, pad, row * words, value & mask[None, :], is_part & here)
    emit(out, pad, MERGED * words, merged, there)
    value &= read(p, 0, also)[None, :]
    emit_sets(out, pad, (MERGED + sets) * words, value, (sets > 0) & also[None, :])


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
    sets = sets_of(SIZE)
    rows = sets - last_of(sets, SIZE) - 2
    value = all_products(p, words, there, SIZE, None)
    emit_sets(out, pad, rows * words, value, has_several(sets) & there[None, :])


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
    """Returns shares of G = G_1 ^ P_1 G_2 ^ ... and, for lanes of `also`, of P = P_1 ... P_SIZE."""
    ALL: tl.constexpr = 1 << (SIZE - 1)
    MERGED: tl.constexpr = 3 * ALL - 3 * SIZE
    sets, here = sets_of(SIZE - 1), there[None, :]
    own = own_products(shares + p, dealt, first, words, there, SIZE - 1, SIZE - 1)
    generate = own & 0
    others = generate - 1  # hats of {1..j} without S
    for j in tl.static_range(SIZE):
        at = (SIZE - 1 - j) * words
        term = own & read_sum(hats, theirs, at, there, PAIR)[None, :]
        row = ALL - SIZE + (1 << j) - 2 * j + sets - 1  # the full set is in the merged row
        is_part = (sets > 0) & (sets < (1 << j) - 1)
        term ^= read(dealt[None, :], row * words, is_part & here)
        term ^= tl.where(sets == 0, read(shares, at, there)[None, :], 0)
        generate ^= tl.where(sets < (1 << j), term & others, 0)
        if j < SIZE - 1:
            hat = read_sum(hats + p, theirs + p, at, there, PAIR)
            others = multiplied(others, hat, 1 - ((sets >> j) & 1))
    propagate = own & read_sum(hats + p, theirs + p, 0, also, PAIR)[None, :]
    propagate ^= read(dealt[None, :], (MERGED + sets) * words, (sets > 0) & also[None, :])
    propagate ^= tl.where(sets == 0, read(shares + p, 0, also)[None, :], 0)
    merged = read(dealt, MERGED * words, there)
    return tl.xor_sum(generate, 0) ^ merged, tl.xor_sum(propagate & others, 0)


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
    sets = sets_of(SIZE)
    term = own_products(shares, dealt, first, words, there, SIZE, None)
    for i in tl.static_range(SIZE):
        term = multiplied(term, read(hats, i * words, there), 1 - ((sets >> i) & 1))
    return tl.xor_sum(term, 0)
