"""torch's random numbers in a session: public, the same at all parties, and fresh."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from tests.runtime.party_files import NAMES, write_parties
from tests.runtime.public_draws import CASES, draw_all, draw_in_process, features, train
from torch import nn
from torch.utils.checkpoint import checkpoint

import tacit
from tacit.runtime import public_randomness
from tacit.runtime.public_randomness import DRAWING


def assert_equal_at_all(results):
    first, *others = results
    for name, drawn in first.items():
        assert all(other[name] == drawn for other in others), name


def test_all_parties_in_threads_draw_the_same():
    before = torch.get_rng_state()
    first, second = tacit.run(draw_all), tacit.run(draw_all)
    assert torch.equal(torch.get_rng_state(), before)
    assert_equal_at_all(first)
    assert_equal_at_all(second)
    assert [name for name in CASES if first[0][name] == second[0][name]] == []


@pytest.mark.full("threads here, processes in tests/runtime/test_first_day.py")
def test_all_parties_in_processes_draw_the_same(spawned):
    results = tacit.run(draw_in_process, transport="processes")
    assert_equal_at_all(results)
    assert len(results[0]["workers"]) == 6


def test_connected_parties_draw_the_same(tmp_path):
    path, before = write_parties(tmp_path), torch.get_rng_state()

    def party(name):
        with tacit.connect(path, party=name) as session:
            return draw_all(session)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        results = list(pool.map(party, NAMES))
        after = list(pool.map(lambda _: torch.get_rng_state(), NAMES))
    assert_equal_at_all(results)
    assert all(torch.equal(state, after[0]) for state in after)
    torch.set_rng_state(before)


def test_manual_seed_sets_the_numbers_of_the_session():
    def main(session):
        torch.manual_seed(5)
        seeded = torch.rand(3)
        state = torch.random.get_rng_state()
        with torch.random.fork_rng():
            forked = torch.rand(2)
        again = torch.rand(2)
        torch.set_rng_state(state)
        return seeded, forked, again, torch.rand(2), torch.initial_seed()

    before = torch.get_rng_state()
    plain = torch.rand(5, generator=torch.Generator().manual_seed(5))
    for seeded, *later, seed in tacit.run(main):
        assert torch.equal(seeded, plain[:3])
        assert all(torch.equal(one, plain[3:]) for one in later)
        assert seed == 5
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_of_a_party_stays_its_own():
    def main(session):
        own = torch.Generator().manual_seed(session.rank)
        drawn = torch.rand(3, generator=own), torch.randperm(30, generator=own)
        return drawn, torch.rand(3)

    results = tacit.run(main)
    for rank, (drawn, public) in enumerate(results):
        own = torch.Generator().manual_seed(rank)
        assert torch.equal(drawn[0], torch.rand(3, generator=own))
        assert torch.equal(drawn[1], torch.randperm(30, generator=own))
        assert torch.equal(public, results[0][1])


def test_a_seedless_loader_trains_as_in_plain():
    def main(session):
        x, y = features(15, 4)
        x = session.share(x if session.rank == 0 else torch.zeros_like(x), owner=0)
        y = session.share(y if session.rank == 1 else torch.zeros_like(y), owner=1)
        return session.reveal(train(x, y, lambda model: session.share(model, owner=2)))

    with torch.random.fork_rng():
        plain = train(*features(15, 4), lambda model: model)
    for losses in tacit.run(main):
        torch.testing.assert_close(losses, plain, atol=2e-3, rtol=0)


def test_unshared_modules_and_noise_are_equal_at_all_parties():
    """x + torch.randn(...), and a model that nobody shared: right without a word."""

    def main(session):
        x = session.share(torch.ones(2, 3), owner=0)
        layer, noise = nn.Linear(3, 3), torch.randn(3)
        with torch.no_grad():
            return session.reveal(layer(x) + noise), layer(torch.ones(2, 3)) + noise

    for revealed, plain in tacit.run(main):
        torch.testing.assert_close(revealed, plain, atol=1e-3, rtol=0)


def test_a_session_in_a_session_has_its_own_numbers():
    def main(session):
        torch.manual_seed(1)
        first = torch.rand(1)
        inner = tacit.run(lambda one: torch.rand(1), parties=1, protocol="none")
        return first, torch.rand(1), inner[0]

    plain = torch.rand(2, generator=torch.Generator().manual_seed(1))
    for first, second, inner in tacit.run(main):
        assert torch.equal(torch.cat([first, second]), plain)
        assert inner not in plain


@pytest.mark.full("torch.utils.checkpoint; fork_rng is in the test of manual_seed")
def test_dropout_that_is_computed_again_draws_the_same():
    def main(session):
        x = torch.ones(40, requires_grad=True)
        made = checkpoint(F.dropout, x, use_reentrant=False)
        made.sum().backward()
        return made.detach(), x.grad

    for made, gradient in tacit.run(main):
        assert torch.equal(made, gradient)


def test_every_operator_that_reads_a_generator_is_redirected():
    """Compares the list with the kernels that this version of torch has."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        if not schema.name.startswith("aten::"):
            continue
        if any(argument.name == "generator" for argument in schema.arguments) and _has_kernel(name):
            found.add(name.removeprefix("aten::"))
    assert found == set(DRAWING)


def _has_kernel(name):
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
    except RuntimeError:  # of TorchScript, not of the dispatcher
        return False


def test_tensors_without_numbers_draw_nothing():
    def main(session):
        torch.manual_seed(0)
        torch.empty(3, device="meta").normal_()
        return torch.rand(3)

    plain = torch.rand(3, generator=torch.Generator().manual_seed(0))
    assert all(torch.equal(drawn, plain) for drawn in tacit.run(main))


def test_sessions_that_open_at_the_same_time_replace_the_operators_once(monkeypatch):
    public_randomness.replace_operators()  # in earnest, if no test has done it
    replaced, start = [], threading.Barrier(8)

    def slow(name, kernel_of):
        replaced.append(name)
        time.sleep(1e-4)

    monkeypatch.setattr(public_randomness, "_replace", slow)
    monkeypatch.setattr(torch.random, "default_generator", torch.random.default_generator)
    public_randomness._replace_operators.cache_clear()

    def party(_):
        start.wait()
        public_randomness.replace_operators()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(party, range(8)))
    assert len(replaced) == len(set(replaced)) > len(DRAWING)
