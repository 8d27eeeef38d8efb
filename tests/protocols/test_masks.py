"""No words hide two messages: of one sender, of two, in step and out of step.

That each message is hidden by words of a stream that names its sender and its receiver is proved in
`test_security.py`; here the bytes of the streams are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest
import torch
from tests.protocols import views
from tests.protocols.members import parties_of, run_members
from tests.protocols.out_of_step import two_time_pads
from tests.protocols.ranges import Use, differences, hidden_twice, overlaps, watch
from tests.protocols.views import EVERY, SHIFT, Recorder
from torch import Tensor
from torch.nn import functional

import tacit
from tacit import SecretTensor, Session
from tacit.errors import ProtocolError
from tacit.protocols import BitSum
from tacit.protocols.masked.deal import HALVED_BITS
from tacit.protocols.randomness import Stream, common_stream, mask_stream
from tacit.registry import PROTOCOLS
from tacit.runtime.launch import local_run

SHARING = {name: info for name, info in PROTOCOLS.items() if info.computes_on_shares}
SECRET = [name for name, info in SHARING.items() if info.guarantees.private]
RINGS = pytest.mark.parametrize("ring", [64, 32])
EACH = pytest.mark.parametrize("protocol", SECRET)
LONG = pytest.mark.full("every operation of beaver and quad, not cut, and of the others")
SHORT = pytest.mark.parametrize(
    "protocol", [pytest.param(n, marks=[LONG] if n in ("beaver", "quad") else []) for n in SECRET]
)


# In step ----------------------------------------------------------------------------------------


def long_program(session: Session) -> list[Use]:
    """What this party draws in a program with everything."""
    uses = watch(session)
    for turn in range(3 if hasattr(session.protocol, "rotated") else 2):
        p = views.rotated(session, turn)
        v = torch.arange(-100, 92, dtype=p.ring.dtype)
        for operation in EVERY.values():
            operation(p, v)
        x, y, bit = views.shared(p, v), p.random(v.shape), p.random_bits(v.shape)
        with p.parallel():
            results = [p.mul(x, y), p.square(x), p.sign(x), p.inject(bit, x), p.random((3,))]
        with p.parallel():
            twice = p.mul(results[0], y, shift=SHIFT), p.mul(results[0], y, shift=SHIFT)
        p.inject_sums([bit, results[2]], p.add(*twice), [BitSum((1, 1), (1, 1))])
        p.reveal(p.add(*twice))
    return uses


def check_in_step(by_party: list[list[Use]]) -> None:
    """No party takes a word twice, none hides two messages, and holders draw the same."""
    for rank, uses in enumerate(by_party):
        assert all(rank in use.stream.holders for use in uses)
        assert not overlaps(uses), f"party {rank}"
    assert not hidden_twice(by_party)
    assert not differences(by_party)


@RINGS
@EACH
def test_no_word_is_drawn_twice_and_holders_draw_the_same(protocol, ring):
    by_party = run_members(long_program, protocol=protocol, ring=ring, fraction_bits=8)
    check_in_step(by_party)
    streams = {use.stream for uses in by_party for use in uses}
    members = {None, *range(parties_of(protocol) + PROTOCOLS[protocol].helpers)}
    assert {stream.sender for stream in streams} == members


def test_no_word_of_chacha20_is_drawn_twice(monkeypatch):
    monkeypatch.setattr(local_run, "cipher_for", lambda *_: "chacha20")
    check_in_step(tacit.run(long_program, fraction_bits=8))


@pytest.mark.full("the same in threads; tests/protocols/test_conformance.py runs processes")
def test_no_word_is_drawn_twice_over_tcp():
    check_in_step(tacit.run(long_program, transport="processes", fraction_bits=8))


def pieces(session: Session) -> list[Use]:
    """Everything that is cut to a limit of memory, in pieces of 64 elements and of 36."""
    session.protocol.context.memory_limit = 1
    return long_program(session)


def in_flight(session: Session) -> list[Use]:
    """What this party draws while calls of everything are in flight, and others are given up."""
    uses, p = watch(session), session.protocol
    values = torch.arange(-100, 92, dtype=p.ring.dtype)
    x = session.share(torch.linspace(-2, 2, 24), owner=1)

    def function(name: str, batch: Tensor) -> Tensor:
        EVERY[name](p, values)
        return functional.relu(batch * x[:4])

    for count in (3, 5):
        list(session.map(function, EVERY, x.split(4) * 8, in_flight=count))
        next(session.map(function, EVERY, x.split(4), in_flight=count))
    session.reveal(x)
    return uses


@SHORT
def test_calls_in_flight_draw_words_of_their_own(protocol):
    by_party = run_members(in_flight, protocol=protocol, fraction_bits=8)
    check_in_step(by_party)


@SHORT
def test_pieces_of_a_memory_limit_draw_words_of_their_own(protocol):
    check_in_step(run_members(pieces, protocol=protocol, fraction_bits=8))


def large_relu(session: Session) -> tuple[list[Use], Tensor]:
    """A ReLU so large that halves are dealt, twice: what it draws, and the words that arrive."""
    uses, recorder, p = watch(session), Recorder(session), session.protocol
    p.relu(p.random((HALVED_BITS // 64,)).promise(1 << 20))
    words = [tensor.reshape(-1) for _, tensor in recorder.take()]
    return uses, torch.cat(words) if words else torch.empty(0)


def test_a_relu_above_the_limit_of_one_deal_draws_words_of_its_own():
    found = tacit.run(large_relu)
    check_in_step([uses for uses, _ in found])
    for _, words in found[1:]:  # the dealer receives nothing
        assert len(words) > HALVED_BITS // 64
        assert len(words.unique()) == len(words)  # p < 1e-6 that 64 uniform bits repeat


def training(session: Session) -> list[Use]:
    """Two steps of training, written in torch."""
    uses = watch(session)
    model = session.share(small_network(), owner=0)
    x = session.share(torch.linspace(-1, 1, 64).reshape(4, 1, 4, 4), owner=1)
    y = session.share(torch.tensor([0, 1, 0, 1]), owner=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model(x).topk(1)
    return uses


def small_network() -> torch.nn.Module:
    torch.manual_seed(1)
    convolution = torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()
    return torch.nn.Sequential(
        *convolution, torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(2, 2)
    )


@SHORT
def test_no_word_is_drawn_twice_in_a_training(protocol):
    check_in_step(run_members(training, protocol=protocol))


TORCH: dict[str, Callable[[SecretTensor, SecretTensor], object]] = {
    "softmax": lambda x, _: x.softmax(-1),
    "layer norm": lambda x, _: functional.layer_norm(x, x.shape[-1:]),
    "division": lambda x, y: x / (y * y + 1),
    "sort": lambda x, _: x.sort(-1),
    "argmax": lambda x, _: x.argmax(-1),
    "topk": lambda x, _: x.topk(2, -1),
    "embedding": lambda x, y: functional.embedding((x > 0).long(), y),
    "lookup in a long table": lambda x, y: y[0, :1].expand(200)[(x > 0).long()],
    "attention": lambda x, y: functional.scaled_dot_product_attention(x[None], y[None], x[None]),
    "max pooling": lambda x, _: functional.max_pool1d(x[None], 2),
    "quantile": lambda x, _: x.median(-1),
    "probabilities": lambda x, y: functional.binary_cross_entropy_with_logits(x, (y > 0).float()),
}


def torch_programs(session: Session, limit: int | None) -> dict[str, list[Use]]:
    """What this party draws in programs of torch; 35 elements, 7 of which are a row."""
    uses, found = watch(session), {}
    session.protocol.context.memory_limit = limit
    values = torch.linspace(-2, 2, 35).reshape(5, 7)
    x, y = session.share(values, owner=0), session.share(values.flip(0, 1), owner=1)
    lstm = session.share(torch.nn.LSTM(7, 2), owner=2)
    for name, program in (TORCH | {"LSTM": lambda x, _: lstm(x)}).items():
        program(x, y)
        found[name] = list(uses)
        uses.clear()
    return found


@pytest.mark.parametrize("limit", [None, 1])
@EACH
def test_no_word_is_drawn_twice_in_programs_of_torch(protocol, limit):
    by_party = run_members(torch_programs, limit, protocol=protocol)
    for name in by_party[0]:
        check_in_step([found[name] for found in by_party])
        assert any(found[name] for found in by_party), name
    check_in_step([[use for uses in found.values() for use in uses] for found in by_party])


# Names ------------------------------------------------------------------------------------------


def test_a_stream_of_masks_is_one_of_its_sender_and_its_receivers():
    assert mask_stream("open", 1, 0, 2) == Stream(frozenset({0, 1}), "open", 1, (2,))
    streams = [
        *(mask_stream(use, *parties) for use in "ab" for parties in [(0, 1, 2), (1, 0, 2)]),
        common_stream("a", 0, 1),
    ]
    assert len({stream.label for stream in streams}) == len(streams)
    for parties in [(0, 1), (0, 1, 1), (0, 1, 0), (0, 0, 1), (0, 1, 2, 1)]:
        with pytest.raises(ProtocolError, match="cannot hide messages"):
            mask_stream("open", *parties)


# Out of step ------------------------------------------------------------------------------------


def each_operation(session: Session) -> dict[str, list[Use]]:
    """What each operation draws if it begins with the same number as all others."""
    uses, streams, found = watch(session), session.protocol.context.streams, {}
    v = torch.arange(-50, 54, dtype=session.protocol.ring.dtype)
    for turn in range(3 if hasattr(session.protocol, "rotated") else 1):
        p = views.rotated(session, turn)
        for name, operation in EVERY.items():
            streams.number = 0
            operation(p, v)
            found[f"{name}, {turn}"] = list(uses)
            uses.clear()
    return found


@EACH
def test_no_two_operations_of_two_parties_hide_messages_with_the_same_words(protocol):
    """Every pair of operations at the same number: a word that one party hides with is no other's.

    The key, the number and the bytes are compared, not the name of the stream.
    """
    by_party = run_members(each_operation, protocol=protocol, fraction_bits=8)
    hiding = [
        {(use.key, use.number) for uses in found.values() for use in uses if use.stream.sender == r}
        for r, found in enumerate(by_party)
    ]
    assert sum(len(used) > 10 for used in hiding) >= 3  # party 0 of quad hides inputs only
    assert all(hiding)
    for one in range(len(hiding)):
        for other in range(one):
            assert not hiding[one] & hiding[other]
    for found in by_party:
        for name, uses in found.items():
            assert not overlaps(uses), name


@pytest.mark.parametrize("start", range(0, 100, 50))
def test_parties_out_of_step_send_no_two_messages_under_one_mask(start):
    assert not two_time_pads(range(start, start + 50))


@pytest.mark.full("196 runs; test_parties_out_of_step_send_no_two_messages does 100")
@pytest.mark.parametrize("seed", range(100, 296, 98))
def test_no_run_of_many_out_of_step_sends_two_messages_under_one_mask(seed):
    assert not two_time_pads(range(seed, seed + 98))


@pytest.mark.full("3 runs of processes; the quick runs are threads, and TCP runs in step")
@pytest.mark.parametrize("seed", range(5000, 5003))
def test_no_run_of_processes_sends_two_messages_under_one_mask(seed):
    assert not two_time_pads([seed], transport="processes")


def test_the_experiments_see_masks_that_meet(monkeypatch):
    """With the addresses of old, by key, number and offset alone, they do: the audit's finding."""
    monkeypatch.setattr(Stream, "label", property(lambda stream: "masks"))
    assert len(two_time_pads(range(20))) > 5


# Threads ----------------------------------------------------------------------------------------


def two_threads(session: Session) -> list[object]:
    """What a second thread is told, while the first one goes on."""
    p, found = session.protocol, []

    def second() -> None:
        calls = [
            lambda: p.share(torch.arange(4), 0),
            lambda: p.random((4,)),
            lambda: p.refresh(x),
            lambda: session.reveal(total),
            lambda: torch.nn.functional.dropout(total),
            lambda: session.mesh.exchange({1 - session.rank % 2: [torch.arange(4)]}, {}),
            lambda: session.mesh.exchange_bytes({}, ()),
        ]
        for call in calls:
            with pytest.raises(ProtocolError) as caught:
                call()
            found.append((type(caught.value), caught.value.party, bool(caught.value.remedy)))

    x, total = p.share(torch.arange(4), 0), session.share(torch.ones(4), owner=1)
    number, sent = p.context.streams.number, session.stats.snapshot()
    thread = Thread(target=second)
    thread.start()
    thread.join()
    assert p.context.streams.number == number
    assert session.stats.take_back(sent).messages == 0
    return [found, p.reveal(x, to_dealer=True).tolist()]


@pytest.mark.parametrize("protocol", [*SECRET, "cleartext"])
def test_a_second_thread_is_refused_and_the_first_goes_on(protocol):
    by_party = tacit.run(two_threads, protocol=protocol, parties=parties_of(protocol))
    for rank, (found, plain) in enumerate(by_party):
        assert found == [(ProtocolError, rank, True)] * 7
        assert plain == [0, 1, 2, 3]
