"""Faults in how masks are drawn and used: the checks of the security tests find every one."""

from __future__ import annotations

import pytest
from tests.protocols.mutants import MUTANTS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_killed(name, monkeypatch):
    MUTANTS[name].apply(monkeypatch)
    assert MUTANTS[name].is_found()


@pytest.mark.full("the checks without a fault; the security tests run them on all operations")
@pytest.mark.parametrize("check", {mutant.is_found: None for mutant in MUTANTS.values()})
def test_without_a_mutant_the_check_finds_nothing(check):
    assert not check()


def test_there_are_mutants_of_many_kinds():
    assert len(MUTANTS) >= 25
    assert len({mutant.apply for mutant in MUTANTS.values()}) >= 20
