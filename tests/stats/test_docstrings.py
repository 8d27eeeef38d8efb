"""The examples in docstrings of statistics and metrics are right."""

import doctest
import importlib
import pkgutil

import pytest
import torch

from tacit import metrics, stats

MODULES = [
    f"{package.__name__}.{info.name}"
    for package in (stats, metrics)
    for info in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"torch": torch})
    assert found.failed == 0
