"""Writes docs/reference/ and docs/drawings/ from the code and the newest benchmark records.

`python -m docs.generate` writes them; `--check` only says which are out of date.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from docs.charts import where_time_goes
from docs.commands import cli_page
from docs.drawings import FOLDER, journey_svg, layers_svg
from docs.failures import failures_page
from docs.peers import peers_charts, peers_page
from docs.pictures import HOSPITALS, INFERENCE, TRAINING, holdings_svg, masking_svg
from docs.processors import processors_charts, processors_page
from docs.settings import configuration_page, protocols_page
from docs.speed import speed_charts, speed_page
from docs.statistics import statistics_page
from tests.tensor.operators import FAMILIES, REFUSING

from tacit import errors, kernels
from tacit.protocols.beaver.dealer_free import DealerFree
from tacit.protocols.cost import Cost, side_by_side
from tacit.registry import PROTOCOLS
from tacit.tensor.table import operators
from tacit.transport import PROFILES

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
HEAD = "<!-- Made by `make docs`; change the code, not this page. -->\n\n"


def errors_page() -> str:
    """Every error of `tacit.errors`, under the error that it is a kind of."""
    lines = ["# Errors", "", (inspect.getdoc(errors) or "").split("\n\n")[-1], ""]

    def visit(error: type[errors.Error], depth: int) -> None:
        text = " ".join((inspect.getdoc(error) or "").split())
        lines.append(f"{'    ' * depth}- `{error.__name__}`: {text}")
        for kind in error.__subclasses__():
            if kind.__module__.startswith(errors.__name__):  # others are there once imported
                visit(kind, depth + 1)

    visit(errors.Error, 0)
    lines += [
        "",
        "## Fields",
        "",
        "What is not known is None.",
        "",
        "| field | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in errors.FIELDS.items()]
    return "\n".join(lines) + "\n"


def kernels_page() -> str:
    """Every kernel with its signature."""
    lines = ["# Kernels", "", inspect.getdoc(kernels) or "", ""]
    for name in kernels.__all__:
        function = getattr(kernels, name)
        lines += [f"## {name}", "", f"`{name}{signature(function)}`", "", document(function), ""]
    return "\n".join(lines)


def signature(function: Callable[..., Any]) -> str:
    return str(inspect.signature(function)).replace("'", "")


def document(function: Callable[..., Any]) -> str:
    return inspect.getdoc(function.func if isinstance(function, partial) else function) or ""


def networks_page() -> str:
    """The named links of `network=`."""
    lines = ["# Networks", "", "What `tacit.run(..., network=name)` makes of every link.", ""]
    lines += ["| name | latency | bandwidth |", "|---|---|---|"]
    for name, link in PROFILES.items():
        fast = link.bandwidth == float("inf")
        bandwidth = "as it is" if fast else f"{link.bandwidth / 1e9:g} Gbit/s"
        lines.append(f"| `{name}` | {link.latency * 1e3:g} ms | {bandwidth} |")
    return "\n".join(lines) + "\n"


OPS_TEXT = """\
What torch's own operator database shows on secret tensors: every floating argument is secret, and
the results and gradients are compared with a plain run in double precision, on every sample within
the range of fixed point (`tests/tensor/domains.py` says which). *right*: all within
2^-7 + 2^-6·|x|. *refused*: some sample raises `UnsupportedOp` or `RevealForbidden`, and the others
are right. `python -m tests.tensor.conformance` runs it and writes `tests/tensor/operators.json`."""


def ops_page() -> str:
    """What operators do on secrets, and the rules that there are."""
    record = json.loads((ROOT / "tests" / "tensor" / "operators.json").read_text())
    lines = ["# Operators", "", OPS_TEXT, "", *ops_summary(record), ""]
    for family, names in FAMILIES.items():
        lines += [f"## {family}", "", "| operator | samples | results | gradients |"]
        lines += ["|---|---|---|---|"]
        lines += [ops_row(name, record[name]) for name in names] + [""]
    lines += ["## Refused", "", "What would need the values, or has no method in fixed point.", ""]
    lines += [", ".join(f"`{name}`" for name in REFUSING) + ".", ""]
    return "\n".join(lines + ops_rules())


def ops_summary(record: dict[str, Any]) -> list[str]:
    lines = ["| family | operators | right | refused | right gradients |", "|---|---|---|---|---|"]
    whole = [name for names in FAMILIES.values() for name in names]
    for family, names in [*FAMILIES.items(), ("all", whole)]:
        results = [record[name]["results"] for name in names]
        slopes = [record[name]["gradients"] for name in names]
        counts = (len(names), results.count("right"), results.count("refused"))
        lines.append(f"| {family} | {' | '.join(map(str, counts))} | {slopes.count('right')} |")
    return lines


def ops_row(name: str, row: dict[str, Any]) -> str:
    results = row["results"] + (f": {row['reason']}" if "reason" in row else "")
    return f"| `{name}` | {row['samples']} | {results} | {row['gradients'] or ''} |"


def ops_rules() -> list[str]:
    """The ATen operations that have a rule, by the file that it stands in."""
    lines = ["## Rules", "", "ATen operations by the file of `tacit/tensor/ops/` with their rule."]
    lines += ["In-place, `out=` and `_foreach_` variants follow from these.", ""]
    for file, names in operators().items():
        lines += [f"- {file}: {', '.join(f'`{name}`' for name in names)}"]
    return [*lines, ""]


COSTS_TEXT = """\
Bits for one element over each link, and rounds. `0→2 (ahead)` does not wait for anything that is
computed online and takes no round; bits travel in words of 64 elements. Comparisons are those of
thousands of elements: few are compared in a round less, with more bits. A bilinear operation is any
product, of matrices or by convolution too, and an element is one of its output. In `trio` party 0
deals and parties 1 and 2 evaluate; in `additive` and `beaver`, shown for three parties, 3 is the
dealer; in `replicated` party 0 adds. `beaver` sends the operands of a product and not its result,
so this is an elementwise product there. Without a dealer it is shown for two parties, for operands
that no party knows, after a setup of {setup} bits each way in 2 rounds, once in a session.
`tests/protocols/test_costs.py` and `test_dealer_free.py` compare the declarations with what the
transport counts."""


def costs_page() -> str:
    """What every operation is declared to cost, by protocol."""
    setup = max(DealerFree.declared_costs(64, 2).setup().bits.values())
    lines = ["# Costs", "", COSTS_TEXT.format(setup=setup), ""]
    kinds = [(name, info.load(), info.default_parties) for name, info in PROTOCOLS.items()]
    for name, kind, parties in [*kinds, ('additive, dealer="none"', DealerFree, 2)]:
        if kind is None or kind.declared_costs(64, parties) is None:
            continue
        lines += [f"## {name}", "", "| operation | ring | rounds | bits |", "|---|---|---|---|"]
        for bits in (64, 32):
            costs = kind.declared_costs(bits, parties)
            operations = [*costed_operations(costs, bits, parties)]
            if hasattr(kind, "hide_rows"):
                operations += lookups(costs, parties)
            for operation, cost in operations:
                links = ", ".join(link_text(*link, count) for link, count in cost.bits.items())
                lines.append(f"| {operation} | {bits} | {cost.rounds} | {links or 'none'} |")
        lines.append("")
    return "\n".join(lines)


def link_text(sender: int, receiver: int, ahead: bool, bits: int) -> str:
    return f"{sender}→{receiver}{' (ahead)' if ahead else ''} {bits / ELEMENTS:g}"


ELEMENTS = 64  # a word of bits
MANY_WORDS = 256  # of elements that are compared: few take fewer rounds and more bits


def costed_operations(costs: Any, ring: int, parties: int) -> Iterator[tuple[str, Cost]]:
    n, t = ELEMENTS, ring // 4
    for owner in range(parties):
        yield f"share by party {owner}", costs.share(n, owner)
    shares = (costs.share(n, owner) for owner in range(parties))
    yield "conversion of parts that every party gives", side_by_side(shares)
    yield "reveal to all", costs.reveal(n)
    for to in range(parties):
        yield f"reveal to party {to}", costs.reveal(n, to)
    yield "bilinear", costs.bilinear(n)
    yield f"bilinear, divided by 2^{t}, exact (pending)", costs.bilinear(n, t)
    yield f"bilinear, divided by 2^{t}, probabilistic", costs.bilinear(n, t, exact=False)
    yield f"truncate by {t} bits, exact", costs.truncate(n, t)
    yield f"truncate by {t} bits, probabilistic", costs.truncate(n, t, exact=False)
    for fan_in in (2, 3, 4):
        yield f"AND of {fan_in} bits", costs.bit_and(n, 1, fan_in)
    for width in (8, 16, 24, 32, 48, 64):
        if width <= ring:
            yield f"sign of {width} bits", _of_a_word(costs.signs(n * MANY_WORDS, width))
    yield "signs of 24 bits, 8 thresholds", _of_a_word(costs.signs(n * MANY_WORDS, 24, 8))
    yield f"equality to zero of {ring} bits", costs.is_zero(n, ring)
    yield "inject", costs.inject(n)
    yield f"inject, of a quotient by 2^{t}", costs.inject(n, t)
    yield "sum of 4 injected constants", costs.inject_sums(n, 4, False, 1)
    yield "sum of 4 injected multiples of x", costs.inject_sums(n, 4, True, 1)


def lookups(costs: Any, parties: int) -> Iterator[tuple[str, Cost]]:
    """Of rows of 8 numbers."""
    for owner in range(parties):
        yield f"hide rows for lookups of party {owner}", costs.hide_rows(ELEMENTS, owner)
        yield f"take hidden rows, by party {owner}", costs.take_hidden(8, ELEMENTS, owner)


def _of_a_word(cost: Cost) -> Cost:
    """The cost of ELEMENTS, from that of MANY_WORDS times as many."""
    return Cost(cost.rounds, {link: bits // MANY_WORDS for link, bits in cost.bits.items()})


MAKERS = {
    "cli.md": cli_page,
    "configuration.md": configuration_page,
    "costs.md": costs_page,
    "errors.md": errors_page,
    "failures.md": failures_page,
    "kernels.md": kernels_page,
    "networks.md": networks_page,
    "ops.md": ops_page,
    "peers.md": peers_page,
    "processors.md": processors_page,
    "protocols.md": protocols_page,
    "speed.md": speed_page,
    "statistics.md": statistics_page,
}

DRAWINGS = {
    "holdings_hospitals.svg": partial(holdings_svg, HOSPITALS),
    "holdings_inference.svg": partial(holdings_svg, INFERENCE),
    "holdings_training.svg": partial(holdings_svg, TRAINING),
    "journey.svg": journey_svg,
    "layers.svg": layers_svg,
    "masking.svg": masking_svg,
    "time.svg": where_time_goes,
}


def contents() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    pages = {PAGES / name: HEAD + make() for name, make in MAKERS.items()}
    return pages | {FOLDER / name: text for name, text in drawings().items()}


def drawings() -> dict[str, str]:
    drawn = {name: draw() for name, draw in DRAWINGS.items()}
    return drawn | peers_charts() | processors_charts() | speed_charts()


def stale() -> list[str]:
    """The names of the generated files that differ from what would be written now."""
    wanted = contents()
    changed = [path for path, text in wanted.items() if differs(path, text)]
    return [path.name for path in (*changed, *obsolete(wanted))]


def differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text() != text


def obsolete(wanted: Container[Path]) -> list[Path]:
    """The files in the generated folders that nothing makes any more."""
    files = (*sorted(PAGES.glob("*.md")), *sorted(FOLDER.glob("*.svg")))
    return [path for path in files if path not in wanted]


def main() -> None:
    if "--check" in sys.argv:
        names = ", ".join(stale())
        sys.exit(f"out of date: {names}; run make docs" if names else 0)
    wanted = contents()
    written = {path: text for path, text in wanted.items() if differs(path, text)}
    removed = obsolete(wanted)
    for path, text in written.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for path in removed:
        path.unlink()
    print(f"written: {', '.join(path.name for path in written) or 'nothing new'}")
    if removed:
        print(f"removed: {', '.join(path.name for path in removed)}")


if __name__ == "__main__":
    main()
