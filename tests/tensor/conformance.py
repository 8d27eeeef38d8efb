"""Runs the samples of torch's operator database on secrets and compares with the plain results."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tests.tensor.domains import comparable, in_domain, snapped
from tests.tensor.operators import CHOSEN, COARSE, REFUSING
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

import tacit
from tacit.errors import RevealForbidden, UnsupportedOp, statement
from tacit.tensor import SecretTensor

Check = Callable[[Any, str, Any, int | None], "Outcome"]

TABLE = Path(__file__).with_name("operators.json")
RIGHT, REFUSED, WRONG, CRASHED = "right", "refused", "wrong", "crashed"
COARSELY = "coarse"
GRADIENT_SAMPLES = 12
MOST_ELEMENTS = 1000


@dataclass
class Outcome:
    """What an operator did on its samples; `notes` say where it was not right."""

    name: str
    verdict: str = RIGHT
    samples: int = 0
    skipped: int = 0
    reason: str = ""
    notes: list[str] = field(default_factory=list)

    def note(self, verdict: str, text: str) -> None:
        worst = [RIGHT, REFUSED, WRONG, CRASHED]
        self.verdict = max(self.verdict, verdict, key=worst.index)
        self.notes.append(f"{verdict}: {self.name}: {text}")


@contextmanager
def torch_warnings_ignored() -> Iterator[None]:
    """Samples call deprecated forms on purpose; what torch says about them is not ours.

    To be used around all parties: what Python does with warnings is one setting for all threads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@cache
def database() -> dict[str, Any]:
    """torch's OpInfos by name and variant."""
    with torch_warnings_ignored():
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.opinfo import core

    # For the samples of each operator torch looks for a unittest on the stack, twice and with the
    # source of every frame: most of the time of a check. There is none.
    common_utils.extract_test_fn = core.extract_test_fn = lambda: None

    def name(op: Any) -> str:
        return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name

    return {name(op): op for op in op_db}


def samples_of(op: Any, most: int | None, *, requires_grad: bool = False) -> list[Any]:
    """The samples of an operator, spread evenly where there are more than `most`."""
    torch.manual_seed(0)
    dtype = torch.float64 if torch.float64 in op.dtypes else torch.float32
    found = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    if requires_grad:  # a secret place among n costs n in a gradient
        found = [x for x in found if size_of(x) <= MOST_ELEMENTS] or found
    if most is None or len(found) <= most:
        return found
    return [found[i * len(found) // most] for i in range(most)]


def size_of(sample: Any) -> int:
    tensors = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    return sum(x.numel() for x in tensors if isinstance(x, Tensor))


def check_forward(session: Any, name: str, op: Any, most: int | None = None) -> Outcome:
    """The verdict on an operator's results; on all samples if none of `most` is in the domain."""
    few = check_samples(session, name, op, samples_of(op, most))
    return few if few.samples else check_samples(session, name, op, samples_of(op, None))


def check_samples(session: Any, name: str, op: Any, samples: Sequence[Any]) -> Outcome:
    outcome = Outcome(name)
    for sample in samples:
        call = Call(op, sample, session)
        want = call.plain()
        elementwise = type(op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo")
        if want is None or not in_domain(name, call.values, () if elementwise else want):
            outcome.skipped += 1
            continue
        want = comparable(name, want) if elementwise else want
        judge(outcome, call, lambda call=call: call.secret(), want)
    return outcome


def check_gradient(session: Any, name: str, op: Any, most: int | None = None) -> Outcome:
    """The verdict on the gradients of a weighted sum of an operator's results."""
    outcome = Outcome(name)
    for sample in samples_of(op, most, requires_grad=True):
        call = Call(op, sample, session)
        want, gradients = call.plain_gradients()
        fit = want is not None and in_domain(name, call.values, want)
        if not fit or not in_domain("", (), gradients):
            outcome.skipped += 1
            continue
        judge(outcome, call, lambda call=call: call.secret_gradients(), gradients)
    return outcome


def check_all(
    check: Check,
    names: Sequence[str],
    most: int | None = None,
    protocol: str = "cleartext",
    **settings: Any,
) -> dict[str, Outcome]:
    """The verdicts of `check` on these operators, all in one session; a crash ends one operator."""
    infos = database()

    def guarded(session: Any, name: str) -> Outcome:
        try:
            return check(session, name, infos[name], most)
        except Exception as error:
            outcome = Outcome(name)
            outcome.note(CRASHED, f"the check: {type(error).__name__}: {error}")
            return outcome

    def main(session: Any) -> dict[str, Outcome]:
        return {name: guarded(session, name) for name in names}

    with torch_warnings_ignored():
        return tacit.run(main, parties=1, protocol=protocol, **settings)[0]


def judge(outcome: Outcome, call: Call, run: Callable[[], Any], want: Any) -> None:
    """Adds what one sample shows."""
    outcome.samples += 1
    try:
        got = run()
    except (UnsupportedOp, RevealForbidden) as error:
        outcome.reason = outcome.reason or statement(error)
        outcome.note(REFUSED, f"{call}: {error}")
    except Exception as error:
        outcome.note(CRASHED, f"{call}: {type(error).__name__}: {error}")
    else:
        difference = compare(got, want)
        if difference:
            outcome.note(WRONG, f"{call}: {difference}")


class Call:
    """An operator applied to one sample, in plain and on secrets."""

    def __init__(self, op: Any, sample: Any, session: Any) -> None:
        self.op, self.session, self.sample = op, session, sample
        self.values = snapped((sample.input, sample.args, sample.kwargs), session)

    def __str__(self) -> str:
        def shown(x: Any) -> Any:
            return f"{str(x.dtype)[6:]}{list(x.shape)}" if isinstance(x, Tensor) else x

        first, args, kwargs = tree_map(shown, self.values)
        return f"({first}, *{args}, **{kwargs})".replace("'", "")

    def apply(self, values: Any) -> Any:
        torch.manual_seed(1)
        first, args, kwargs = values
        return self.sample.output_process_fn_grad(self.op(first, *args, **kwargs))

    def plain(self) -> Any:
        try:
            return self.apply(tree_map(fresh, self.values))
        except Exception:
            return None

    def secret(self) -> Any:
        return self.opened(self.apply(tree_map(self.shared, self.values)))

    def shared(self, x: Any) -> Any:
        """Every floating tensor becomes a secret; indices and masks stay public."""
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return fresh(x)
        made = self.session.share(x.detach(), owner=0)
        return made.requires_grad_(x.requires_grad)

    def opened(self, result: Any) -> Any:
        def plain(x: Any) -> Any:
            return self.session.reveal(x) if isinstance(x, SecretTensor) else x

        return tree_map(plain, result)

    def plain_gradients(self) -> tuple[Any, Any]:
        values = tree_map(fresh, self.values)
        try:
            result = self.apply(values)
            return tree_map(detached, result), gradients(values, result)
        except Exception:
            return None, None

    def secret_gradients(self) -> Any:
        values = tree_map(self.shared, self.values)
        return self.opened(gradients(values, self.apply(values)))


def fresh(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    copy = x.detach().clone()
    return copy.requires_grad_(x.requires_grad) if x.is_floating_point() else copy


def detached(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def gradients(values: Any, result: Any) -> list[Tensor | None]:
    """Of a weighted sum of all results with respect to all inputs."""
    leaves = [x for x in tree_flatten(values)[0] if isinstance(x, Tensor) and x.requires_grad]
    outputs = [x for x in tree_flatten(result)[0] if isinstance(x, Tensor) and x.requires_grad]
    losses = [(out * weights(out)).sum() for out in outputs]
    total = sum(losses[1:], start=losses[0])
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def weights(like: Tensor) -> Tensor:
    """Public weights between -1 and 1, multiples of 1/8, all different for neighbours."""
    count = torch.arange(like.numel(), dtype=like.dtype).reshape(like.shape)
    return (count * 5 % 17 - 8) / 8


def compare(got: Any, want: Any) -> str:
    """What differs between two nests of tensors; empty if nothing does."""
    mine, theirs = tree_flatten(got)[0], tree_flatten(want)[0]
    if len(mine) != len(theirs):
        return f"{len(mine)} results instead of {len(theirs)}"
    differences = [difference(a, b) for a, b in zip(mine, theirs, strict=True)]
    return "; ".join(d for d in differences if d)


def difference(got: Any, want: Any) -> str:
    if not isinstance(want, Tensor) or not isinstance(got, Tensor):
        same = type(got) is type(want) and (not isinstance(want, int | str) or got == want)
        return "" if same else f"{got} instead of {want}"
    if got.shape != want.shape:
        return f"shape {list(got.shape)} instead of {list(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype} instead of {want.dtype}"
    exact = want.detach().to("cpu", torch.float64)
    error = (got.to(torch.float64) - exact).abs()
    bad = ~(error <= 2.0**-7 + 2.0**-6 * exact.abs()) & ~exact.isnan()
    if not bad.any():
        return ""
    place = int(bad.flatten().nonzero()[0])
    found, right = float(got.flatten()[place]), float(exact.flatten()[place])
    return f"{int(bad.sum())} of {want.numel()} off: {found:.5g} instead of {right:.5g}"


def record(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What operators do on all of their samples, by name."""
    infos = database()

    def row(session: Any, name: str) -> dict[str, Any]:
        results = check_forward(session, name, infos[name])
        found = {"samples": results.samples, "results": results.verdict, "gradients": None}
        problems = list(results.notes)
        if results.verdict == REFUSED:
            found["reason"] = results.reason
        if name in CHOSEN and infos[name].supports_autograd:
            slopes = check_gradient(session, name, infos[name], GRADIENT_SAMPLES)
            found["gradients"] = COARSELY if name in COARSE else slopes.verdict
            problems += [] if name in COARSE else slopes.notes
            if not slopes.samples:
                found["gradients"] = None
        for note in problems[:3]:
            print(note[:400], flush=True)
        return found

    def main(session: Any) -> dict[str, dict[str, Any]]:
        return {name: row(session, name) for name in names}

    with torch_warnings_ignored():
        return tacit.run(main, parties=1, protocol="cleartext")[0]


def update(names: Sequence[str]) -> None:
    """Runs these operators, or all, and writes what they do to the table."""
    every = [*CHOSEN, *REFUSING]
    old = json.loads(TABLE.read_text()) if names and TABLE.exists() else {}
    rows = {**old, **record(names or every)}
    TABLE.write_text(json.dumps({name: rows[name] for name in every}, indent=1) + "\n")


if __name__ == "__main__":
    update(sys.argv[1:])
