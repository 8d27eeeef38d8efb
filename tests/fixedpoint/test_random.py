"""Public random numbers: their functions are those of the library, made of exact operations."""

from __future__ import annotations

import math

import torch

import tacit
from tacit.ring.deterministic import cosine_of_turns, logarithm


def test_the_logarithm_and_the_cosine_are_right():
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(10_000, dtype=torch.float64, generator=generator)
    positive = torch.cat([1 - x, torch.tensor([1.0, 2.0**-53, 0.5, math.sqrt(0.5)])])
    assert (logarithm(positive) - positive.log()).abs().max() < 1e-14
    turns = torch.cat([x, torch.tensor([0.0, 0.25, 0.5, 0.75, 1 - 2.0**-53])])
    assert (cosine_of_turns(turns) - (2 * math.pi * turns).cos()).abs().max() < 1e-14


def draw(session, shape):
    return session.numbers.normal(shape)


def test_parties_draw_the_same_normal_numbers():
    first, *others = tacit.run(draw, (100_000,))
    assert all(torch.equal(first, other) for other in others)
    assert abs(float(first.mean())) < 0.02
    assert abs(float(first.std()) - 1) < 0.02
    assert abs(float((first.abs() < 1).double().mean()) - 0.6827) < 0.01
