"""What a repeated function is made of, as far as it needs no GPU: tests/gpu has the rest."""

from __future__ import annotations

import copy
import secrets
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tacit
from tacit.crypto import Key, KeyRing
from tacit.errors import PeerTimeout, ProtocolError
from tacit.fixedpoint.flatten import canonical, signature, tensors, with_tensors
from tacit.protocols.randomness import CallRandomness, KeyStreams, common_stream
from tacit.runtime.replay.buffers import CallSignature, SecretTree, TensorBuffers, ValueBuffers
from tacit.tensor.trace import Trace, targets
from tacit.transport import Barrier

LINEAR = nn.Linear(3, 2)


def test_a_function_that_counts_its_calls_runs_as_it_is() -> None:
    def main(session: tacit.Session) -> tuple[list[Tensor], int]:
        count = [0]

        def twice(x: Tensor) -> Tensor:
            count[0] += 1
            return 2 * x

        often = session.repeated(twice)
        x = session.share(torch.arange(3.0), owner=0)
        return [session.reveal(often(x)) for _ in range(5)], count[0]

    for found, count in tacit.run(main):
        assert count == 5
        assert all(torch.equal(one, torch.tensor([0.0, 2, 4])) for one in found)


# What a function reads and writes -----------------------------------------------------------------


def traced(session: tacit.Session, function) -> Trace:  # type: ignore[no-untyped-def]
    trace = Trace()
    with trace.on(session.numbers):
        function()
    return trace


def test_a_trace_finds_the_secrets_that_were_there_before() -> None:
    def main(session: tacit.Session) -> None:
        model = session.share(copy.deepcopy(LINEAR), owner=0)
        x = session.share(torch.ones(4, 3), owner=1)
        unused = session.share(torch.ones(2), owner=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        trace = traced(session, step)
        cells = {id(cell) for cell, _ in trace.cells.values()}
        assert cells == {id(one._cell) for one in (model.weight, model.bias, x)}  # type: ignore[attr-defined]
        written = {id(cell) for cell in trace.written()}
        assert written == {id(model.weight._cell), id(model.bias._cell)}  # type: ignore[attr-defined]
        assert id(unused._cell) not in cells
        assert trace.obstacle is None
        assert session.numbers.trace is None

    tacit.run(main)


def test_a_trace_finds_what_stands_against_repeating() -> None:
    def main(session: tacit.Session) -> list[str | None]:
        x = session.share(torch.ones(3), owner=0)
        counter = torch.zeros(())

        def counts() -> Tensor:
            counter.add_(1)
            return x * 2

        def through_a_view() -> Tensor:
            counter.view(-1).add_(1)
            return x * 2

        def copies() -> Tensor:
            return x + torch.zeros(3).add_(1)  # made within: no obstacle

        functions = [counts, through_a_view, copies, lambda: x * torch.rand(3)]
        return [traced(session, function).obstacle for function in functions]

    counts, through_a_view, copies, draws = tacit.run(main)[0]
    for one in (counts, through_a_view):
        assert one is not None
        assert "add_" in one
        assert "writes to a public tensor" in one
    assert copies is None
    assert draws is not None
    assert "public random numbers" in draws


def test_sharing_within_stands_against_repeating() -> None:
    """The owner's numbers would be copied once, and be the same in every repetition."""

    def main(session: tacit.Session) -> list[str | None]:
        x = session.share(torch.ones(3), owner=0)
        batches = iter([torch.ones(3), torch.zeros(3)])

        def tensors() -> Tensor:
            return x + session.share(next(batches), owner=1)

        def modules() -> Tensor:
            return session.share(copy.deepcopy(LINEAR), owner=1)(x)

        return [traced(session, function).obstacle for function in (tensors, modules)]

    for obstacles in tacit.run(main):
        assert all(one is not None and "it shares plain numbers" in one for one in obstacles)


# Fixed places ------------------------------------------------------------------------------------


def test_buffers_give_clones_of_what_was_copied_into_them() -> None:
    like = [torch.arange(5), torch.ones(2, 3, dtype=torch.int32), torch.empty(0, 4).long()]
    buffers = TensorBuffers(like)
    copies = buffers.clones()
    buffers.copy_from([tensor + 1 for tensor in like])
    for place, copied, tensor in zip(buffers.tensors, copies, like, strict=True):
        assert torch.equal(copied, tensor)
        assert torch.equal(place, tensor + 1)


def test_values_keep_their_form_and_numbers() -> None:
    def main(session: tacit.Session) -> Tensor:
        n = session.numbers
        x, bits = session.share([torch.randn(3, 2), torch.tensor([True, False, True])], owner=0)
        pending = (x * x).value
        values = canonical(n, [x.value, pending, bits.value])
        assert signature(values[0]) == signature(values[1])  # one shape and dtype
        buffers = ValueBuffers(session.numbers, values)
        assert [signature(value) for value in buffers.aliases()] == [
            signature(value) for value in values
        ]
        again = with_tensors(n, values[1], [part.clone() for part in tensors(values[1])])
        for made in (buffers.aliases()[1], buffers.clones()[1], again):
            difference = tacit.SecretTensor(made, n) - x * x
            assert session.reveal(difference).abs().max() <= 2**-14
        return session.reveal(tacit.SecretTensor(buffers.clones()[2], n))

    assert all(torch.equal(bits, torch.tensor([True, False, True])) for bits in tacit.run(main))


def test_a_call_has_the_form_of_its_arguments_as_a_nest() -> None:
    def main(session: tacit.Session) -> None:
        x, y = (session.share(torch.ones(2), owner=0) for _ in range(2))
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((), {}),
            ((x, 0.5, None, torch.ones(3), "text", True), {}),
            ((x, [y, 1]), {}),
            (((x, y),), {}),
            ((x,), {"other": y}),
        ]
        for args, kwargs in calls:
            made, nest = SecretTree.of_call(args, kwargs), SecretTree.of((args, kwargs))
            assert made.spec == nest.spec
            assert [*map(id, made.secrets)] == [*map(id, nest.secrets)]
            assert [*map(id, made.others)] == [*map(id, nest.others)]
            again, named = made.filled(made.secrets)
            assert len(again) == len(args)
            assert named.keys() == kwargs.keys()

    tacit.run(main)


def test_arguments_are_alike_in_form_and_in_what_is_public() -> None:
    def main(session: tacit.Session) -> None:
        x, y = (session.share(torch.ones(2, n), owner=0) for n in (3, 4))
        mask = torch.ones(2)
        base = SecretTree.of(((x, 0.5), {"mask": mask}))
        pattern = CallSignature(base, private=frozenset())
        assert pattern.fits(SecretTree.of(((x, 0.5), {"mask": torch.ones(2)})))
        assert not pattern.fits(SecretTree.of(((x + 1, 0.5), {"mask": torch.ones(2)})))
        assert not pattern.fits(SecretTree.of(((y, 0.5), {"mask": torch.ones(2)})))
        assert not pattern.fits(SecretTree.of(((x, 0.25), {"mask": torch.ones(2)})))
        assert not pattern.fits(SecretTree.of(((x, 0.5), {"mask": torch.zeros(2)})))
        assert not pattern.fits(SecretTree.of(((x, 0.5), {})))
        for private in (None, {2}):  # not known yet, or known to be shared
            shared = CallSignature(base, private)
            assert shared.fits(SecretTree.of(((x, 0.5), {"mask": torch.zeros(2)})))
            assert not shared.fits(SecretTree.of(((x, 0.5), {"mask": torch.zeros(3)})))
        with torch.no_grad():
            assert not pattern.fits(base)
        mask.zero_()
        assert not pattern.fits(base)
        (again, half), _ = base.with_secrets(session.numbers, base.values)
        assert half == 0.5
        assert torch.equal(session.reveal(again), torch.ones(2, 3))

    tacit.run(main)


# Fresh keys --------------------------------------------------------------------------------------


def sources() -> list[KeyStreams]:
    secret = secrets.token_bytes(32)
    rings = [KeyRing(rank, {(0, 1): Key(secret, (0, 1))}) for rank in (0, 1)]
    return [KeyStreams(keys, "chacha20") for keys in rings]


def drawn(source: KeyStreams, number: int) -> Tensor:
    return CallRandomness(source, number).draw(common_stream("test", 0, 1), [64], torch.int64)


def test_renewed_keys_are_fresh_and_those_of_all_holders() -> None:
    first, second = sources()
    for source in (first, second):
        drawn(source, 1)
    keys = [source.blank_keys() for source in (first, second)]
    seen = [drawn(first, 7)]
    for number in (8, 9):  # two repetitions of what was recorded as operation 7
        found = []
        for source, own in zip((first, second), keys, strict=True):
            source.renew(own, number)
            with source.using(own):
                found.append(drawn(source, 7))
        assert torch.equal(*found)
        seen.append(found[0])
    for i, one in enumerate(seen):
        assert all((one != other).all() for other in seen[:i])
    assert torch.equal(drawn(first, 7), seen[0])  # afterwards the session's own keys again


def test_under_renewed_keys_nothing_is_drawn_from_the_others() -> None:
    first, *_ = sources()
    with first.using({}), pytest.raises(ProtocolError, match="no key is ready"):
        drawn(first, 1)


# Meetings ----------------------------------------------------------------------------------------


def test_parties_see_what_each_has_laid_down() -> None:
    barrier = Barrier(3, seconds=10.0)
    found: list[list[list[int]]] = [[], [], []]

    def party(rank: int) -> None:
        for i in range(100):
            found[rank].append(barrier.all_gather(rank, 10 * i + rank, lambda: None))

    threads = [threading.Thread(target=party, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [[10 * i, 10 * i + 1, 10 * i + 2] for i in range(100)]
    assert found == [expected] * 3


def test_a_party_that_does_not_come_is_named() -> None:
    barrier = Barrier(2, seconds=0.3)
    with pytest.raises(PeerTimeout, match="party 1 has not come") as caught:
        barrier.all_gather(0, None, lambda: None)
    assert caught.value.party == 1


def test_whoever_waits_hears_that_the_run_has_ended() -> None:
    def ended() -> None:
        raise PeerTimeout("ended", party=1)

    with pytest.raises(PeerTimeout, match="ended"):
        Barrier(2, seconds=10.0).all_gather(0, None, ended)


def test_what_tells_torch_of_a_stream_writes_nothing():
    """Parties that share a GPU hand each other memory, and say so."""
    x, aten = torch.zeros(2), torch.ops.aten
    assert [id(one) for one in targets(aten.add_.Tensor, (x, x), {})] == [id(x)]
    assert not list(targets(aten.record_stream.default, (x, None), {}))
