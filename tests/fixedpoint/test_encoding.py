"""Every number is in range, or refused: inputs and public operands at all formats."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.config import LEAST_RANGE, Config
from tacit.errors import RangeError
from tacit.nn.dry_run import lone_numbers
from tacit.protocols import ALONE

DOUBLE = torch.float64
MOST_OF_32 = (32 - 3 - LEAST_RANGE) // 2
FORMATS = [(64, f) for f in range(8, 23)] + [(32, f) for f in range(8, MOST_OF_32 + 1)]


def numbers(ring, fraction_bits):
    return lone_numbers(Config(ring=ring, fraction_bits=fraction_bits, protocol="cleartext"))


def shared(n, values):
    """Values that were shared and revealed."""
    [secret] = n.share_many([n.checked_input(values, "the tensor", mine=True)], ALONE)
    return n.reveal(secret)


@given(st.sampled_from(FORMATS), st.data())
def test_every_representable_number_is_shared_exactly(form, data):
    n = numbers(*form)
    units = 1 << (n.fraction_bits + n.range_bits)
    drawn = data.draw(st.lists(st.integers(-units, units), max_size=8))
    edges = [units, -units, units - 1, 1 - units, 1, -1, 0]
    values = torch.tensor([*drawn, *edges], dtype=DOUBLE) / 2.0**n.fraction_bits
    assert torch.equal(shared(n, values), values)
    integers = torch.tensor([*drawn, *edges])
    assert torch.equal(shared(n, integers), integers)


@given(st.sampled_from(FORMATS), st.data())
def test_every_other_number_is_refused_where_it_stands(form, data):
    n = numbers(*form)
    units = 1 << (n.fraction_bits + n.range_bits)
    unit, sign = 2.0**-n.fraction_bits, data.draw(st.sampled_from([1, -1]))
    beyond = units + data.draw(st.integers(1, 2 * units))
    classes = {
        beyond * unit: "too large",
        1e300: "too large",
        math.inf: "infinite",
        math.nan: "NaN",
    }
    number, found = data.draw(st.sampled_from(list(classes.items())))
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    place = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    values = torch.zeros(rows, columns, dtype=DOUBLE)
    values[place] = sign * number
    with pytest.raises(RangeError, match=f"at row {place[0]}, column {place[1]}") as caught:
        shared(n, values)
    assert (caught.value.number, caught.value.position) == (found, place)
    with pytest.raises(RangeError):
        n.add(n.public(torch.zeros(rows, columns)), sign * number)
    with pytest.raises(RangeError, match="beyond the range"):
        shared(n, torch.tensor([sign * beyond]))


@pytest.mark.parametrize(("ring", "fraction_bits"), [(64, 16), (32, 8)])
def test_one_unit_beyond_the_range(ring, fraction_bits):
    n = numbers(ring, fraction_bits)
    end, unit = 2.0**n.range_bits, 2.0**-fraction_bits
    for inside in (end, -end, end - unit):
        values = torch.tensor([inside], dtype=DOUBLE)
        assert torch.equal(shared(n, values), values)
    for outside in (end + unit, -end - unit):
        with pytest.raises(RangeError):
            shared(n, torch.tensor([outside], dtype=DOUBLE))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.uint8])
def test_inputs_of_narrow_dtypes(dtype):
    n = numbers(64, 16)
    values = torch.tensor([1, 255]).to(dtype)
    assert torch.equal(shared(n, values), values)
    if dtype.is_floating_point:
        with pytest.raises(RangeError, match="infinite at 1"):
            shared(n, torch.tensor([1.0, -math.inf], dtype=dtype))
        with pytest.raises(RangeError, match="NaN at 1"):
            shared(n, torch.tensor([1.0, math.nan], dtype=dtype))


# Public operands ----------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf

# By name: a function of x = (1.5, 3), and the class of the refused number.
REFUSED = {
    "x - 1e9": (lambda x: x - 1e9, "too large"),
    "x - 1e300": (lambda x: x - 1e300, "too large"),
    "x.sub_(1e9)": (lambda x: x.clone().sub_(1e9), "too large"),
    "x + nan": (lambda x: x + NAN, "NaN"),
    "x - inf": (lambda x: x - INF, "infinite"),
    "x + tensor": (lambda x: x + torch.tensor([1.0, -1e9]), "too large"),
    "x + all -1e9": (lambda x: x + torch.tensor([-1e9, -1e9]), "too large"),
    "x - tensor": (lambda x: x - torch.tensor([0.0, 1e9]), "too large"),
    "huber": (lambda x: F.huber_loss(x, torch.tensor([0.0, 1e9])), "too large"),
    "mse": (lambda x: F.mse_loss(x, torch.tensor([0.0, NAN])), "NaN"),
    "addcdiv": (lambda x: torch.addcdiv(x, torch.ones(2), torch.tensor([0.0, 1.0])), "zero"),
    "x * nan": (lambda x: x * torch.tensor([1.0, NAN]), "NaN"),
    "x * inf": (lambda x: x * INF, "infinite"),
    "x @ inf": (lambda x: x @ torch.tensor([[1.0], [INF]]), "infinite"),
    "x * 1e12": (lambda x: x * 1e12, "too large"),
    "ldexp": (lambda x: torch.ldexp(x, torch.tensor(100)), "too large"),
    "ldexp of some": (lambda x: torch.ldexp(x, torch.tensor([40, 1])), "too large"),
    "ldexp beyond floats": (lambda x: torch.ldexp(x, torch.tensor(2000)), "infinite"),
    "celu(alpha=1e9)": (lambda x: F.celu(x, alpha=1e9), "too large"),
    "x / 0": (lambda x: x / 0, "zero"),
    "x / tensor": (lambda x: x / torch.tensor([1.0, 0.0]), "zero"),
    "x // 0": (lambda x: x // 0, "zero"),
    "x % 1e-9": (lambda x: x % 1e-9, "zero"),
    "x / nan": (lambda x: x / NAN, "NaN"),
    "clamp(min=1e9)": (lambda x: x.clamp(min=1e9), "too large"),
    "clamp(min=nan)": (lambda x: x.clamp(min=NAN), "NaN"),
    "x < nan": (lambda x: x < NAN, "NaN"),
    "maximum": (lambda x: torch.maximum(x, torch.tensor([1e9, 0.0])), "too large"),
    "pad(1e9)": (lambda x: F.pad(x, (1, 1), value=1e9), "too large"),
    "pad(nan)": (lambda x: F.pad(x, (1, 1), value=NAN), "NaN"),
    "masked_fill(1e9)": (lambda x: x.masked_fill(x > 2, 1e9), "too large"),
    "full_like(1e9)": (lambda x: torch.full_like(x, 1e9), "too large"),
    "fill_(1e9)": (lambda x: x.clone().fill_(1e9), "too large"),
    "cat": (lambda x: torch.cat([x, torch.tensor([1e9])]), "too large"),
    "integer + 2^40": (lambda x: x.long() + 2**40, "too large"),
    "integer + tensor": (lambda x: x.long() + torch.tensor([0, 2**40]), "too large"),
    "integer * 2^40": (lambda x: x.long() * 2**40, "too large"),
    "label": (lambda x: F.cross_entropy(x.view(1, 2), torch.tensor([7])), "index"),
    "label -1": (lambda x: F.nll_loss(x.view(1, 2), torch.tensor([-1])), "index"),
    "embedding": (lambda x: F.embedding(torch.tensor([[0], [2]]), x.view(2, 1)), "index"),
    "embedding -1": (lambda x: F.embedding(torch.tensor([-1]), x.view(2, 1)), "index"),
    "bag": (
        lambda x: F.embedding_bag(torch.tensor([-1]), x.view(2, 1), torch.tensor([0])),
        "index",
    ),
}

# The same, with what is right.
RIGHT = {
    "x < 1e9": (lambda x: x < 1e9, [True, True]),
    "x > 1e9": (lambda x: x > 1e9, [False, False]),
    "x >= -inf": (lambda x: x >= -INF, [True, True]),
    "1e9 < x": (lambda x: torch.tensor(1e9) < x, [False, False]),
    "x < tensor": (lambda x: x < torch.tensor([1e9, 2.0]), [True, False]),
    "x > tensor": (lambda x: x > torch.tensor([-INF, 5.0]), [True, False]),
    "x == 1e9": (lambda x: x == 1e9, [False, False]),
    "x != tensor": (lambda x: x != torch.tensor([1.5, INF]), [False, True]),
    "integer < 2^50": (lambda x: x.long() < 2**50, [True, True]),
    "clamp(-1e9, 1e9)": (lambda x: x.clamp(-1e9, 1e9), [1.5, 3.0]),
    "clamp(-inf, 2)": (lambda x: x.clamp(-INF, 2.0), [1.5, 2.0]),
    "hardtanh": (lambda x: F.hardtanh(x, -INF, 2.0), [1.5, 2.0]),
    "maximum": (lambda x: torch.maximum(x, torch.tensor([-INF, 4.0])), [1.5, 4.0]),
    "minimum": (lambda x: torch.minimum(x, torch.tensor([1e9, 2.0])), [1.5, 2.0]),
    "x + 1e-9": (lambda x: x + 1e-9, [1.5, 3.0]),
    "x / 1e-3": (lambda x: x / 1e-3, [1500.0, 3000.0]),
    "x / inf": (lambda x: x / INF, [0.0, 0.0]),
    "ldexp": (lambda x: torch.ldexp(x, torch.tensor([5, -2])), [48.0, 0.75]),
    "ldexp(-200)": (lambda x: torch.ldexp(x, torch.tensor(-200)), [0.0, 0.0]),
    "celu(alpha=100)": (lambda x: F.celu(-x, alpha=100.0), [-1.48881, -2.95545]),
    "x 1e5 1e-8": (lambda x: (x * 1e5) * 1e-8 * 1e3, [1.5, 3.0]),
    "pad(-inf)": (lambda x: F.pad(x, (1, 0), value=-INF).amax(), 3.0),
    "ignored label": (
        lambda x: F.nll_loss(torch.stack([x, x]), torch.tensor([-100, 1])),
        -3.0,
    ),
    "mask": (lambda x: (x + torch.tensor([0.0, -1e9])).softmax(0), [1.0, 0.0]),
    "x - mask": (lambda x: (x - torch.tensor([0.0, 1e30])).softmax(0), [1.0, 0.0]),
    "finfo": (
        lambda x: x.masked_fill(torch.tensor([True, False]), torch.finfo(x.dtype).min).softmax(0),
        [0.0, 1.0],
    ),
    "secret mask": (lambda x: torch.where(x > 2, -INF, x).softmax(0), [1.0, 0.0]),
}


def outcomes(session):
    """The class of every refused number, and every right result."""
    x = session.share(torch.tensor([1.5, 3.0]), owner=0)
    found = {}
    for name, (function, _) in REFUSED.items():
        try:
            function(x)
            found[name] = "passed"
        except RangeError as error:
            found[name] = error.number
    return found, {name: session.reveal(function(x)) for name, (function, _) in RIGHT.items()}


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
def test_public_operands_are_right_or_refused(protocol):
    parties = 1 if protocol == "cleartext" else 3
    refused, right = tacit.run(outcomes, parties=parties, protocol=protocol)[0]
    assert refused == {name: found for name, (_, found) in REFUSED.items()}
    for name, (_, wanted) in RIGHT.items():
        want = torch.tensor(wanted)
        tolerance = 2e-2 if want.is_floating_point() else 0
        assert torch.allclose(right[name].to(want.dtype), want, atol=tolerance), name


# Factors of one tensor ----------------------------------------------------------------------------

FACTORS = [[1e-6, 1e5], [1e-3, 1e5], [0.3, 1e5], [0.1, 1e6], [1e-9, 1e3], [1e-3, 1e9], [7.3, 300.7]]
VALUES = [[3.0, -0.5], [1000.0, 7.0], [-70000.0, 0.001]]


def products(session, fraction_bits):
    """By factors and values: the largest error of x * f and of x / f, and what is allowed.

    A unit for each of two roundings, 2^-15 of the result, and 2^-17 of x.
    """
    errors = {}
    for factors, values in itertools.product(FACTORS, VALUES):
        f, x = (torch.tensor(one, dtype=torch.float64) for one in (factors, values))
        x = (x * 2**fraction_bits).round() / 2**fraction_bits
        for name, function in {"*": torch.mul, "/": lambda x, f: x / (1 / f)}.items():
            wanted = function(x, f)
            if wanted.abs().max() < 2.0**session.numbers.range_bits:
                off = (session.reveal(function(session.share(x, owner=0), f)) - wanted).abs()
                allowed = 2 * 2.0**-fraction_bits + 2.0**-15 * wanted.abs() + 2.0**-17 * x.abs()
                errors[name, *factors, *values] = float((off / allowed).max())
    return errors


@pytest.mark.filterwarnings("ignore:precision")
@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
def test_small_factors_beside_large_ones_are_right(protocol):
    """Not so if all factors of a tensor have the fraction bits that the largest leaves."""
    for fraction_bits in (12, 16, 20):
        settings = {"protocol": protocol, "fraction_bits": fraction_bits}
        for errors in tacit.run(products, fraction_bits, **settings):
            assert len(errors) > 20
            assert {case: error for case, error in errors.items() if error > 1} == {}
