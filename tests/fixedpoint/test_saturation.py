"""What docs/concepts/functions.md promises outside of the domain: nothing wraps."""

from __future__ import annotations

from functools import cache
from math import log

import pytest
import torch
from torch import Tensor

import tacit
from tacit.fixedpoint import Numbers

DOUBLE = torch.float64
TOP = 2.0**20
SETTINGS = [("trio", 16), ("trio", 20), ("cleartext", 16), ("cleartext", 20)]

# name: function, arguments, and by the smallest positive number what comes of each
SATURATED = {
    "exp": (Numbers.exp, [40.0, 1e5, 13.87, -40.0, -1e5], lambda u: [TOP - u] * 3 + [0.0] * 2),
    "log": (Numbers.log, [0.0, -1.0, -1e5], lambda u: [log(u)] * 3),
    "log2": (lambda n, x: n.log(x, "2"), [0.0, -1.0], lambda u: [log(u) / log(2)] * 2),
    "reciprocal": (Numbers.reciprocal, [0.0], lambda u: [1 / u]),
    "div": (lambda n, x: n.div(n.add(x, 0.5), x), [0.0], lambda u: [0.5 / u]),
    "sqrt": (Numbers.sqrt, [0.0, -1.0, -1e5], lambda u: [0.0] * 3),
    "rsqrt": (Numbers.rsqrt, [0.0, -1.0, -1e5], lambda u: [u**-0.5] * 3),
    "pow 0.3": (lambda n, x: n.pow(x, 0.3), [0.0, -1.0, -1e5], lambda u: [u**0.3] * 3),
    "pow 0.5": (lambda n, x: n.pow(x, 0.5), [0.0, -1.0], lambda u: [0.0] * 2),
    "pow -1": (lambda n, x: n.pow(x, -1), [0.0], lambda u: [1 / u]),
    "2^x": (lambda n, x: n.pow(2.0, x), [30.0, 1e5, -30.0], lambda u: [TOP, TOP, 0.0]),
}


@cache
def results(protocol: str, bits: int) -> dict[str, Tensor]:
    def main(session: tacit.Session) -> dict[str, Tensor]:
        n, found = session.numbers, {}
        for name, (function, values, _) in SATURATED.items():
            x = torch.tensor(values, dtype=DOUBLE)
            found[name] = n.reveal(function(n, n.share(x, 0, x.shape, DOUBLE)))
        return found

    parties = 1 if protocol == "cleartext" else 3
    return tacit.run(main, protocol=protocol, parties=parties, fraction_bits=bits)[0]


@pytest.mark.parametrize("name", SATURATED)
@pytest.mark.parametrize(("protocol", "bits"), SETTINGS)
def test_functions_saturate(protocol, bits, name):
    wanted = torch.tensor(SATURATED[name][2](2.0**-bits), dtype=DOUBLE)
    found = results(protocol, bits)[name]
    torch.testing.assert_close(found, wanted, rtol=2**-11, atol=4 * 2.0**-bits)


@pytest.mark.parametrize("bits", [16, 20])
def test_the_largest_exponential_is_the_range_less_a_unit(bits):
    found = results("trio", bits)["exp"]
    assert found[0].item() == found[1].item() == TOP - 2.0**-bits
    assert found[3].item() == found[4].item() == 0.0


@pytest.mark.parametrize("bits", [16, 20])
def test_comparisons_of_any_two_numbers_in_the_range(bits):
    """Their difference has a bit more, which comparisons look at."""
    a = torch.tensor([TOP, -TOP, TOP, 1 - TOP, TOP - 1], dtype=DOUBLE)
    b = torch.tensor([1 - TOP, TOP - 1, TOP, TOP, TOP], dtype=DOUBLE)

    def main(session: tacit.Session) -> list[Tensor]:
        n = session.numbers
        x, y = (n.share(values, 0, values.shape, DOUBLE) for values in (a, b))
        return [n.reveal(one) for one in (n.less(x, y), n.equal(x, y), n.maximum(x, y))]

    less, equal, larger = tacit.run(main, fraction_bits=bits)[0]
    assert torch.equal(less, a < b)
    assert torch.equal(equal, a == b)
    assert torch.equal(larger, torch.maximum(a, b))


@pytest.mark.parametrize("base", ["e", "2", "10"])
def test_logarithms_of_the_smallest_numbers_never_wrap(base):
    """Many of them: a sum that leaves its division no room is wrong for one mask in sixteen."""
    x = torch.full((500,), 2.0**-20, dtype=DOUBLE)

    def main(session: tacit.Session) -> Tensor:
        n = session.numbers
        return n.reveal(n.log(n.share(x, 0, x.shape, DOUBLE), base))

    found = tacit.run(main, fraction_bits=20)[0]
    wanted = x.log() / log({"e": 2.718281828459045, "2": 2.0, "10": 10.0}[base])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
