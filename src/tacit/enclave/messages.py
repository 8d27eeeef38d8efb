"""The messages from the enclave to a worker: keys, tasks, and the end.

A message is a byte for its kind, then fields of fixed sizes, little-endian. A shape is the number
of its dimensions and each of them. Nothing is evaluated: bytes that are not exactly a message, or
describe a product that does not exist or is too large, are a FrameRejected.
Masked operands of a task that the worker does not have follow as tensors, and the answer is one
tensor. A worker keeps what it receives until a task tells it to forget it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

import torch

from ..errors import ConfigError, FrameRejected
from ..kernels.stream import CIPHERS
from ..protocols.products.bilinear import (
    MATMUL,
    Bilinear,
    Conv,
    ConvGradInput,
    ConvGradWeight,
    MatMul,
)
from ..ring import RING32, RING64, Ring, Window
from ..transport import Spec
from .mask_keys import MaskKeys
from .pieces import Piece
from .worker_roles import DUTIES, Role

MOST_DIMENSIONS = 8
MOST_ELEMENTS = 1 << 30  # of an operand or a result

MOST_FORGOTTEN = 1 << 12

KEYS, TASK, END = 1, 2, 3
_RINGS = {ring.bits: ring for ring in (RING32, RING64)}
_CIPHERS = tuple(CIPHERS)
_OPS: tuple[type[Bilinear], ...] = (MatMul, Conv, ConvGradInput, ConvGradWeight)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """An operand by its number; it is sent with the task, or was with an earlier one."""

    number: int
    shape: Shape
    is_sent: bool


@dataclass(frozen=True)
class Task:
    """One product that a worker takes part in. Operands in `forgotten` are not used again."""

    number: int
    role: Role
    op: Bilinear
    ring: Ring
    a: Operand
    b: Operand
    forgotten: tuple[int, ...] = ()

    @property
    def sent(self) -> list[Operand]:
        """The operands that the worker receives with this task."""
        return [x for x in (self.a, self.b) if x.is_sent and DUTIES[self.role].receives]

    @property
    def received(self) -> list[Spec]:
        """The tensors that the worker receives."""
        return [Spec(x.shape, self.ring.dtype) for x in self.sent]

    @property
    def result(self) -> Spec:
        """The tensor that the worker returns."""
        return Spec(result_shape(self.op, self.a.shape, self.b.shape), self.ring.dtype)


@dataclass(frozen=True)
class End:
    """The enclave has no more tasks."""


Message = MaskKeys | Task | End


def result_shape(op: Bilinear, a: Shape, b: Shape) -> Shape:
    """Returns the shape of a product that can be outsourced; ConfigError if there is none."""
    if isinstance(op, Piece):
        op.shape(a, b)  # raises if it is none of the product
        return result_shape(op.op, a, b)
    if isinstance(op, MatMul):
        return _matmul_shape(a, b)
    if isinstance(op, Conv):
        return op.window.output_shape(a, b)
    if isinstance(op, ConvGradInput):
        _require_gradient(op.window.output_shape(op.input_shape, a), b)
        return op.input_shape
    if isinstance(op, ConvGradWeight):
        _require_gradient(op.window.output_shape(a, op.weight_shape), b)
        return op.weight_shape
    allowed = ", ".join(kind.__name__ for kind in _OPS)
    raise ConfigError(f"{type(op).__name__} is not outsourced", limit=f"allowed are {allowed}")


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    try:
        if min(len(a), len(b)) < 2 or a[-1] != b[-2]:
            raise RuntimeError
        return (*torch.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    except RuntimeError:
        raise ConfigError(f"no product of matrices has the shapes {a} and {b}") from None


def _require_gradient(output: Shape, gradient: Shape) -> None:
    if output != gradient:
        raise ConfigError(f"a gradient of {gradient}", limit=f"the output has {output}")


def encode(message: Message) -> bytes:
    """Returns the bytes of a message."""
    if isinstance(message, End):
        return bytes([END])
    if isinstance(message, MaskKeys):
        return bytes([KEYS, _CIPHERS.index(message.cipher)]) + b"".join(message.keys)
    piece = message.op
    op, start, size = (
        (piece.op, piece.start, piece.count) if isinstance(piece, Piece) else (piece, 0, 0)
    )
    code, count = _OPS.index(type(op)), len(message.forgotten)
    head = struct.pack("<BQBBB", TASK, message.number, message.role, message.ring.bits, code)
    end = struct.pack(f"<QQI{count}Q", start, size, count, *message.forgotten)
    return head + _operand(message.a) + _operand(message.b) + _settings(op) + end


def _operand(operand: Operand) -> bytes:
    return struct.pack("<QB", operand.number, operand.is_sent) + _shape(operand.shape)


def _shape(values: Shape) -> bytes:
    return struct.pack(f"<B{len(values)}Q", len(values), *values)


def _settings(op: Bilinear) -> bytes:
    if isinstance(op, MatMul):
        return b""
    assert isinstance(op, Conv | ConvGradInput | ConvGradWeight)
    w = op.window
    window = b"".join(map(_shape, (w.stride, w.padding, w.dilation, (w.groups,))))
    if isinstance(op, Conv):
        return window
    return window + _shape(op.input_shape if isinstance(op, ConvGradInput) else op.weight_shape)


def parse(data: bytes) -> Message:
    """Returns the message of these bytes; raises FrameRejected unless they are one."""
    fields = _Fields(data)
    try:
        message = _message(fields)
    except (struct.error, IndexError, KeyError, ValueError) as error:
        what = f"{len(data)} bytes are no message of an enclave"
        raise FrameRejected(what, cause=type(error).__name__) from None
    if fields.at != len(data):
        raise FrameRejected(f"a message of an enclave has {len(data) - fields.at} bytes too many")
    return message


class _Fields:
    """Reads the fields of a message in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def rest(self) -> bytes:
        start, self.at = self.at, len(self.data)
        return self.data[start:]

    def sizes(self) -> Shape:
        [count] = self.take("B")
        if count > MOST_DIMENSIONS:
            raise ConfigError(f"{count} dimensions", limit=f"at most {MOST_DIMENSIONS}")
        return self.take(f"{count}Q")

    def shape(self) -> Shape:
        return _bounded(self.sizes())

    def operand(self) -> Operand:
        number, is_sent = self.take("QB")
        if is_sent > 1:
            raise ConfigError(f"is_sent={is_sent}", limit="allowed are 0 and 1")
        return Operand(number, self.shape(), bool(is_sent))

    def numbers(self) -> tuple[int, ...]:
        [count] = self.take("I")
        if count > MOST_FORGOTTEN:
            raise ConfigError(f"{count} operands", limit=f"at most {MOST_FORGOTTEN}")
        return self.take(f"{count}Q")


def _message(fields: _Fields) -> Message:
    [kind] = fields.take("B")
    if kind == END:
        return End()
    if kind == KEYS:
        [code] = fields.take("B")
        return _keys(_CIPHERS[code], fields.rest())
    if kind != TASK:
        raise ConfigError(f"kind={kind}", limit=f"allowed are {KEYS} to {END}")
    number, role, bits, code = fields.take("QBBB")
    a, b = fields.operand(), fields.operand()
    op = _operation(_OPS[code], fields)
    start, size = fields.take("QQ")
    op = Piece(op, start, size) if start or size else op
    _bounded(result_shape(op, a.shape, b.shape))
    return Task(number, Role(role), op, _RINGS[bits], a, b, fields.numbers())


def _keys(cipher: str, data: bytes) -> MaskKeys:
    size = MaskKeys.size(cipher)
    if len(data) not in (0, size, 2 * size):
        raise ConfigError(f"{len(data)} bytes of keys", limit=f"at most two of {size} bytes")
    return MaskKeys(cipher, tuple(data[i : i + size] for i in range(0, len(data), size)))


def _operation(kind: type[Bilinear], fields: _Fields) -> Bilinear:
    if kind is MatMul:
        return MATMUL
    stride, padding, dilation, groups = (fields.sizes() for _ in range(4))
    if not 1 <= len(stride) <= 3 or len(groups) != 1:
        raise ConfigError(f"{len(stride)} spatial dimensions", limit="allowed are 1 to 3")
    if max(*stride, *padding, *dilation, *groups) > MOST_ELEMENTS:
        raise ConfigError("a window is too large", limit=f"at most {MOST_ELEMENTS}")
    window = Window.make(len(stride), stride, padding, dilation, groups[0])
    if kind is Conv:
        return Conv(window)
    return kind(window, fields.shape())  # type: ignore[call-arg]


def _bounded(shape: Shape) -> Shape:
    """Returns a shape; raises unless it has as many elements as are allowed, and at least one."""
    if not shape or not 1 <= prod(shape) <= MOST_ELEMENTS:
        raise ConfigError(f"a tensor of shape {shape}", limit=f"1 to {MOST_ELEMENTS} elements")
    return shape
