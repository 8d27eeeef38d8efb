"""Numbers that lie in plain where the program is computed, and are shapes elsewhere.

The façade `Numbers` for a session of the protocol `enclave`. Operations of torch run on the tensors
themselves (`tensor/plain_rules.py`). Here is what sharing, revealing, products and the rules that
draw public random numbers call. Everything that an enclave computes passes `compute`, or the
protocol's `multiply`: they alone read a tensor that may be sealed outside (`PlainMemory`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import RangeError
from ..kernels.activations import Integers
from ..protocols import MATMUL, Bilinear, Conv, ConvGradInput, Plain, PrivacySpent
from ..protocols.enclave import Enclave
from ..protocols.plain_pieces import IsCut, by_rows, has_rows, summed
from ..protocols.steps import Steps, drive, together
from ..protocols.unfinished import UnfinishedProduct
from ..ring import Window
from . import plain_sampling
from .arithmetic import conv_grad_calls
from .encoding import first_position, in_words
from .norm import Normalization
from .numbers import Numbers
from .transfer import Input, absorb_shares, batches
from .value import Combine, Operand, Value

Dims = Sequence[int] | int | None  # of a reduction; None for all


class PlainNumbers(Numbers):
    """Numbers of torch's own dtypes at an enclave; tensors on the meta device at a party."""

    protocol: Enclave
    is_plain = True

    random_integers = plain_sampling.random_integers
    random_below = plain_sampling.random_below
    random_uniform = plain_sampling.random_uniform
    random_truths = plain_sampling.random_truths
    random_geometric = plain_sampling.random_geometric
    random_exponential = plain_sampling.random_exponential
    random_discrete_laplace = plain_sampling.random_discrete_laplace
    random_laplace = plain_sampling.random_laplace
    random_discrete_normal = plain_sampling.random_discrete_normal
    random_normal = plain_sampling.random_normal
    random_normal_units = plain_sampling.random_normal_units
    shuffle = plain_sampling.shuffle

    # Values and tensors --------------------------------------------------------------------------

    def value(self, tensor: Tensor) -> Value:
        """Returns a tensor of this member as a value; only its shape, if this is no enclave."""
        memory = self.protocol.memory
        tensor = tensor if self.protocol.is_enclave else tensor.to("meta")
        memory.adopt(tensor, "a value")
        return Value(Plain(tensor, memory), tensor.dtype)

    def tensor(self, x: Operand) -> Tensor:
        """Returns the tensor behind an operand; on the meta device if this is no enclave."""
        if isinstance(x, Value):
            return _plain(x).tensor
        public = torch.as_tensor(x)
        return public if self.protocol.is_enclave else public.to("meta")

    def public(self, value: Tensor) -> Value:
        return self.value(value.detach().clone())

    def operand(self, x: Operand) -> Value:
        return x if isinstance(x, Value) else self.public(torch.as_tensor(x))

    def convert(self, x: Value, dtype: torch.dtype) -> Value:
        if x.dtype == dtype:
            return x
        return self.by_rows(has_rows(x.shape), "a conversion", Tensor.to, x, dtype)

    def settled(self, x: Value) -> Value:
        return x

    def combined(
        self, operands: Sequence[Operand], combine: Combine, *, adds: bool = False
    ) -> Value:
        tensors = [self.tensor(x) for x in operands]
        return self.compute("a combination", lambda *parts: combine([*parts]), *tensors)

    def replace(self, x: Value, take: Callable[[Value], Value], new: Operand) -> Value:
        """Returns x with the part that `take` selects replaced."""

        def written(old: Tensor, part: Tensor) -> Tensor:
            whole = old.clone(memory_format=torch.contiguous_format)
            self.tensor(take(Value(Plain(whole), x.dtype))).copy_(part)
            return whole

        return self.compute("a write", written, x, self.tensor(new))

    def compute(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Returns function(*args, **kwargs) on the tensors of this member, as values.

        Values, also in lists, become tensors. Errors call the operation `name`.
        """
        given, named = self._tensors(args), {key: self._tensors(x) for key, x in kwargs.items()}
        return self._values(self.protocol.memory.compute(name, function, *given, **named))

    def by_rows(self, is_cut: IsCut, name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        """The same for a function whose rows depend on the same rows of the operands that it cuts.

        If it does not fit into a limited memory at once, it is computed piece by piece.
        """
        given, named = self._tensors(args), {key: self._tensors(x) for key, x in kwargs.items()}
        return self._values(by_rows(self.protocol.memory, is_cut, name, function, *given, **named))

    def summed(self, is_cut: IsCut, name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
        """The same for a function whose results are sums over the rows of what it cuts."""
        given, named = self._tensors(args), {key: self._tensors(x) for key, x in kwargs.items()}
        return self._values(summed(self.protocol.memory, is_cut, name, function, *given, **named))

    def _tensors(self, x: Any) -> Any:
        """Returns an argument with tensors of this member for values and public tensors."""
        if isinstance(x, Value) or (isinstance(x, Tensor) and not self.protocol.is_enclave):
            return self.tensor(x)
        return [self._tensors(one) for one in x] if isinstance(x, list | tuple) else x

    def _values(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self.value(x)
        return type(x)(self._values(one) for one in x) if isinstance(x, list | tuple) else x

    # Input and output ----------------------------------------------------------------------------

    def checked_input(self, tensor: Tensor, path: str, *, mine: bool) -> Input:
        """Returns what this party contributes; RangeError for NaN and infinities of its own."""
        if mine and tensor.is_floating_point():
            self._require_finite(tensor.detach(), path)
        return Input(tensor.shape, tensor.dtype, tensor.detach() if mine else None)

    def _require_finite(self, tensor: Tensor, path: str) -> None:
        finite = tensor.isfinite()
        if not bool(finite.all()):
            position = first_position(~finite)
            raise RangeError(
                f"{path}{in_words(position)} is NaN or infinite",
                limit="numbers of a secret are finite",
                remedy="clean the data before it is shared",
                party=self.protocol.rank,
                position=position,
            ).about("share")

    def share(
        self,
        value: Tensor | None,
        owner: int,
        shape: Sequence[int],
        dtype: torch.dtype,
    ) -> Value:
        if value is not None and value.is_floating_point():
            self._require_finite(value, "the tensor")
        [made] = self.share_many([Input(torch.Size(shape), dtype, value)], owner)
        return made

    def share_many(self, inputs: Sequence[Input], owner: int) -> list[Value]:
        shared: list[Value] = []
        for batch in batches([one.shape.numel() for one in inputs]):
            chosen = inputs[batch]
            absorb_shares(self, owner, [(one.shape, one.dtype) for one in chosen])
            calls = [
                self.protocol.share.steps(one.values, owner, one.shape, one.dtype) for one in chosen
            ]
            shares = self._driven(calls)
            shared += [Value(s, one.dtype) for s, one in zip(shares, chosen, strict=True)]
        return shared

    def share_words(self, words: Tensor | None, owner: int, shape: Sequence[int]) -> Value:
        return self.share(words, owner, shape, torch.int64)

    def reveal(self, x: Value, to: int | None = None) -> Tensor | None:
        return self.protocol.reveal(_plain(x), to, dtype=x.dtype)

    def reveal_many(
        self,
        values: Sequence[Value],
        to: int | None = None,
        origins: Sequence[int] = (),
        *,
        to_dealer: bool = False,
        privacy: PrivacySpent | None = None,
    ) -> list[Tensor | None]:
        opened: list[Tensor | None] = []
        for batch in batches([value.shape.numel() for value in values]):
            chosen = values[batch]
            forms = [(value.shape, value.dtype) for value in chosen]
            told = (to, to_dealer, forms, origins[batch], privacy)
            self.protocol.context.record.absorb("reveal", told)
            calls = []
            for x in chosen:
                costing = _plain(x).costing(privacy)
                calls.append(self.protocol.reveal.steps(costing, to, dtype=x.dtype))
                privacy = privacy and privacy.counted
            opened += self._driven(calls)
        return opened

    def _driven(self, calls: Sequence[Steps[Any]]) -> Sequence[Any]:
        """Returns the results of calls: of all together, or one by one if memory is limited."""
        context = self.protocol.context
        if context.memory_limit is None:
            return drive(context, together(*calls))
        return [drive(context, call) for call in calls]

    def mark_parameters(self, values: Sequence[Value]) -> None:
        for value in values if self.protocol.is_enclave else ():
            self.protocol.show(self.tensor(value))

    # Products ------------------------------------------------------------------------------------

    def bilinear(self, op: Bilinear, a: Operand, b: Operand) -> Value:
        """Returns op(a, b); at an enclave through the protocol's `multiply`."""
        dtype = self.result_dtype(a, b)
        x, y = (self.tensor(self.convert(self.operand(one), dtype)) for one in (a, b))
        if self.protocol.is_enclave:
            made = self.protocol.multiply(op, x, y)
            if isinstance(made, Integers):
                return Value(UnfinishedProduct(made), dtype)
            return self.value(made)
        return self.value(torch.empty(op.shape(x.shape, y.shape), dtype=dtype, device="meta"))

    def matmul(self, a: Operand, b: Operand) -> Value:
        return self.bilinear(MATMUL, a, b)

    def conv(self, x: Operand, weight: Operand, window: Window) -> Value:
        return self.bilinear(Conv(window), x, weight)

    def conv_transpose(
        self, x: Operand, weight: Operand, window: Window, shape: Sequence[int]
    ) -> Value:
        return self.bilinear(ConvGradInput(window, tuple(shape)), weight, x)

    def conv_grads(
        self,
        grad: Operand,
        x: Operand,
        weight: Operand,
        window: Window,
        *,
        transposed: bool = False,
        wanted: Sequence[bool] = (True, True),
    ) -> list[Value | None]:
        calls = conv_grad_calls(grad, x, weight, window, transposed=transposed)
        pairs = zip(calls, wanted, strict=True)
        return [self.bilinear(*call) if want else None for call, want in pairs]

    def attention(
        self, query: Value, key: Value, value: Value, mask: Operand | None, scale: float
    ) -> tuple[Value, Value]:
        """Returns softmax(query key^T scale + mask) value, and the weights; 0 if all is hidden."""

        def attended(scores: Tensor, mask: Tensor | None) -> Tensor:
            scores = scores * scale if mask is None else scores * scale + mask
            seen = (scores > float("-inf")).any(-1, keepdim=True)
            return scores.softmax(-1).where(seen, 0.0)

        scores = self.matmul(query, _transposed(key))
        shown = None if mask is None else self.tensor(mask)
        weights = self.compute("attention", attended, scores, shown)
        return self.matmul(weights, value), weights

    def attention_backward(
        self,
        grad: Value,
        query: Value,
        key: Value,
        value: Value,
        weights: Value,
        result: Value,
        scale: float,
    ) -> tuple[Value, Value, Value]:
        """Returns the gradients by query, key and value."""
        by_value = self.matmul(_transposed(weights), grad)
        along = self.sum(self.mul(grad, result), (-1,), keepdim=True)
        by_weights = self.sub(self.matmul(grad, _transposed(value)), along)
        by_scores = self.mul(self.mul(weights, by_weights), scale)
        by_query = self.matmul(by_scores, key)
        return by_query, self.matmul(_transposed(by_scores), query), by_value

    def bilinears(self, calls: Sequence[tuple[Bilinear, Operand, Operand]]) -> list[Value]:
        return [self.bilinear(op, a, b) for op, a, b in calls]

    def take_rows(self, table: Operand, index: Value, *, wraps: bool = False) -> Value:
        """Returns table[index]; zeros for what is no row. If it `wraps`, -1 is the last row."""

        def taken(rows: Tensor, places: Tensor) -> Tensor:
            count = rows.shape[0]
            places = torch.where(places < 0, places + count, places) if wraps else places
            valid = (places >= 0) & (places < count)
            found = rows[places.clamp(0, count - 1)]
            return found * valid.reshape(valid.shape + (1,) * (found.dim() - valid.dim()))

        return self.compute("an embedding", taken, self.tensor(table), index)

    # What rules for products and for public random numbers call besides --------------------------

    def _of(self, function: Callable[..., Tensor], *operands: Operand, **options: object) -> Value:
        tensors = [x for x in operands if isinstance(x, Value | Tensor)]
        shape = torch.broadcast_shapes(*(x.shape for x in tensors))
        return self.by_rows(has_rows(shape), function.__name__, function, *operands, **options)

    def add(self, a: Operand, b: Operand) -> Value:
        """Returns a + b; a bias of a product waits with it."""
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Value) and isinstance(one.share, UnfinishedProduct):
                made = one.share.with_bias(self.tensor(other))
                if made is not None:
                    return Value(made, one.dtype)
        return self._of(torch.add, a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return self._of(torch.sub, a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return self._of(torch.mul, a, b)

    def less(self, a: Operand, b: Operand) -> Value:
        return self._of(torch.lt, *map(self.tensor, (a, b)))

    def equal_words(self, a: Value, b: Value, bits: int) -> Value:
        return self.by_rows(
            has_rows(b.shape), "equal words", lambda one, other: (one == other).all(-1), a, b
        )

    def bits_of_integers(self, x: Value, count: int) -> list[Value]:
        return self.compute("bits", lambda t: [(t >> i & 1).bool() for i in range(count)], x)

    def where(self, condition: Operand, a: Operand, b: Operand) -> Value:
        return self._of(torch.where, *map(self.tensor, (condition, a, b)))

    def sum(self, x: Value, dims: Sequence[int] = (), *, keepdim: bool = False) -> Value:
        return self.total(x, tuple(dims) or None, keepdim=keepdim)

    def total(self, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
        cut = has_rows(x.shape)
        chosen = range(len(x.shape)) if dims is None else [dims] if isinstance(dims, int) else dims
        apply = self.summed if any(d % len(x.shape) == 0 for d in chosen) else self.by_rows
        return apply(cut, "sum", torch.sum, x, dim=dims, keepdim=keepdim)

    def mean(self, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
        return self.compute("mean", torch.mean, x, dim=dims, keepdim=keepdim)

    def softmax(self, x: Value, dim: int) -> Value:
        return self.compute("softmax", torch.softmax, x, dim=dim)

    def normalise(self, x: Value, dims: Sequence[int], eps: float) -> Normalization:

        def normalised(x: Tensor) -> tuple[Tensor, ...]:
            variance, mean = torch.var_mean(x, list(dims), correction=0, keepdim=True)
            inverse = torch.rsqrt(variance + eps)
            return (x - mean) * inverse, mean, variance, inverse

        return Normalization(*self.compute("a normalisation", normalised, x))

    def gelu(self, x: Value) -> Value:
        return self._of(lambda t: 0.5 * t * (1 + torch.erf(t * 0.5**0.5)), x)

    def relu(self, x: Value) -> tuple[Value, Value]:
        return self._of(torch.relu, x), self._of(torch.gt, x, 0)


def _plain(x: Value) -> Plain:
    assert isinstance(x.share, Plain)
    return x.share


def _transposed(x: Value) -> Value:
    return x.map(lambda part: part.transpose(-1, -2))
