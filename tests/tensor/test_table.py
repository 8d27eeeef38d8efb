"""The table of rules: a rule for each key, and nothing that shadows another."""

import pytest
import torch

import tacit
from tacit.errors import PartyFailed, UnsupportedOp
from tacit.fixedpoint import Value
from tacit.fixedpoint.extended.mean_square import MeanSquare
from tacit.tensor.dispatch import plan
from tacit.tensor.table import DECOMPOSED, RULES, decomposed, implements, rule_of

aten = torch.ops.aten


def test_a_second_rule_is_an_error():
    with pytest.raises(ValueError, match="has a rule for Value"):
        implements(aten.mul.Tensor)(lambda n, self, other: self)
    with pytest.raises(ValueError, match="has a rule for MeanSquare"):
        implements(aten.sqrt.default, kind=MeanSquare)(lambda n, self: self)


def test_a_rule_and_a_decomposition_exclude_each_other():
    assert not {overload for overload, _ in RULES} & DECOMPOSED
    with pytest.raises(ValueError, match="would be dead"):
        decomposed(aten.mul.Tensor)
    with pytest.raises(ValueError, match="would be dead"):
        implements(next(iter(DECOMPOSED)))(lambda n, self: self)


def test_a_rule_for_a_kind_stands_beside_an_ordinary_one():
    for overload, kind in RULES:
        assert issubclass(kind, Value)
        assert rule_of(overload) is not None, f"{overload} has a rule for {kind.__name__} only"


def test_a_rule_that_comes_late_is_found():
    overload = aten.special_bessel_j0.default

    def main(session):
        return session.reveal(torch.special.bessel_j0(session.share(torch.ones(2), owner=0)))

    with pytest.raises(PartyFailed) as failed:
        tacit.run(main, protocol="cleartext", parties=1)
    assert isinstance(failed.value.__cause__, UnsupportedOp)
    try:
        implements(overload)(lambda n, self: n.add(self, 1))
        assert tacit.run(main, protocol="cleartext", parties=1)[0].tolist() == [2.0, 2.0]
    finally:
        RULES.pop((overload, Value), None)
        plan.cache_clear()
