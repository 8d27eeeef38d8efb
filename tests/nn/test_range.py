"""Numbers that cannot be shared are refused at their owner; guards find what leaves its range."""

import math
import warnings

import pytest
import torch
from tests.nn.range_programs import parties_of_bad_input
from torch import nn

import tacit
import tacit.zoo
from tacit.errors import ConfigError, PartyFailed, PrecisionWarning, RangeError
from tacit.fixedpoint import guard

OWNER = 1
FORMS = 64  # bytes of the digest by which the parties compare the form of a nest, and its header


def linear(weight):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    nn.init.constant_(model[0].weight, weight)
    return model


def normed(variance):
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)).eval()
    model[1].running_var[1] = variance
    return model


# By name: what the owner shares, the settings, and what its error says.
INPUTS = {
    "share(1e9)": (torch.tensor(1e9), {}, "share: the tensor is beyond the range: 2^20"),
    "NaN": (
        torch.tensor([[1.0, 2.0], [math.nan, 3.0]]),
        {},
        "share: the tensor is NaN at row 1, column 0; replace it",
    ),
    "in a dict": ({"a": torch.ones(2), "b": torch.tensor([1, 2**40])}, {}, "['b'] is beyond"),
    "weights": (linear(2e6), {}, "share: 0.weight is beyond the range at row 0, column 0"),
    "infinite": (linear(-math.inf), {}, "share: 0.weight is infinite at row 0, column 0"),
    "statistics": (
        normed(20000.0),
        {"ring": 32, "fraction_bits": 8},
        "share: 1.running_var is beyond the range at 1: 2^13 in magnitude; scale it, or give "
        "tacit.run fewer fraction_bits than 8, or ring=64",
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_owner_refuses_before_anything_is_sent(name):
    value, settings, text = INPUTS[name]
    seen = {}
    with pytest.raises(PartyFailed) as caught:
        tacit.run(parties_of_bad_input, value, OWNER, seen, **settings)
    assert text in str(caught.value)
    assert (caught.value.party, caught.value.kind) == (OWNER, "RangeError")
    sent, error = seen[OWNER]
    assert sent <= (2 * FORMS if isinstance(value, dict) else 0)
    assert error.position is not None
    for rank in {0, 1, 2} - {OWNER}:
        _, told = seen[rank]
        assert (type(told), told.party) == (RangeError, OWNER)
        assert (told.number, told.position) == ("", None)
        assert str(told).startswith(f"party {OWNER} ended the run")


@pytest.mark.full("test_the_owner_refuses_before_anything_is_sent")
def test_the_owner_refuses_in_a_process_of_its_own():
    with pytest.raises(PartyFailed) as caught:
        tacit.run(parties_of_bad_input, torch.tensor([1.0, math.nan]), OWNER, transport="processes")
    assert (caught.value.party, caught.value.kind) == (OWNER, "RangeError")
    assert "share: the tensor is NaN at 1" in str(caught.value)
    assert all(f"party {OWNER} ended the run" in note for note in caught.value.__notes__)


def test_the_owner_is_warned_of_statistics_whose_inverse_root_is_rough():
    def main(session):
        session.share(normed(5000.0), owner=OWNER)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrecisionWarning)
        tacit.run(main, ring=32, fraction_bits=8)
        tacit.run(main)
    texts = [str(one.message) for one in caught if "1.running_var" in str(one.message)]
    assert len(texts) == 1
    assert "fewer than 5 significant bits with 8 fraction bits; fold it" in texts[0]


# Guards -----------------------------------------------------------------------------------------


def infer(session, weight, *, calibration=None, x=((1.0, 2.0),), to=None):
    """What a model of this first weight gives, and what was revealed on the way."""
    model = session.share(linear(weight), owner=0)
    if calibration is not None:
        tacit.nn.tighten(session, model, calibration, owner=0)
    with torch.no_grad():
        y = session.reveal(model(session.share(torch.tensor(x), owner=1)), to)
    return y, [(one.purpose, one.shape, one.dtype, one.to) for one in session.reveals]


@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_guards_open_one_bit_a_module_and_change_nothing(protocol):
    torch.manual_seed(1)
    plain = linear(3.0)
    state = plain.state_dict()

    def main(session):
        model = linear(3.0)
        model.load_state_dict(state)
        session.share(model, owner=0)
        return session.reveal(model(session.share(torch.ones(4, 2), owner=1))), session.reveals

    y, record = tacit.run(main, protocol=protocol, guard=True)[0]
    assert torch.allclose(y, plain(torch.ones(4, 2)), atol=1e-3)
    assert [(one.purpose, one.shape, one.dtype) for one in record] == [
        ("guard", (2,), "bool"),
        ("program", (4, 1), "float32"),
    ]


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_a_guard_names_the_module_at_every_party(protocol):
    with pytest.raises(PartyFailed) as caught:
        tacit.run(infer, 9e5, protocol=protocol, guard=True)
    assert (caught.value.kind, caught.value.path) == ("RangeError", "0")
    assert "values beyond their range in 0" in str(caught.value)
    assert [note.split(" failed ")[1] for note in caught.value.__notes__] == ["in the same way"] * 2


def test_a_guard_watches_the_range_that_calibrate_found():
    torch.manual_seed(2)
    calibration = tacit.nn.calibrate(linear(3.0), torch.ones(1, 2))
    found = tacit.run(infer, 3.0, calibration=calibration, x=((1.0, 1.0),), guard=True)
    assert found[0][1][0][0] == "guard"
    with pytest.raises(PartyFailed, match="values beyond their range in 0") as caught:
        tacit.run(infer, 3.0, calibration=calibration, x=((9.0, 9.0),), guard=True)
    assert caught.value.kind == "RangeError"


def test_a_guard_opens_its_bits_to_whom_the_policy_allows():
    _, record = tacit.run(infer, 1.0, to=2, guard=True, reveals=[2])[0]
    assert [(purpose, to) for purpose, _, _, to in record] == [
        ("guard", ("party2",)),
        ("program", ("party2",)),
    ]
    with pytest.raises(PartyFailed) as caught:
        tacit.run(infer, 9e5, to=2, guard=True, reveals=[2])
    assert (caught.value.party, caught.value.kind) == (2, "RangeError")
    with pytest.raises(ConfigError, match=r"guard=True with reveals=\(\)"):
        tacit.run(infer, 1.0, guard=True, reveals=[])


def square(session):
    return session.reveal(session.share(torch.tensor([1e5]), owner=0) ** 2)


@pytest.mark.parametrize("settings", [{"guard": True}, {"debug": True, "protocol": "cleartext"}])
def test_a_square_beyond_the_range_is_found(settings):
    with pytest.raises(PartyFailed, match="beyond") as caught:
        tacit.run(square, **settings)
    assert caught.value.kind == "RangeError"


def test_check_is_a_reveal_without_values(monkeypatch):
    monkeypatch.setattr(guard, "MOST_ELEMENTS", 3)  # so that comparisons do not wait

    def main(session):
        model = session.share(linear(1.0), owner=0)
        x = session.share(torch.ones(3, 2), owner=1)
        with torch.no_grad():
            for _ in range(2):
                model(x)
            session.check()
            session.check()
            model(x * 1e6)
        with pytest.raises(RangeError, match="in 0"):
            session.check()
        return [(one.purpose, one.shape) for one in session.reveals]

    assert tacit.run(main, guard=True)[0] == [("guard", (2,)), ("guard", (2,))]


@pytest.mark.parametrize(("guarded", "megabytes", "rounds"), [(False, 1.43, 19), (True, 2.82, 26)])
def test_guards_cost_what_the_page_says(guarded, megabytes, rounds):
    """docs/concepts/fixed_point.md has these figures."""

    def main(session):
        model = session.share(tacit.zoo.lenet().eval(), owner=0)
        x = session.share(torch.rand(1, 1, 28, 28), owner=1)
        with torch.no_grad(), session.stats.scope("inference") as cost:
            session.reveal(model(x))
        return cost.bytes_sent, cost.rounds

    costs = tacit.run(main, guard=guarded)
    assert round(sum(sent for sent, _ in costs) / 1e6, 2) == megabytes
    assert max(taken for _, taken in costs) == rounds


def test_without_guards_nothing_is_watched():
    def main(session):
        model = session.share(linear(9e5), owner=0)
        model(session.share(torch.ones(1, 2), owner=1))
        session.check()
        return session.reveals, len(model[0]._forward_hooks)

    assert tacit.run(main)[0] == ([], 0)


# Numbers below the precision --------------------------------------------------------------------


def small_numbers(session):
    """Two norms and an optimizer of small eps, and a small factor."""
    norms = nn.Sequential(nn.LayerNorm(2, eps=1e-12), nn.Linear(2, 2), nn.BatchNorm1d(2, eps=1e-9))
    session.share(norms, owner=0)
    session.share(nn.BatchNorm1d(2), owner=0)
    optimizer = torch.optim.Adam(norms.parameters())
    x = session.share(torch.rand(4, 2), owner=0)
    for _ in range(2):
        norms(x).sum().backward()
        optimizer.step()
    return session.reveal(x * 1e-8), session.reveal(x * 1e-5)


def test_warnings_tell_of_numbers_that_round_to_zero():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrecisionWarning)
        tacit.run(small_numbers, protocol="cleartext", parties=1)
    texts = [str(one.message) for one in caught if one.category is PrecisionWarning]
    assert texts == [
        "precision: eps=1e-12 of 0 and 1 more is 0 with 22 fraction bits; 0 is used, and a "
        "variance of 0 counts as 2^-22",
        "precision: eps=1e-08 of Adam is below a unit, 2^-16; a root counts as 2^-16 at least, and "
        "eps is added to that",
        "precision: the factor 1e-08 is below half a unit, 2^-17: numbers below 763 become 0; "
        "scale first, or use more fraction_bits",
    ]
