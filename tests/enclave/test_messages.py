"""Messages between enclave and worker: what is sent is read, and nothing else is."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.enclave.products import CASES, cases
from tests.enclave.workers import Crew
from tests.tiers import draws

from tacit.enclave import messages
from tacit.enclave.mask_keys import MaskKey
from tacit.enclave.messages import End, Task, encode, parse
from tacit.enclave.worker import WORKER
from tacit.enclave.worker_roles import Role
from tacit.errors import FrameRejected, PeerClosed
from tacit.protocols.products.bilinear import MATMUL, MUL, Conv, ConvGradInput, ConvGradWeight
from tacit.ring import RING32, RING64, Window

WINDOW = Window.make(2, 1, 1)
rings = st.sampled_from([RING32, RING64])


@draws(200)
@given(cases(), st.sampled_from(Role), rings, st.integers(0, 2**64 - 1))
def test_tasks_are_read_as_they_were_sent(case, role, ring, number):
    op, a, b = case
    task = Task(number, role, op, ring, a, b)
    assert parse(encode(task)) == task


@pytest.mark.parametrize("key", [MaskKey("aes128-ctr", bytes(16)), MaskKey("chacha20", bytes(32))])
def test_keys_are_read_and_not_shown(key):
    assert parse(encode(key)) == key
    assert repr(key) == f"MaskKey(cipher={key.cipher!r})"


def test_the_end():
    assert parse(encode(End())) == End()


@draws(1000)
@given(cases(), st.data())
def test_changed_bytes_are_refused_or_another_message(case, data):
    """Nothing but FrameRejected is raised, and what is accepted has one encoding."""
    op, a, b = case
    sent = bytearray(encode(Task(7, Role.FIRST_SHARE, op, RING32, a, b)))
    for _ in range(data.draw(st.integers(1, 3))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    sent = sent[: data.draw(st.integers(0, len(sent)))] if data.draw(st.booleans()) else sent
    try:
        message = parse(bytes(sent))
    except FrameRejected:
        return
    assert encode(message) == bytes(sent)


@draws(300)
@given(st.binary(max_size=80))
def test_any_bytes(data):
    with contextlib.suppress(FrameRejected):
        assert encode(parse(data)) == data


def malformed():
    task = Task(1, Role.MASKED_PRODUCT, *swapped("matmul"))
    conv, image, weight = CASES["conv"]
    output = conv.shape(image, weight)
    yield "empty", b""
    yield "an unknown kind", b"\x09"
    yield "bytes after the end", encode(End()) + b"\x00"
    yield "a key that is too short", encode(MaskKey("aes128-ctr", bytes(16)))[:-1]
    yield "a key that is too long", encode(MaskKey("chacha20", bytes(32))) + b"\x00"
    yield "an unknown cipher", bytes([messages.KEY, 2]) + bytes(16)
    yield (
        "an unknown role",
        encode(task).replace(struct.pack("<QB", 1, 4), struct.pack("<QB", 1, 5)),
    )
    yield (
        "an unknown ring",
        encode(task).replace(struct.pack("<BB", 4, 32), struct.pack("<BB", 4, 33)),
    )
    yield "no dimension", encode(replace(task, a=(), b=()))
    yield "no element", encode(replace(task, a=(5, 0), b=(0, 3)))
    yield "matrices that do not fit", encode(replace(task, a=(5, 6)))
    yield "batches that do not fit", encode(replace(task, a=(2, 5, 7), b=(3, 7, 3)))
    yield (
        "an operand that is too large",
        encode(replace(task, a=(1 << 20, 1 << 20), b=(1 << 20, 1))),
    )
    yield "a result that is too large", encode(replace(task, a=(1 << 20, 1), b=(1, 1 << 20)))
    yield "too many dimensions", encode(replace(task, a=(1,) * 9, b=(1,) * 9))
    images = replace(task, a=image, b=weight)
    yield "groups that do not divide", encode(replace(images, op=Conv(Window.make(2, groups=3))))
    yield (
        "a kernel beyond the image",
        encode(replace(images, op=Conv(WINDOW._replace(groups=2, dilation=(9, 9))))),
    )
    yield "stride 0", encode(replace(images, op=Conv(WINDOW._replace(groups=2, stride=(0, 1)))))
    yield "no groups", encode(replace(images, op=Conv(WINDOW._replace(groups=0))))
    yield (
        "padding beyond all bounds",
        encode(replace(images, op=Conv(WINDOW._replace(groups=2, padding=(1 << 62, 1))))),
    )
    gradient = ConvGradInput(conv.window, (9, *image[1:]))
    yield "a gradient of other images", encode(replace(task, op=gradient, a=weight, b=output))
    gradient = ConvGradWeight(conv.window, (4, *weight[1:]))
    yield "a gradient of another weight", encode(replace(task, op=gradient, a=image, b=output))


def swapped(name):
    op, a, b = CASES[name]
    return op, RING32, a, b


@pytest.mark.parametrize(("what", "data"), [pytest.param(*one, id=one[0]) for one in malformed()])
def test_malformed_messages_are_refused(what, data):
    with pytest.raises(FrameRejected):
        parse(data)


def test_an_operation_without_a_message_is_refused():
    with pytest.raises(ValueError, match="not in tuple"):
        encode(Task(1, Role.MASKED_PRODUCT, MUL, RING32, (1,), (1,)))


def test_a_worker_refuses_a_malformed_task_and_says_so():
    crew = Crew()
    link = crew.link(0)
    link.exchange_bytes({WORKER: b"\x02 no task"}, [])
    with pytest.raises(PeerClosed, match="FrameRejected"):
        link.exchange_bytes({}, [WORKER])
    crew.end()
    assert isinstance(crew.errors[0], FrameRejected)


def test_a_worker_refuses_a_task_before_its_key():
    crew = Crew()
    link = crew.link(0)
    task = Task(1, Role.MASK_PRODUCT, MATMUL, RING32, (1, 1), (1, 1))
    link.exchange_bytes({WORKER: encode(task)}, [])
    with pytest.raises(PeerClosed, match="FrameRejected"):
        link.exchange({}, {WORKER: [task.result]}, operation=1)
    crew.end()
    assert isinstance(crew.errors[0], FrameRejected)


def test_a_worker_refuses_operands_of_other_shapes():
    crew = Crew()
    link = crew.link(0)
    task = Task(1, Role.MASKED_PRODUCT, MATMUL, RING32, (2, 3), (3, 2))
    link.exchange_bytes({WORKER: encode(task)}, [])
    operands = [torch.zeros(2, 2, dtype=torch.int32)] * 2
    with pytest.raises(PeerClosed, match="ProtocolDesync"):
        link.exchange({WORKER: operands}, {WORKER: [task.result]}, operation=1)
    crew.end()
