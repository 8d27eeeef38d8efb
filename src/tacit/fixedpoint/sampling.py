"""Random secrets: numbers of a public distribution that no party knows.

The parties get shares of uniform bits without a message; everything else is made of those.
NOTE [a biased bit]: let e_1, e_2, ... be uniform bits, and let p = 0.p_1 p_2 ... in binary. The bit
of p at the place of the first e_i that is 0 is 1 with probability p: place i comes first with
probability 2^-i. It is the carry out of digits that generate p_i (1 - e_i) and propagate e_i.
NOTE [independent digits]: a number g >= 0 with probability proportional to q^g has binary digits
that are independent of each other, since q^g is the product of q^(2^j) over the digits j of g that
are 1. So digit j is a bit of its own, of probability 1 / (1 + q^-(2^j)).
NOTE [rejected draws]: Canonne, Kamath and Steinke (The Discrete Gaussian for Differential Privacy,
NeurIPS 2020) draw y with probability proportional to e^(-|y| / t) and keep it with probability
e^(-(|y| - v / t)^2 / (2 v)), which makes that of a kept one proportional to e^(-y^2 / (2 v)). With
v = s t / m the exponent is (m |y| - s)^2 / (2 s t m), and a number with probability proportional to
e^(-g / (2 s t m)) is at least (m |y| - s)^2 with just this probability: all of it is integers.
Which draws are kept is opened to all. It tells nothing about those that are kept: they were drawn
independently of all others, and each has the same law whatever became of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import ConfigError, RangeError
from ..kernels import pack_bits
from ..protocols import Arith, BitSum, Bool
from ..protocols.bit_trees import carry_out
from ..protocols.share import Parts, join
from ..protocols.steps import Steps, drive
from ..ring import WORD, num_words
from .arithmetic import mul, sub
from .format import Format
from .functions.roots import square_root
from .functions.trigonometric import cosine, sine
from .value import Value, combined

P = TypeVar("P", bound=Tensor | float)
PROBABILITY_BITS = 48  # a probability is a multiple of 2^-48
LARGEST_DEVIATION = 1 << 24  # squares of 34 times as much fit a ring of 64 bits


def checked_probability(probability: P) -> P:
    """Returns public probabilities, after a look at their values."""
    wanted = torch.as_tensor(probability)
    if not bool(((wanted >= 0) & (wanted <= 1)).all()):
        raise ConfigError("a probability", limit="from 0 to 1")
    return probability


def checked_count(n: Format, count: int) -> None:
    """Raises ConfigError for a number of integers from which none can be drawn."""
    most = 1 << (n.ring.bits // 2 - 4)
    if not 0 < count <= most:
        raise ConfigError(f"one of {count} integers", limit=f"from 1 to {most} in this session")


def random_integers(n: Format, shape: Sequence[int], bits: int) -> Value:
    """Returns uniform integers in [0, 2^bits). 1 round."""
    planes = n.protocol.random_bits(shape, bits)
    return _number(n, [planes.planes(i, i + 1) for i in range(bits)], torch.int64)


def random_below(n: Format, shape: Sequence[int], count: int) -> Value:
    """Returns integers from 0 to count - 1: floor(u count / 2^b) for a uniform u of b bits.

    No probability is off by more than a factor of 1 + count / 2^b, where count 2^b has two bits
    less than the ring. See NOTE [integer parts] in value.py.
    """
    checked_count(n, count)
    p, bits = n.protocol, n.ring.bits - 2 - count.bit_length()
    scaled = random_integers(n, shape, bits).arith.scaled(count)
    quotient = p.settled(p.add_public(scaled, 0).divided(bits))
    rest = p.sub(scaled, quotient.scaled(1 << bits)).promise(2 << bits)
    found = p.sub(quotient, p.to_arith(p.sign(rest)))
    return Value(found.promise(count), torch.int64)


def random_uniform(n: Format, shape: Sequence[int], dtype: torch.dtype) -> Value:
    """Returns uniform reals in [0, 1): multiples of one unit. 1 round."""
    return Value(random_integers(n, shape, n.fraction_bits).share, dtype)


def random_truths(n: Format, shape: Sequence[int], probability: Tensor | float) -> Value:
    """Returns bits that are 1 with a public probability. Up to 6 rounds, none for 1/2.

    See NOTE [a biased bit]. Probabilities are rounded to multiples of 2^-48.
    """
    shape = torch.Size(shape)
    if not isinstance(probability, Tensor):
        [row] = _rows_of_truths(n, [checked_probability(probability)], shape)
        return Value(row, torch.bool)
    digits = (
        (checked_probability(probability).to(torch.float64) * 2.0**PROBABILITY_BITS)
        .round()
        .to(torch.int64)
    )
    digits = digits.expand(shape)
    planes = torch.stack([pack_bits(digits >> i & 1) for i in range(PROBABILITY_BITS + 1)])
    return Value(_biased(n, shape, planes), torch.bool)


def random_geometric(n: Format, shape: Sequence[int], rate: float) -> Value:
    """Returns integers g >= 0 with probability proportional to e^(-rate g). Up to 7 rounds.

    See NOTE [independent digits]. Digits that are 1 with a probability below 2^-48 are left out.
    """
    most = n.fraction_bits + n.range_bits
    if not rate > 0 or _num_digits(rate) > most:
        raise RangeError(
            f"a random number of scale {1 / rate if rate else math.inf:g}",
            limit=f"above 0, and draws of up to 34 times as much below 2^{most} units or integers",
            remedy="choose a smaller scale, or a larger range_bits",
        )
    return _geometric(n, shape, rate)


def _num_digits(rate: float) -> int:
    """Returns how many digits are 1 with a probability of at least 2^-48."""
    largest = PROBABILITY_BITS * math.log(2) / rate
    return max(math.ceil(math.log2(largest)), 1)


def _geometric(n: Format, shape: Sequence[int], rate: float) -> Value:
    """The same up to the end of the ring."""
    count = _num_digits(rate)
    probabilities = [1 / (1 + math.exp(rate * 2**j)) for j in range(count)]
    return _number(n, _rows_of_truths(n, probabilities, torch.Size(shape)), torch.int64)


def random_exponential(n: Format, shape: Sequence[int], scale: float, dtype: torch.dtype) -> Value:
    """Returns reals x >= 0 with density e^(-x / scale) / scale, rounded down to units."""
    unit = 2.0**-n.fraction_bits
    return Value(random_geometric(n, shape, unit / scale).share, dtype)


def random_discrete_laplace(n: Format, shape: Sequence[int], scale: float) -> Value:
    """Returns integers x with probability proportional to e^(-|x| / scale): exact.

    The difference of two numbers with probabilities proportional to e^(-g / scale).
    """
    one, other = random_geometric(n, (2, *shape), 1 / scale).map_list(torch.unbind)
    return sub(n, one, other)


def random_laplace(n: Format, shape: Sequence[int], scale: float, dtype: torch.dtype) -> Value:
    """Returns reals in units with probability proportional to e^(-|x| / scale): exact."""
    units = scale * 2.0**n.fraction_bits
    return Value(random_discrete_laplace(n, shape, units).share, dtype)


class NormalGrid(NamedTuple):
    """The integers of NOTE [rejected draws]: the variance is s t / m."""

    t: int
    s: int
    m: int

    @property
    def deviation(self) -> float:
        """The standard deviation, at most 1 + 2^-12 times the one that was asked for."""
        return math.sqrt(self.s * self.t / self.m)


def normal_grid(n: Format, deviation: float) -> NormalGrid:
    """Returns the integers for the smallest variance at or above the square of a deviation."""
    if n.ring.bits < 64 or not 0.25 <= deviation <= LARGEST_DEVIATION:
        raise ConfigError(
            f"a deviation of {deviation!r} in a ring of {n.ring.bits} bits",
            limit=f"from 0.25 to {LARGEST_DEVIATION}, with ring=64",
        )
    t = 1 << max(math.ceil(math.log2(deviation)), 0)
    m = 1 << max(math.ceil(12 - math.log2(deviation**2 / t)), 0)
    return NormalGrid(t, math.ceil(m * deviation**2 / t), m)


def random_discrete_normal(n: Format, shape: Sequence[int], deviation: float) -> Value:
    """Returns integers x with probability proportional to e^(-x^2 / (2 deviation^2)): exact.

    The deviation is that of `normal_grid`. See NOTE [rejected draws]. About 30 rounds, seldom more.
    """
    if n.trace is not None:
        n.trace.refuse("it draws until enough draws are kept")
    size, p = torch.Size(shape).numel(), n.protocol
    kept: list[Arith] = []
    while (missing := size - sum(one.numel for one in kept)) > 0:
        drawn, is_kept = _normal_candidates(n, 2 * missing + 32, normal_grid(n, deviation))
        is_kept.is_coin = True
        found = p.reveal(is_kept, dtype=torch.bool, to_dealer=p.helpers > 0)
        assert found is not None  # all members learn it
        kept.append(drawn.index_select(0, found.nonzero().squeeze(1)[:missing]))
    return Value(join(torch.cat, kept).reshape(*shape), torch.int64)


def random_normal_units(
    n: Format, shape: Sequence[int], deviation: float, dtype: torch.dtype
) -> Value:
    """Returns reals in units with probability proportional to e^(-x^2 / (2 deviation^2)): exact."""
    units = deviation * 2.0**n.fraction_bits
    return Value(random_discrete_normal(n, shape, units).share, dtype)


def _normal_candidates(n: Format, count: int, grid: NormalGrid) -> tuple[Arith, Bool]:
    """Returns integers of which some are kept, and which."""
    p, (t, s, m) = n.protocol, grid
    drawn = random_discrete_laplace(n, (count,), t).arith
    distance = p.add_public(p.absolute(drawn).scaled(m), -s)
    allowed = _geometric(n, (count,), 1 / (2 * s * t * m)).arith
    is_far = p.sign(p.sub(allowed, p.square(distance)))
    return drawn, p.bit_not(is_far)


def random_normal(n: Format, shape: Sequence[int], dtype: torch.dtype) -> Value:
    """Returns reals of the standard normal distribution, at most 8.2 in magnitude.

    Box and Muller's method: sqrt(2 x) cos(2 pi v) and sqrt(2 x) sin(2 pi v) for an exponential x
    and a uniform v are independent. x is drawn 4^s times larger, so that small roots are exact.
    """
    count = torch.Size(shape).numel()
    half = (count + 1) // 2
    s = max((n.range_bits - 7) // 2, 0)
    squared = random_exponential(n, (half,), 2.0 * 4**s, dtype)
    radius = mul(n, square_root(n, squared), 2.0**-s)
    angle = mul(n, random_uniform(n, (half,), dtype), 2 * math.pi)
    pair = [mul(n, radius, direction) for direction in (cosine(n, angle), sine(n, angle))]
    both = combined(n, pair, torch.cat)
    return both.map(lambda part: part[:count].reshape(shape))


def _rows_of_truths(n: Format, probabilities: Sequence[float], shape: torch.Size) -> list[Bool]:
    """Returns bits of this shape for each probability, all in the same rounds."""
    rows, words = len(probabilities), num_words(shape.numel())
    planes = _binary_digits(tuple(probabilities), PROBABILITY_BITS)
    filled = planes.expand(-1, -1, words).reshape(len(planes), rows * words)
    made = _biased(n, torch.Size((rows, WORD * words)), filled)
    split = {i: part.view(rows, 1, words) for i, part in made.parts.items()}
    return [Bool({i: part[row] for i, part in split.items()}, shape) for row in range(rows)]


@lru_cache(maxsize=64)
@_disable_current_modes()  # parties that are threads share it: no plan may write it
def _binary_digits(probabilities: tuple[float, ...], bits: int) -> Tensor:
    """Returns a word of ones or zeros for each digit of each probability, (digits, rows, 1).

    Digits below the lowest 1 of all are left out, but not that of 1/2.
    """
    numbers = [round(probability * 2**bits) for probability in probabilities]
    union = reduce(or_, numbers) | 1 << (bits - 1)
    lowest = (union & -union).bit_length() - 1
    planes = [[-(number >> i & 1) for number in numbers] for i in range(lowest, bits + 1)]
    return torch.tensor(planes).unsqueeze(2)


def _biased(n: Format, shape: torch.Size, digits: Tensor) -> Bool:
    """Returns bits with the probabilities of which the planes of binary digits are given.

    The lowest digit comes first; the highest is 1 for a probability of 1, and its others are 0.
    """
    p = n.protocol
    chosen, certain = digits[:-1], digits[-1:]
    unseen = p.random_bits(shape, len(chosen))
    generated = p.bit_and_public(p.bit_not(unseen), chosen)
    propagated = {i: part[1:] for i, part in unseen.parts.items()}

    def gate(x: Parts, y: Parts) -> Steps[Parts]:
        both = yield from p.bit_and.steps(Bool(x, shape), Bool(y, shape))
        return both.parts

    carry = drive(p.context, carry_out(gate, generated.parts, propagated))
    return p.bit_xor_public(Bool(carry, shape), certain)


def _number(n: Format, digits: Sequence[Bool], dtype: torch.dtype) -> Value:
    """Returns the numbers with these binary digits, the lowest first. 1 round."""
    powers = tuple(1 << i for i in range(len(digits)))
    [number] = n.protocol.inject_sums(digits, None, [BitSum((0,) * len(digits), powers)])
    return Value(number, dtype)
