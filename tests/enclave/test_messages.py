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
from tacit.enclave.mask_keys import MaskKeys
from tacit.enclave.messages import End, Operand, Task, encode, parse
from tacit.enclave.pieces import Piece
from tacit.enclave.worker import WORKER, Worker
from tacit.enclave.worker_roles import Role
from tacit.errors import FrameRejected, PeerClosed, ProtocolDesync
from tacit.protocols.products.bilinear import MATMUL, MUL, Conv, ConvGradInput, ConvGradWeight
from tacit.ring import RING32, RING64, Window
from tacit.transport import Spec

WINDOW = Window.make(2, 1, 1)
rings = st.sampled_from([RING32, RING64])
numbers = st.integers(0, 2**64 - 1)


@draws(200)
@given(cases(), st.sampled_from(Role), rings, st.lists(numbers, max_size=5), st.booleans())
def test_tasks_are_read_as_they_were_sent(case, role, ring, forgotten, is_sent):
    op, a, b = case
    first, second = Operand(2**64 - 1, a, is_sent), Operand(0, b, not is_sent)
    task = Task(7, role, op, ring, first, second, tuple(forgotten))
    assert parse(encode(task)) == task


@pytest.mark.parametrize("name", ["matmul", "conv_grad_weight"])
def test_pieces_are_read_as_they_were_sent(name):
    op, a, b = CASES[name]
    task = task_of(Piece(op, 1, 2), a, b)
    assert parse(encode(task)) == task


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize(("cipher", "size"), [("aes128-ctr", 16), ("chacha20", 32)])
def test_keys_are_read_and_not_shown(cipher, size, count):
    keys = MaskKeys(cipher, tuple(bytes([i]) * size for i in range(count)))
    assert parse(encode(keys)) == keys
    assert repr(keys) == f"MaskKeys(cipher={cipher!r})"


def test_the_end():
    assert parse(encode(End())) == End()


@draws(1000)
@given(cases(), st.data())
def test_changed_bytes_are_refused_or_another_message(case, data):
    """Nothing but FrameRejected is raised, and what is accepted has one encoding."""
    op, a, b = case
    sent = bytearray(encode(task_of(op, a, b)))
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


def task_of(op, a, b, role=Role.MASKED_PRODUCT):
    return Task(1, role, op, RING32, Operand(8, a, True), Operand(9, b, True), (8, 9))


def malformed():
    """Bytes that are almost a message."""
    task = encode(task_of(*CASES["matmul"]))
    yield "empty", b""
    yield "an unknown kind", b"\x09"
    yield "bytes after the end", encode(End()) + b"\x00"
    yield "a key that is too short", encode(MaskKeys("aes128-ctr", (bytes(16),)))[:-1]
    yield "three keys", encode(MaskKeys("chacha20", (bytes(32),) * 3))
    yield "an unknown cipher", bytes([messages.KEYS, 2]) + bytes(16)
    head = struct.pack("<BQBB", messages.TASK, 1, Role.MASKED_PRODUCT, 32)
    for what, role, bits in (("role", 5, 32), ("ring", Role.MASKED_PRODUCT, 33)):
        changed = struct.pack("<BQBB", messages.TASK, 1, role, bits)
        yield f"an unknown {what}", task.replace(head, changed)
    yield "a flag of 2", task.replace(struct.pack("<QB", 9, 1), struct.pack("<QB", 9, 2))
    yield "too many numbers", task[:-20] + struct.pack("<I", 1 << 30)
    for what, a, b in SHAPES:
        yield what, encode(task_of(MATMUL, a, b))
    for what, start, count in PIECES:
        yield what, encode(task_of(Piece(MATMUL, start, count), *CASES["matmul"][1:]))
    conv = Conv(CASES["conv"][0].window)
    end = struct.pack("<QQI", 0, 0, 2)
    piece = encode(task_of(conv, *CASES["conv"][1:])).replace(end, struct.pack("<QQI", 0, 1, 2))
    yield "a piece of a convolution", piece
    for what, window in WINDOWS.items():
        yield what, encode(task_of(Conv(window), *CASES["conv"][1:]))
    conv, image, weight = CASES["conv"]
    output = conv.shape(image, weight)
    gradient = ConvGradInput(conv.window, (9, *image[1:]))
    yield "a gradient of other images", encode(task_of(gradient, weight, output))
    gradient = ConvGradWeight(conv.window, (4, *weight[1:]))
    yield "a gradient of another weight", encode(task_of(gradient, image, output))


SHAPES = [
    ("no dimension", (), ()),
    ("no element", (5, 0), (0, 3)),
    ("matrices that do not fit", (5, 6), (7, 3)),
    ("batches that do not fit", (2, 5, 7), (3, 7, 3)),
    ("an operand that is too large", (1 << 20, 1 << 20), (1 << 20, 1)),
    ("a result that is too large", (1 << 20, 1), (1, 1 << 20)),
    ("too many dimensions", (1,) * 9, (1,) * 9),
]
PIECES = [
    ("a piece of nothing", 3, 0),
    ("a piece that ends too late", 3, 5),
    ("a piece that starts too late", 7, 1),
    ("a piece beyond all bounds", (1 << 64) - 1, 2),
]
WINDOWS = {
    "groups that do not divide": WINDOW._replace(groups=3),
    "a kernel beyond the image": WINDOW._replace(groups=2, dilation=(9, 9)),
    "stride 0": WINDOW._replace(groups=2, stride=(0, 1)),
    "no groups": WINDOW._replace(groups=0),
    "padding beyond all bounds": WINDOW._replace(groups=2, padding=(1 << 62, 1)),
}


@pytest.mark.parametrize(("what", "data"), [pytest.param(*one, id=one[0]) for one in malformed()])
def test_malformed_messages_are_refused(what, data):
    with pytest.raises(FrameRejected):
        parse(data)


def test_an_operation_without_a_message_is_refused():
    with pytest.raises(ValueError, match="not in tuple"):
        encode(task_of(MUL, (1,), (1,)))


# Workers ------------------------------------------------------------------------------------------

ONE = torch.ones(1, 1, dtype=torch.int32)


def refused(*sent):
    """What a worker raises that is sent messages, and tensors with the last one."""
    crew = Crew()
    link = crew.link(0)
    *texts, tensors = sent
    for text in texts:
        link.exchange_bytes({WORKER: text}, [])
    send = {WORKER: tensors} if tensors else {}
    with pytest.raises(PeerClosed) as caught:
        link.exchange(send, {WORKER: [Spec((1, 1), torch.int32)]}, operation=1)
    crew.end()
    assert type(crew.errors[0]).__name__ in str(caught.value.cause)
    return crew.errors[0]


def keys(count):
    return encode(MaskKeys("aes128-ctr", (bytes(16),) * count))


def small(role=Role.MASKED_PRODUCT, a=(8, True), b=(9, True)):
    first, second = (Operand(number, (1, 1), is_sent) for number, is_sent in (a, b))
    return encode(Task(1, role, MATMUL, RING32, first, second))


def test_a_worker_refuses_a_malformed_task_and_says_so():
    assert isinstance(refused(b"\x02 no task", ()), FrameRejected)


def test_a_worker_refuses_a_task_without_its_keys():
    assert isinstance(refused(small(Role.MASK_PRODUCT), ()), FrameRejected)
    assert isinstance(refused(keys(1), small(Role.MASK_PRODUCT), ()), FrameRejected)
    assert isinstance(refused(keys(2), small(), [ONE, ONE]), FrameRejected)


def test_a_worker_refuses_operands_of_other_shapes():
    error = refused(keys(0), small(), [ONE, ONE.repeat(2, 2)])
    assert isinstance(error, ProtocolDesync)


def test_a_worker_refuses_operands_that_it_does_not_have():
    error = refused(keys(0), small(b=(9, False)), [ONE])
    assert isinstance(error, FrameRejected)
    assert "no operand 9" in str(error)


def test_a_worker_refuses_an_operand_that_is_sent_twice():
    error = refused(keys(0), small(b=(8, True)), [ONE, ONE])
    assert isinstance(error, FrameRejected)
    assert "sent twice" in str(error)


def test_a_worker_keeps_operands_until_it_is_told_to_forget_them():
    worker = Worker(keys=MaskKeys("aes128-ctr", ()))
    task = parse(small())
    assert int(worker.answer(task, [3 * ONE, 5 * ONE])) == 15
    again = parse(small(a=(8, False), b=(10, True)))
    assert int(worker.answer(replace(again, forgotten=(8,)), [7 * ONE])) == 21
    assert int(worker.answer(parse(small(a=(9, False), b=(10, False))), [])) == 35
    with pytest.raises(FrameRejected, match="no operand 8"):
        worker.answer(parse(small(a=(8, False), b=(10, False))), [])


def test_an_operand_of_another_shape_is_not_the_one_that_was_kept():
    worker = Worker(keys=MaskKeys("aes128-ctr", ()))
    worker.answer(parse(small()), [ONE, ONE])
    other = Task(
        2, Role.MASKED_PRODUCT, MATMUL, RING64, *(Operand(n, (1, 1), False) for n in (8, 9))
    )
    with pytest.raises(FrameRejected, match="no operand 8"):
        worker.answer(other, [])
