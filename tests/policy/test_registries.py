"""Registries: nothing is registered twice, no entry is dead, every exported name is used."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from tests.policy.sources import ROOT
from torch._decomp import decomposition_table

import tacit
from tacit import registry
from tacit.errors import ConfigError
from tacit.fixedpoint import Value
from tacit.tensor.decompose import PRIMS
from tacit.tensor.table import DECOMPOSED, RULES, decomposed, implements

aten = torch.ops.aten
# What users see: models, and the classes of results that have no other way to be named.
EXPORTED_FOR_USERS = {
    *("tacit.zoo", "tacit.errors", "tacit.nn", "tacit.stats", "tacit.testing"),
    "tacit.compat.crypten",
    "tacit.compat.crypten.mpc",
    "tacit.compat.crypten.nn",
    "tacit.compat.crypten.optim",
}


def is_composite(overload):
    key = "CompositeImplicitAutograd"
    return torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key)


def test_a_rule_cannot_be_registered_twice():
    assert (aten.mm.default, Value) in RULES
    with pytest.raises(ValueError, match=r"aten\.mm\.default has a rule"):
        implements(aten.mm.default)(lambda n, a, b: None)


def test_rules_and_decompositions_are_disjoint():
    assert not {overload for overload, kind in RULES if kind is Value} & DECOMPOSED
    with pytest.raises(ValueError, match="would be dead"):
        decomposed(aten.mm.default)
    with pytest.raises(ValueError, match="would be dead"):
        implements(next(iter(DECOMPOSED)))(lambda n, x: None)


def test_every_decomposition_is_torchs_and_is_reached():
    """An operator that torch itself takes apart first never arrives at its decomposition."""
    assert decomposition_table.keys() >= DECOMPOSED
    assert not [str(overload) for overload in DECOMPOSED if is_composite(overload)]


def test_every_primitive_stands_for_an_operator():
    missing = {n for n in PRIMS if not (hasattr(torch.ops.prims, n) and hasattr(aten, n))}
    assert not missing


def test_every_kind_of_value_has_a_rule_of_its_own_or_is_ordinary():
    kinds = {kind for _, kind in RULES}
    assert all(issubclass(kind, Value) for kind in kinds)


@pytest.mark.parametrize("name", list(registry.PROTOCOLS))
def test_a_protocol_cannot_be_registered_twice(name):
    info = registry.PROTOCOLS[name]
    options = {"summary": "", "parties": info.parties, "guarantees": info.guarantees}
    with pytest.raises(ConfigError, match="registered already"):
        registry.register_protocol(name, None, **options)


@pytest.mark.parametrize("name", list(registry.TRANSPORTS))
def test_a_transport_cannot_be_registered_twice(name):
    with pytest.raises(ConfigError, match="registered already"):
        registry.register_transport(name, "", summary="", one_process=True)


def packages():
    yield tacit
    for info in pkgutil.walk_packages(tacit.__path__, "tacit."):
        if info.ispkg:
            yield importlib.import_module(info.name)


@cache
def words() -> dict[Path, set[str]]:
    folders = ("src", "tests", "docs", "benchmarks", "examples")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    read = (path for path in found if path.suffix in (".py", ".md", ".ipynb"))
    return {path: set(re.findall(r"\w+", path.read_text())) for path in read}


def used_outside(package, name):
    folder = Path(package.__file__).parent
    return any(name in known for path, known in words().items() if folder not in path.parents)


def test_every_exported_name_exists_and_is_used():
    for package in packages():
        names = getattr(package, "__all__", [])
        assert not [name for name in names if not hasattr(package, name)], package.__name__
        if package is not tacit and package.__name__ not in EXPORTED_FOR_USERS:
            unused = [name for name in names if not used_outside(package, name)]
            assert not unused, f"{package.__name__} exports {unused}, which nobody uses"
