"""CrypTen's binary tensors: bits against torch's, for one party and for two."""

import functools
import operator

import pytest
import torch

import tacit.compat.crypten as crypten
from tacit.errors import ConfigError

X = torch.tensor([[5, -3, 0], [1 << 20, -(1 << 20) - 1, 77]])
Y = torch.tensor([12, 7, -1])
LARGE = torch.tensor([(1 << 40) + 5, -(1 << 50), (1 << 62) - 1, -1])
OTHERS = torch.tensor([(1 << 40) + 6, 1 << 50, -(1 << 62), -1])
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
BITWISE = [operator.and_, operator.or_, operator.xor]
binary = crypten.ptype.binary


@pytest.fixture
def alone():
    crypten.init()
    yield
    crypten.uninit()


def results():
    """What a program computes with bits, and the same with torch."""
    x, y = crypten.cryptensor(X, ptype=binary), crypten.mpc.MPCTensor(Y, ptype=binary)
    made = [(f(x, other), f(X, Y)) for f in BITWISE for other in (y, Y)]
    made += [(~x, ~X), (x << 3, X << 3), (x >> 2, X >> 2), (x & 6, X & 6)]
    made += [(x + y, X + Y), (x > y, (X > Y).long()), (x == X, torch.ones(2, 3).long())]
    made += [(x[:, 1], X[:, 1]), (x.t(), X.t()), (x.sum(), X.sum()), (x.clone(), X)]
    made += [(x.arithmetic(), X), (x.arithmetic().binary(), X), (Y & x, Y & X)]
    made += [(x.where(y > 0, y), torch.where(Y > 0, X, Y)), (x.where(Y > 0, Y), X.where(Y > 0, Y))]
    made += [
        (x.sum(()), X.sum()),
        (x.sum(1), X.sum(1)),
        (x.sum((0, 1), keepdim=True), X.sum((0, 1), keepdim=True)),
    ]
    made += results_of_large_numbers()
    return [(one.get_plain_text(), plain) for one, plain in made]


def results_of_large_numbers():
    """Numbers far beyond the range of arithmetic tensors."""
    x, y = (crypten.cryptensor(one, ptype=binary) for one in (LARGE, OTHERS))
    made = [(f(x, y), f(LARGE, OTHERS).long()) for f in COMPARISONS]
    made += [(x < OTHERS, (LARGE < OTHERS).long()), (torch.lt(LARGE, y), (LARGE < OTHERS).long())]
    made += [(x + y, LARGE + OTHERS), (x + 1, LARGE + 1), (OTHERS + x, LARGE + OTHERS)]
    made += [(x - y, LARGE - OTHERS), (OTHERS - x, OTHERS - LARGE), (x.sum(), LARGE.sum())]
    made += [(x.where(LARGE < 0, y), LARGE.where(LARGE < 0, OTHERS))]
    assert all(one.ptype is binary for one, _ in made)
    return made


def test_alone(alone):
    for made, plain in results():
        assert torch.equal(made, plain)


def test_two_parties():
    for party in crypten.mpc.run_multiprocess(world_size=2)(results)():
        for made, plain in party:
            assert torch.equal(made, plain)


def rows_of(x):
    return [*x.split(1), *x.chunk(3, dim=1), *x.unbind(1), x.unfold(1, 2, 1)]


def moved(x):
    """Numbers elsewhere, of a tensor of shape (2, 3)."""
    made = [x.view(3, 2), x.reshape(-1), x.flatten(), x.transpose(0, 1), x.permute(1, 0)]
    made += [x.unsqueeze(1).squeeze(1), x.narrow(1, 1, 2), x.expand(2, 2, 3), x.repeat(2, 1)]
    made += [x.roll(1, 0), x.flip(1), x.index_select(1, torch.tensor([2, 0]))]
    made += [x.gather(1, torch.tensor([[2], [0]])), x[1], x[0, 2], x[..., 1:]]
    return made + rows_of(x)


def test_moved_numbers_stay_bits(alone):
    for made, plain in zip(moved(crypten.cryptensor(X, ptype=binary)), moved(X), strict=True):
        assert made.ptype is binary
        assert torch.equal(made.get_plain_text(), plain)
    x = crypten.cryptensor(X, ptype=binary)
    x += 1  # an arithmetic tensor from here
    assert torch.equal(x.t().get_plain_text(), (X + 1).t())


def test_conversion_of_reals(alone):
    x = torch.tensor([1.5, -2.25, 0.0])
    bits = crypten.cryptensor(x).to(binary)
    assert bits.ptype is binary
    assert bits.size() == (3,)
    assert torch.equal(bits.get_plain_text(), x)
    assert torch.equal(bits.reveal(), (x * 2**16).long())
    back = bits.to(crypten.ptype.arithmetic)
    assert back.ptype is crypten.mpc.arithmetic
    assert torch.equal((back * 2).get_plain_text(), x * 2)
    assert torch.equal((bits ^ bits).get_plain_text(), torch.zeros(3))


@pytest.mark.parametrize("name", ["__iand__", "__ior__", "__ixor__"])
def test_in_place(alone, name):
    x = crypten.mpc.primitives.BinarySharedTensor(X)
    assert getattr(x, name)(Y) is x
    assert torch.equal(x.get_plain_text(), getattr(X.clone(), name)(Y))
    x += 1
    assert x.ptype is binary
    x *= 2
    assert x.ptype is crypten.ptype.arithmetic


def test_sources_and_limits(alone):
    whole = torch.tensor([2**62 + 1, -(2**63)])
    assert torch.equal(
        crypten.cryptensor(whole, ptype=binary, broadcast_size=True).get_plain_text(), whole
    )
    with pytest.raises(ConfigError, match="0 to 63"):
        crypten.cryptensor(X, ptype=binary) << 64


def test_shares():
    def program():
        x = crypten.cryptensor([1.0, 2.0])
        own = x.share
        again = crypten.mpc.MPCTensor.from_shares(own)
        x.share = own * 2
        return again.get_plain_text(), x.get_plain_text()

    for again, doubled in crypten.mpc.run_multiprocess(world_size=2)(program)():
        assert again.tolist() == [1.0, 2.0]
        assert doubled.tolist() == [2.0, 4.0]


def test_shares_of_bits():
    def program():
        x = crypten.cryptensor(X, ptype=binary)
        own = x.share
        again = crypten.mpc.MPCTensor.from_shares(own, ptype=binary, precision=0)
        scaled = crypten.mpc.MPCTensor.from_shares(own, ptype=binary)
        x.share = own ^ (crypten.communicator.get().get_rank() * 6)
        shown = again.get_plain_text(), scaled.get_plain_text() * 2**16, x.get_plain_text()
        return own, shown

    first, second = crypten.mpc.run_multiprocess(world_size=2)(program)()
    assert torch.equal(first[0] ^ second[0], X)
    assert not torch.equal(first[0], X)
    for _, (again, scaled, changed) in (first, second):
        assert torch.equal(again, X)
        assert torch.equal(scaled.long(), X)
        assert torch.equal(changed, X ^ 6)


@pytest.mark.parametrize(
    ("parties", "settings"),
    [
        (2, {"mpc.provider": "TTP"}),
        (3, {"mpc.protocol": "replicated"}),
        (4, {"mpc.protocol": "quad"}),
    ],
)
def test_shares_of_parties_that_hold_several_parts(parties, settings):
    def program():
        x, bits = crypten.cryptensor([1.5, -2.0]), crypten.cryptensor(X, ptype=binary)
        own, words = x.share, bits.share
        again = crypten.mpc.MPCTensor.from_shares(own * 3)
        bits.share = words << 1
        return own, words, again.get_plain_text(), bits.get_plain_text()

    with crypten.cfg.temp_override(settings):
        results = crypten.mpc.run_multiprocess(world_size=parties)(program)()
    owns, words, tripled, shifted = zip(*results, strict=True)
    assert torch.equal(sum(owns), (torch.tensor([1.5, -2.0]) * 2**16).long())
    assert torch.equal(functools.reduce(operator.xor, words), X)
    assert all(one.tolist() == [4.5, -6.0] for one in tripled)
    assert all(torch.equal(one, X << 1) for one in shifted)


def test_what_is_written_to_bits(alone):
    x, plain = crypten.cryptensor(X, ptype=binary), X.clone()
    assert torch.equal(x.arithmetic().get_plain_text(), X)
    for index, value in (((0, 1), 9), ((slice(None), 0), torch.tensor([3, 4])), (1, Y)):
        plain[index] = value
        x[index] = value if index == (0, 1) else crypten.cryptensor(value, ptype=binary)
        assert torch.equal(x.get_plain_text(), plain)
        assert torch.equal(x.arithmetic().get_plain_text(), plain)
    places = torch.tensor([[2, 0, 1]])
    assert torch.equal(
        x.scatter(1, places, Y[None]).get_plain_text(), plain.scatter(1, places, Y[None])
    )
    assert x.lshift_(2) is x.rshift_(1) is x
    assert torch.equal(x.get_plain_text(), plain << 2 >> 1)
    assert torch.equal(x.copy_(crypten.cryptensor(Y, ptype=binary)).get_plain_text(), Y)
    assert x.ptype is binary
    x.set(torch.tensor([0.5, 1.5]))
    assert x.ptype is crypten.ptype.arithmetic
    assert x.get_plain_text().tolist() == [0.5, 1.5]
    assert torch.equal(x.reveal(), torch.tensor([1, 3]) << 15)


def test_joined_bits_and_lowest_bits(alone):
    x, y = crypten.cryptensor(X, ptype=binary), crypten.cryptensor(X + 1, ptype=binary)
    for join, dim in ((torch.cat, 0), (torch.cat, -1), (torch.stack, 1), (torch.stack, -1)):
        made = getattr(crypten, join.__name__)([x, y], dim=dim)
        assert made.ptype is binary
        assert torch.equal(made.get_plain_text(), join([X, X + 1], dim=dim))
    mixed = crypten.cat([x, crypten.cryptensor(X / 2).binary()])
    assert torch.equal(mixed.get_plain_text(), torch.cat([X, X / 2]))
    assert torch.equal(x.to(crypten.mpc.arithmetic, bits=3).get_plain_text(), X & 7)


def test_conversion_with_another_precision(alone):
    signs = crypten.cryptensor(torch.tensor([1.5, -2.0, 0.0])).binary() >> 63
    assert signs.to(crypten.mpc.arithmetic, bits=1, precision=0).get_plain_text().tolist() == [
        *(0, 1, 0)
    ]
    quarters = crypten.cryptensor(torch.tensor([6, -1]), ptype=binary)
    assert quarters.arithmetic(precision=2).get_plain_text().tolist() == [1.5, -0.25]


def test_reals_meet_bits(alone):
    plain = torch.tensor([0.5, -1.25])
    x = crypten.cryptensor(plain).binary()
    assert (x + 0.75).get_plain_text().tolist() == [1.25, -0.5]
    integers = crypten.cryptensor(torch.tensor([1, 2]), ptype=binary)
    assert (x + integers).get_plain_text().tolist() == [1.5, 0.75]
    with pytest.raises(TypeError, match="real numbers meet integers"):
        integers ^ 1.5


@pytest.mark.parametrize("number", [1 << 60, 2.0**47, -(2.0**48), float("inf"), float("nan")])
def test_public_numbers_beyond_the_bits_are_refused(alone, number):
    """With 16 fraction bits 47 are left: others would wrap, and compare as another number."""
    reals = crypten.cryptensor(torch.tensor([1.0, -2.0])).to(binary)
    for function in (operator.lt, operator.add, operator.and_):
        with pytest.raises(ConfigError, match="2\\^47"):
            function(reals, number)
    assert (reals < 2.0**46).get_plain_text().tolist() == [1, 1]
    assert (reals > -(2.0**47)).get_plain_text().tolist() == [1, 1]


def test_types_of_tensors(alone):
    @crypten.CrypTensor.register_cryptensor("marked")
    class Marked(crypten.CrypTensor):
        def __init__(self, tensor):
            self.mark = tensor

    assert crypten.get_default_cryptensor_type() == "mpc"
    assert crypten.get_cryptensor_type(crypten.cryptensor([1.0])) == "mpc"
    assert crypten.cryptensor(3, cryptensor_type="marked").mark == 3
    with pytest.raises(ConfigError, match="known are mpc"):
        crypten.set_default_cryptensor_type("other")
    with pytest.raises(TypeError, match="abstract"):
        crypten.CrypTensor(X)


def test_each_party_defines_a_type():
    def program():
        @crypten.register_cryptensor("counted")
        class Counted(crypten.CrypTensor):
            def __init__(self, tensor):
                self.count = len(tensor)

        crypten.set_default_cryptensor_type("counted")
        made = crypten.cryptensor([1.0, 2.0])
        return made.count, crypten.get_cryptensor_type(Counted([])), made.__class__.__name__

    made = crypten.mpc.run_multiprocess(world_size=2)(program)()
    assert made == [(2, "counted", "Counted")] * 2
    assert crypten.get_default_cryptensor_type() == "mpc"
