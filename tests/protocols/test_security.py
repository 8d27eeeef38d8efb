"""What a party receives tells it nothing: statistics on bytes, and a proof from changed masks.

Statistics: the messages of every operation, on extreme secrets, look uniform and do not depend on
the secret. Bounds are 7 standard deviations and more (p < 1e-11), so that no run fails by chance.
Proof: `pads.joint_pads`. Both count messages of all operations but `reveal`, whose purpose it is
to tell something; that the proof finds fault with it is its control.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.protocols import views
from tests.protocols.chosen_randomness import Draw, seeded_words
from tests.protocols.halved import short_halves
from tests.protocols.members import parties_of, run_members
from tests.protocols.pads import bare_messages, joint_pads, unpadded
from tests.protocols.uniformity import HIGHEST, LOWEST, SIGMAS, difference, goodness, imbalance
from tests.protocols.views import EVERY, OPERATIONS, Message, Recorder
from tests.tiers import FULL, spread

import tacit
from tacit import Session
from tacit.registry import PROTOCOLS
from tacit.runtime.launch import local_run

__all__ = ["short_halves"]

SHARING = {name: info for name, info in PROTOCOLS.items() if info.computes_on_shares}
SECRET = [name for name, info in SHARING.items() if info.guarantees.private]
N = 2048  # a multiple of 64: there are no unused bits in the last word of a plane
MOST = (1 << 20) - 1

# Every protocol; in the full tier in each of its roles.
ROLES = 3 if FULL else 1
TURNS = [(name, turn) for name in SECRET for turn in range(ROLES if name == "trio" else 1)]
ADDITIVE = pytest.mark.full("messages of masked evaluation, in trio; pads prove it for all")
TURNED = pytest.mark.parametrize(
    ("protocol", "turn"),
    [
        pytest.param(name, turn, marks=[ADDITIVE] if PROTOCOLS[name].helpers else [])
        for name, turn in TURNS
    ],
)
EACH = pytest.mark.parametrize("protocol", SECRET)


def _marks_of_the_small_ring(protocol: str) -> list[pytest.MarkDecorator]:
    """Those of a protocol whose statistics the full tier alone counts."""
    if PROTOCOLS[protocol].helpers:
        return [ADDITIVE]
    small = pytest.mark.full("messages of quad in the large ring; pads prove it for both")
    return [small] if protocol == "quad" else []


Views = list[dict[str, list[Message]]]  # by party and operation


def run_views(value: int, **settings: Any) -> Views:
    turn = settings.pop("turn")
    names = list(OPERATIONS)
    return run_members(views.views, names, value, turn, N, fraction_bits=8, **settings)


def check_uniform(value: int, by_party: Views) -> None:
    for rank, found in enumerate(by_party):
        for name, messages in found.items():
            what = f"{name} of {value} at party {rank}"
            if messages:
                assert LOWEST < goodness(messages) < HIGHEST, what
            assert all(imbalance(tensor) < SIGMAS for _, tensor in messages), what


def check_no_word_arrives_twice(by_party: Views) -> None:
    """64 uniform bits do not repeat within 10^6 words (p < 1e-7): no mask was used twice."""
    for found in by_party:
        words = [tensor.reshape(-1) for got in found.values() for _, tensor in got]
        joined = torch.cat([w.view(torch.int64) for w in words]) if words else torch.empty(0)
        assert len(joined) < 10**6
        assert len(joined.unique()) == len(joined)


def check_equal_distributions(one: Views, other: Views) -> None:
    for rank, (a, b) in enumerate(zip(one, other, strict=True)):
        for name in a:
            assert [t.shape for _, t in a[name]] == [t.shape for _, t in b[name]]
            if a[name]:
                assert LOWEST < difference(a[name], b[name]) < HIGHEST, f"{name} at party {rank}"


@TURNED
def test_messages_are_uniform_and_do_not_depend_on_the_secret(protocol, turn):
    """All zeros, all ones, the largest value."""
    values = spread([0, -1, MOST], 2)
    seen = {value: run_views(value, turn=turn, protocol=protocol) for value in values}
    for value, by_party in seen.items():
        check_uniform(value, by_party)
    check_no_word_arrives_twice(seen[0])
    check_equal_distributions(seen[0], seen[-1])


@pytest.mark.parametrize(
    "protocol", [pytest.param(name, marks=_marks_of_the_small_ring(name)) for name in SECRET]
)
def test_messages_in_the_small_ring_are_uniform(protocol):
    check_uniform(-1, run_views(-1, turn=0, protocol=protocol, ring=32))


def test_the_statistics_see_what_they_should():
    uniform = seeded_words("control", (N,), torch.int64)
    half = torch.where(torch.arange(N) % 2 == 0, uniform, torch.zeros_like(uniform))
    assert LOWEST < goodness([(0, uniform)]) < HIGHEST
    assert goodness([(0, half)]) > HIGHEST
    assert goodness([(0, torch.arange(256).byte().repeat(100))]) < LOWEST
    assert difference([(0, uniform)], [(0, half)]) > HIGHEST
    assert imbalance(uniform) < SIGMAS < imbalance(uniform & 0x7F7F7F7F7F7F7F7F)


# Pads -------------------------------------------------------------------------------------------


# In the small ring, those that send elements, low bits of elements, and planes. What replicated
# sharing derives from its core alone costs more to prove, and is left to the full tier.
SMALL = ("share", "truncate", "narrow sign", "inject of a quotient")
LONG = ("relu", "relu of a quotient", "max", "fourier", "exp_negative", "saturated", "mixed")
CHEAP = ("select", "equal", "refresh", "random", "clients", "sign, low")
FEW = ("replicated", "quad")  # for additive and beaver: test_additive.py and test_beaver.py
PADDED = [
    *(("trio", 64, name) for name in EVERY),
    *(
        (protocol, 64, name)
        for protocol in FEW
        for name in (*OPERATIONS, *CHEAP)
        if name not in LONG
    ),
    *((protocol, 32, name) for protocol in SECRET if protocol != "beaver" for name in SMALL),
]
# What is left: trio in the small ring, and the two others in the large one, which share what is
# derived from comparisons of pairs. Of these, each has every second one.
DERIVED = ("max", "max, radix 4", "argmax", "one_hot_argmax", "sort", "topk")
SKIPPED = {FEW[i % 2]: DERIVED[i::2] for i in range(2)}
REST = [
    (protocol, ring, name)
    for protocol, ring in (("trio", 32), *((protocol, 64) for protocol in FEW))
    for name in EVERY
    if (protocol, ring, name) not in PADDED and name not in SKIPPED.get(protocol, ())
]


# With halves of what is dealt: what deals by itself; the rest is made of it.
DEALING = ("share", "mul", "truncate", "sign", "signs", "is_zero", "bit_and", "inject")
DEALING += ("inject_sums", "inject of a quotient", "fourier", "exp_negative", "saturated")
HALVED = [("trio", 64, name) for name in DEALING] + [("trio", 32, name) for name in SMALL]
HALVED_REST = [("trio", 64, name) for name in EVERY if name not in DEALING]


@pytest.mark.parametrize(("protocol", "ring", "name"), PADDED)
def test_every_message_has_a_pad_of_its_sender_that_its_receiver_cannot_know(protocol, ring, name):
    """A message is hidden by words of a stream of its sender, for its receiver, who lacks the key.

    Every draw of that key is changed alone, while all keys that the receiver holds stay as they
    are: so its messages change by exactly a fresh mask each, or the test fails.
    """
    assert not bare_messages(protocol, ring, name)


@pytest.mark.full("what replicated sharing derives; the quick test proves its core")
@pytest.mark.parametrize(("protocol", "ring", "name"), REST)
def test_every_message_of_every_operation_has_a_pad(protocol, ring, name):
    assert not bare_messages(protocol, ring, name)


@pytest.mark.full("what deals by itself is tested")
@pytest.mark.parametrize(("protocol", "ring", "name"), HALVED_REST)
def test_halves_of_every_operation_have_pads(protocol, ring, name, short_halves):
    assert not bare_messages(protocol, ring, name)


# Cut into two pieces: every operation that is cut where memory is limited.
CUT = ("truncate", "sign", "signs", "is_zero", "inject", "inject_sums", "relu", "fourier", "sort")


@pytest.mark.parametrize(
    ("protocol", "name"),
    [
        *(("trio", name) for name in CUT),
        *((protocol, name) for protocol in FEW for name in ("sign", "inject_sums")),
    ],
)
def test_pieces_of_a_memory_limit_have_masks_of_their_own(protocol, name):
    assert not bare_messages(protocol, 64, name, limit=1)


@pytest.mark.parametrize("name", ["relu", "relu of a quotient", "relu, low", "relu_with_bit"])
def test_a_large_relu_has_masks_of_its_own(name, short_halves):
    """It deals for its sign and its injection one after the other."""
    assert not bare_messages("trio", 64, name)


@pytest.mark.parametrize(("protocol", "ring", "name"), HALVED)
def test_both_halves_of_what_is_dealt_have_masks_of_their_own(protocol, ring, name, short_halves):
    """Each of two evaluators receives one half, and holds the key of the pads of the other."""
    assert not bare_messages(protocol, ring, name)


@pytest.mark.parametrize(("protocol", "name"), [("trio", "relu"), ("replicated", "inject")])
def test_masks_of_chacha20_are_pads(protocol, name, monkeypatch):
    monkeypatch.setattr(local_run, "cipher_for", lambda *_: "chacha20")
    assert not bare_messages(protocol, 64, name)


def small_layer(session: Session) -> list[Message]:
    """A layer of a network, written in torch."""
    recorder = Recorder(session)
    torch.manual_seed(1)
    layer = session.share(torch.nn.Linear(4, 3), owner=0)
    x = session.share(torch.linspace(-1, 1, 20).reshape(5, 4), owner=1)
    torch.relu(layer(x)).sum()
    return recorder.take()


def training_step(session: Session) -> list[Message]:
    recorder = Recorder(session)
    torch.manual_seed(1)
    layers = torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)
    model = session.share(torch.nn.Sequential(*layers), owner=0)
    x = session.share(torch.linspace(-1, 1, 20).reshape(5, 4), owner=1)
    y = session.share(torch.tensor([0, 1, 0, 1, 1]), owner=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    return recorder.take()


@EACH
def test_a_layer_in_torch_is_padded(protocol):
    assert not unpadded(small_layer, 2, protocol=protocol)


@pytest.mark.full("a step of training; test_a_layer_in_torch_is_padded runs a layer")
def test_a_training_step_in_torch_is_padded():
    """At an evaluator; what the other one is dealt is tested operation by operation."""
    assert not unpadded(training_step, 1)


def share_and_reveal(session: Session) -> list[Message]:
    """The message of a reveal completes the secret: no unused mask hides it."""
    recorder, p = Recorder(session), session.protocol
    p.reveal(p.share(torch.arange(64), 1))
    return recorder.take()


def reused(session: Session) -> list[Message]:
    """A protocol with a hole: the same words mask two messages."""
    recorder, p = Recorder(session), session.protocol
    context = p.context
    words = context.streams.new_call()
    for _ in range(2):
        context.streams.new_call = lambda: words
        words._offsets.clear()
        p.share(torch.arange(64), 1)
    del context.streams.new_call
    return recorder.take()


def test_the_proof_sees_what_it_should():
    assert [len(unpadded(share_and_reveal, receiver)) for receiver in range(3)] == [1, 1, 2]
    assert unpadded(reused, 2) == {0, 1}
    a, b = (Draw(frozenset({0, 1}), "open|0->2", 1, start, 64) for start in (0, 64))
    assert joint_pads(2, {a: {0: True, 1: False}, b: {1: True}}) == ([(1, b), (0, a)], set())
    assert joint_pads(2, {a: {0: True, 1: True}, b: {0: True, 1: True}})[1] == {0, 1}
    assert joint_pads(1, {a: {0: False}})[1] == {0}


# Text -------------------------------------------------------------------------------------------


def texts(session: Session, value: int) -> list[str]:
    p = session.protocol
    x = p.share(torch.full((3,), value), 0)
    shares = [x, p.mul(x, x, shift=4), p.sign(x), p.random((2, 3)), p.public(torch.tensor([value]))]
    return [text(share) for share in shares for text in (repr, str, "{}".format)]


@EACH
def test_text_shows_nothing_secret(protocol):
    settings = {"protocol": protocol, "parties": parties_of(protocol)}
    one, other = (tacit.run(texts, value, **settings) for value in (12345, -98765))
    assert one == other
    assert one == [one[0]] * len(one)
    assert not any("tensor" in text for text in one[0])
    assert one[0][0] == "Arith(shape=(3,), ring=64)"
