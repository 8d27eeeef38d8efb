"""Measures on public data how large the numbers in a model get, to make comparisons cheaper.

The cost of a comparison grows with the bits of its operand: those of the session's largest
magnitude, 2^range_bits, unless a smaller limit is promised. A plain run measures the outputs of
each module, and the promises are powers of two above them. Within them results stay exact; a
comparison of a value beyond its promise is wrong. The promises are public: they show the order of
magnitude of each layer's output on the measured data.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ..config import Config
from ..errors import ConfigError, Party, RangeError
from ..fixedpoint import Numbers, Value
from ..fixedpoint.debug import within_limit
from ..protocols import Arith, Comparison
from ..tensor import SecretTensor
from ..tensor.module_path import module_path, name_place
from ..transport.consensus import broadcast_from
from .checkpoint import HasNumbers
from .dry_run import call, lone_numbers, plain, secret_copy, secret_example
from .guarding import follows

ERROR = 2.0**-8  # of the largest result: what `fraction_bits` is recommended for
FAR = 2.0**-4  # as in debug mode: an error that is no rounding
FEWEST_FRACTION_BITS = 10
UNKNOWN = 127  # in a list of promises, from here on: none
MORE = "calibrate with data as large, or with more margin_bits"


@dataclass(frozen=True)
class Window:
    """The comparisons of one module: their number, and their bits before and after."""

    path: str
    elements: int
    before: int
    after: int


@dataclass(frozen=True)
class Calibration:
    """What was measured, and what it is good for.

    limits: by path, the module's results are below 2^limit in magnitude. range_bits and
    fraction_bits: settings for `tacit.run`; the first so that nothing on the way leaves the range,
    the second so that the results are off by less than 2^-8 of the largest. error: that of the
    results with the fraction bits of the measurement. bits_before, bits_after: what all parties
    send for the comparisons of the example in `trio`.
    """

    limits: dict[str, int]
    range_bits: int
    fraction_bits: int
    error: float
    windows: list[Window] = field(repr=False)
    bits_before: int
    bits_after: int

    @property
    def gain(self) -> float:
        """The factor by which comparisons become cheaper."""
        return self.bits_before / max(self.bits_after, 1)

    def __str__(self) -> str:
        lines = [f"{'module':<32} {'comparisons':>12} {'bits':>5} {'now':>5}"]
        lines += [
            f"{w.path or '(the model)':<32} {w.elements:>12,} {w.before:>5} {w.after:>5}"
            for w in self.windows
        ]
        lines.append(
            f"comparisons: {self.bits_before / 8e6:.3f} MB, now {self.bits_after / 8e6:.3f} MB "
            f"({self.gain:.2f} times less); range_bits={self.range_bits}, "
            f"fraction_bits={self.fraction_bits}, error {self.error:.2g}"
        )
        return "\n".join(lines)


def calibrate(
    model: nn.Module,
    example: Any,
    *,
    margin_bits: int = 1,
    ring: int = 64,
    fraction_bits: int = 16,
) -> Calibration:
    """Returns the magnitudes in a plain model on public sample data, and what they save.

    `example` is a tensor, a tuple of arguments or a dict of them; a batch of typical inputs is
    best. Promises leave 2^margin_bits of room above what was seen. The model is not changed: pass
    the result to `tacit.nn.tighten` after sharing, and its settings to `tacit.run`. Raises
    RangeError if these settings cannot hold the numbers on the way, with the operation.
    """
    if margin_bits < 0:
        raise ConfigError(f"margin_bits={margin_bits}", limit="at least 0")
    config = Config(ring=ring, fraction_bits=fraction_bits, protocol="cleartext")
    limits, wanted = _measured(model, example, margin_bits)
    default = lone_numbers(config).range_bits
    before, got = _dry_run(model, example, config, default, {})
    error = _difference(got, wanted)
    if not error < FAR or max(limits.values(), default=0) - margin_bits > default:
        _dry_run(model, example, replace(config, debug=True), default, {})  # names the place
    largest = max((x.abs().max().item() for x in wanted if x.numel()), default=0.0)
    start = max([math.ceil(math.log2(largest or 1.0)), *limits.values(), 2]) + margin_bits
    for range_bits in range(min(start, default), default + 1):
        after, again = _dry_run(model, example, config, range_bits, limits)
        if all(one.within_limit for one in after) and _difference(again, got) < ERROR:
            break
    return Calibration(
        limits=limits,
        range_bits=range_bits,
        fraction_bits=_fraction_bits(config, error, range_bits),
        error=error,
        windows=_windows(before, after),
        bits_before=sum(one.comparison.bits(ring) for one in before),
        bits_after=sum(one.comparison.bits(ring) for one in after),
    )


class _Seen(NamedTuple):
    """A comparison in a dry run; `within_limit`: whether its operand keeps what was promised."""

    path: str
    comparison: Comparison
    within_limit: bool


def _measured(
    model: nn.Module, example: Any, margin_bits: int
) -> tuple[dict[str, int], list[Tensor]]:
    """Returns the bits of each module's outputs, with the margin, and the model's results."""
    largest: dict[str, float] = {}

    def watch(path: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            sizes = [float(x.abs().max()) for x in _floats(output) if x.numel()]
            largest[path] = max([largest.get(path, 0.0), *sizes])

        return hook

    handles = [part.register_forward_hook(watch(path)) for path, part in model.named_modules()]
    try:
        with torch.no_grad():
            outputs = call(model, example)
    finally:
        for handle in handles:
            handle.remove()
    bits = {path: math.frexp(size)[1] + margin_bits for path, size in largest.items() if size > 0}
    return bits, _floats(outputs)


def _floats(nest: Any) -> list[Tensor]:
    return [x for x in tree_leaves(nest) if isinstance(x, Tensor) and x.is_floating_point()]


def _dry_run(
    model: nn.Module, example: Any, config: Config, range_bits: int, limits: dict[str, int]
) -> tuple[list[_Seen], list[Tensor]]:
    """Returns the comparisons that the model makes on secrets, and its results."""
    seen: list[_Seen] = []

    def note(x: Arith, comparison: Comparison) -> None:
        seen.append(_Seen(module_path() or "", comparison, within_limit(x)))

    n = lone_numbers(config, range_bits=range_bits, observer=note)
    copy = secret_copy(n, model)
    promise(copy, limits)
    with torch.no_grad():
        outputs = call(copy, secret_example(n, example))
    results = [plain(x) if isinstance(x, SecretTensor) else x for x in _floats(outputs)]
    return seen, results


def _difference(got: list[Tensor], wanted: list[Tensor]) -> float:
    """Returns the largest error, relative to the largest result."""
    worst = 0.0
    for one, want in zip(got, wanted, strict=True):
        if want.numel():
            size = float(want.abs().max()) or 1.0
            worst = max(worst, float((one.double() - want.double()).abs().max()) / size)
    return worst


def _fraction_bits(config: Config, error: float, range_bits: int) -> int:
    """Returns the fraction bits for an error of ERROR: every bit halves the error."""
    most = (config.ring - 3 - range_bits) // 2
    wanted = config.fraction_bits + math.ceil(math.log2(max(error, 2.0**-40) / ERROR))
    return min(max(wanted, FEWEST_FRACTION_BITS), max(most, FEWEST_FRACTION_BITS))


def _windows(before: list[_Seen], after: list[_Seen]) -> list[Window]:
    """Returns the widest windows by module, in the order of the run."""
    then, now = _widest(before), _widest(after)
    counts: Counter[str] = Counter()
    for one in before:
        counts[one.path] += one.comparison.elements * one.comparison.thresholds
    return [Window(path, counts[path], width, now.get(path, 0)) for path, width in then.items()]


def _widest(seen: list[_Seen]) -> dict[str, int]:
    widths: dict[str, int] = {}
    for one in seen:
        widths[one.path] = max(widths.get(one.path, 0), one.comparison.width)
    return widths


# Use --------------------------------------------------------------------------------------------


def tighten(
    session: HasNumbers, module: nn.Module, calibration: Calibration | None = None, *, owner: int
) -> nn.Module:
    """Returns the same secret module, with promises that its results are as small as measured.

    The owner passes its calibration; all parties get the promises, which become public. Forward
    hooks apply them. One message.
    """
    n = session.numbers
    if n.protocol.rank == owner and calibration is None:
        raise ConfigError("the owner, " + Party(owner) + ", gives a calibration", subject="tighten")
    paths = [path for path, _ in module.named_modules()]
    limits = {} if calibration is None else calibration.limits
    listed = torch.tensor([limits.get(path, UNKNOWN) for path in paths])
    [sent] = broadcast_from(n.protocol.context.mesh, [listed], owner)
    known = zip(paths, sent.tolist(), strict=True)
    promise(module, {path: bits for path, bits in known if bits < UNKNOWN})
    return module


def promise(module: nn.Module, limits: dict[str, int]) -> None:
    """Adds the hooks that promise |result| < 2^limit for the module at each path."""
    for path, part in module.named_modules():
        if path in limits:
            part.register_forward_hook(Promise(limits[path], path))


@dataclass(frozen=True)
class Promise:
    """A forward hook that promises |result| < 2^bits; a session with guards watches that."""

    bits: int
    path: str = ""

    def __call__(self, module: nn.Module, _inputs: Any, output: Any) -> None:
        for tensor in _floats(output):
            if isinstance(tensor, SecretTensor) and not follows(tensor.numbers, module):
                tensor.numbers.watch(self.path, tensor.value, self.bits)
                _limit(tensor.numbers, tensor.value, self.bits)


def _limit(n: Numbers, value: Value, bits: int) -> None:
    """Lowers the limit of a share in place; lazy values are left as they are.

    In debug mode a value beyond its promise raises RangeError.
    """
    if type(value) is Value and isinstance(value.share, Arith):
        share = value.share
        share.limit = min(share.limit, 1 << max(n.fraction_bits + bits, 1) + share.pending)
        if n.debug and not within_limit(share):
            broken = f"a result is not below 2^{bits}, as is promised"
            raise name_place(RangeError(broken, remedy=MORE, subject="tighten"))
