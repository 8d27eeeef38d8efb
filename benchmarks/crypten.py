"""The benchmarks of the CrypTen paper: text, speech and pictures, for two to eight parties.

Model and inputs are secret; weights are random. Parties and dealer are threads of a process, with
one kernel thread each. On a GPU, if there is one, calls are recorded (`session.repeated`). Seconds
and bytes are for a sample, rounds for a batch, all without sharing the input, whose bytes a note
has. The paper gives numbers for two parties with a P100 each; for more it has drawings only.
A case with a normalised mean squared error of 4e-4 or more has no figure.

Text has three paths, all of which reveal the number of texts and their length alone. If the table
of embeddings is secret, the owner of the words shares how often each word of the table occurs: a
text costs a word of 64 bits for each row of the table. Or it takes the rows of its words from a
hidden table (`session.private_lookups`): the table is sent once, after that a text costs what it
looks up. If the table is public, the owner shares the mean of the rows: a text costs 32 numbers.
`--only TEXT ...` runs the cases with one of these texts in their names, such as text or trio.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from benchmarks.measure import Row, chosen, elapsed, interleaved, one_thread, replayed_ms
from benchmarks.random_weights import initialise
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit import zoo
from tacit.errors import PartyFailed
from tacit.nn import fold_batch_norm
from tacit.zoo.sentiment import WIDTH, WORDS

MOST_ERROR = 4e-4  # normalised and squared, as in section 5.1 of the paper
TEXT_LENGTH = 128  # words of a text
PAPER = "CrypTen's paper, 2 parties, P100"


class Setting(NamedTuple):
    """A protocol, with so many parties."""

    protocol: str
    parties: int

    def __str__(self) -> str:
        return f"{self.protocol}, {self.parties} parties"


PAIR = Setting("additive", 2)
SETTINGS = [Setting("additive", parties) for parties in (2, 3, 4, 8)]
SETTINGS += [Setting("trio", 3), Setting("replicated", 3)]


@dataclass(frozen=True)
class Case:
    """A model and the inputs of a batch.

    batches: of two parties; other settings run `batch` alone. seconds: the paper's for a sample.
    milliseconds: what two parties and a dealer should take for a sample of `batch` on an H200.
    looks_up: the model takes words, which stay with their owner, instead of a shared input.
    memory_limit: of the session.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    seconds: float
    milliseconds: float
    batch: int = 1
    batches: tuple[int, ...] = (1,)
    figure: str = PAPER
    looks_up: bool = False
    memory_limit: int | None = None

    def runs(self) -> list[tuple[Setting, tuple[int, ...]]]:
        return [(one, self.batches if one == PAIR else (self.batch,)) for one in SETTINGS]


def words(batch: int) -> Tensor:
    return torch.randint(WORDS, (batch, TEXT_LENGTH), generator=torch.Generator().manual_seed(2))


def table() -> Tensor:
    return torch.randn(WORDS, WIDTH, generator=torch.Generator().manual_seed(3))


def word_frequencies(batch: int) -> Tensor:
    """The share of each word of the table in each text: times the table, the mean of its rows."""
    each = torch.full((batch, TEXT_LENGTH), 1 / TEXT_LENGTH)
    return torch.zeros(batch, WORDS).scatter_add(1, words(batch), each)


def looked_up(batch: int) -> Tensor:
    """The means of rows of a public table, which the owner of the words knows."""
    return F.embedding_bag(words(batch), table(), mode="mean")


def text_model() -> nn.Module:
    model = zoo.text_sentiment()
    model.embedding.weight.data = table().t().contiguous()
    return model.eval()


class TextOfWords(nn.Module):
    """The same model, of the numbers of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(table())
        self.classifier = nn.Linear(WIDTH, 2)

    def forward(self, places: Tensor) -> Tensor:
        means = F.embedding_bag(places, self.table.weight, mode="mean")
        scores: Tensor = self.classifier(means)
        return scores


def speech(batch: int) -> Tensor:
    """One second at 16 kHz."""
    return torch.randn(batch, 1, 16_000, generator=torch.Generator().manual_seed(4))


def pictures(batch: int) -> Tensor:
    return torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(5))


def wav2letter() -> nn.Module:
    return initialise(zoo.wav2letter(), speech(1))


def resnet18() -> nn.Module:
    return fold_batch_norm(initialise(zoo.resnet18(), pictures(2))).eval()


def vit() -> nn.Module:
    return zoo.vit_b_16().eval()


TEXT_BATCHES: dict[str, Any] = {
    "batch": 32,
    "batches": (1, 32, 128),
    "figure": f"{PAPER}, batch 32",
}
CASES = [
    Case("text", text_model, word_frequencies, 0.03, 1.0, memory_limit=1 << 28, **TEXT_BATCHES),
    Case("text, hidden table", TextOfWords, words, 0.03, 1.0, looks_up=True, **TEXT_BATCHES),
    Case("text, public table", lambda: nn.Linear(WIDTH, 2), looked_up, 0.03, 1.0, **TEXT_BATCHES),
    Case("Wav2Letter", wav2letter, speech, 1.0, 15.0, figure="real time, which the paper beats"),
    Case("ResNet-18", resnet18, pictures, 2.49, 20.0),
    Case("ViT-B/16", vit, pictures, 8.47, 150.0),
]


class WrongAnswer(RuntimeError):
    """Parties computed something else than plain torch."""


class Measured(NamedTuple):
    """What one party measured of a batch: seconds, bytes, rounds, bytes of its input; scores.

    first_received: the bytes of the first call, in which a table is hidden. recorded: what of a
    call is recorded, if it is.
    """

    seconds: float
    sent: int
    received: int
    rounds: int
    input_sent: int
    first_received: int
    recorded: str
    scores: Tensor


def party(
    session: tacit.Session, model: nn.Module, inputs: list[Tensor], looks_up: bool
) -> list[Measured]:
    own: Any = session.share(copy.deepcopy(model), owner=0)
    call = own
    if looks_up:
        lookups = session.private_lookups(own.table.weight, owner=1)

        def call(places: Tensor) -> Tensor:
            scores: Tensor = own.classifier(lookups.sums(places) / places.shape[1])
            return scores

    elif session.device.type == "cuda":
        call = session.repeated(lambda x: own(x))
    with torch.no_grad():
        return [measured(session, call, x, is_shared=not looks_up) for x in inputs]


def measured(
    session: tacit.Session, call: Callable[..., Tensor], x: Tensor, *, is_shared: bool
) -> Measured:
    """Calls that encode weights, hide tables or are recorded come first and are not measured."""
    with session.stats.scope("input") as shared:
        secret = session.share(x, owner=1) if is_shared else x
    costs = []

    def inference() -> Tensor:
        with session.stats.scope("inference") as cost:
            scores = call(secret)
            session.numbers.settled(scores.value)  # type: ignore[attr-defined]
        costs.append(cost)
        return scores

    warm_up, repetitions = (6, 5) if session.device.type == "cuda" else (1, 1)
    ms, scores = replayed_ms(inference, session, warm_up=warm_up, repetitions=repetitions)
    last = costs[-1]
    return Measured(
        ms / 1e3,
        last.bytes_sent,
        last.bytes_received,
        last.rounds,
        shared.bytes_sent,
        costs[0].bytes_received,
        call.summary().splitlines()[-1].strip() if hasattr(call, "summary") else "not recorded",
        session.reveal(scores),
    )


def normalised_error(found: Tensor, wanted: Tensor) -> float:
    """|found - wanted|^2 / |wanted|^2."""
    return float((found - wanted).square().sum() / wanted.square().sum())


def rows_of(case: Case, setting: Setting, batches: tuple[int, ...]) -> list[Row]:
    """One row for each batch; the model is shared once."""
    torch.manual_seed(1)
    model, inputs = case.make(), [case.inputs(batch) for batch in batches]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = tacit.run(
        party,
        model,
        inputs,
        case.looks_up,
        protocol=setting.protocol,
        parties=setting.parties,
        device=device,
        memory_limit=case.memory_limit,
        deadline=600.0,
    )
    columns = zip(inputs, zip(*found, strict=True), strict=True)
    return [row_of(case, setting, model, x, parties) for x, parties in columns]


def row_of(
    case: Case, setting: Setting, model: nn.Module, x: Tensor, parties: tuple[Measured, ...]
) -> Row:
    name, batch = f"{case.name}, batch {len(x)}, {setting}", len(x)
    with torch.no_grad():
        plain = interleaved({"plain": lambda: model(x)}, repetitions=1)["plain"] / batch
        error = normalised_error(parties[0].scores, model(x))
    if not error < MOST_ERROR:
        raise WrongAnswer(f"{name}: a normalised mean squared error of {error:.1e}")
    sent, received, shared = (
        f"{max(getattr(one, field) for one in parties) / batch:,.0f}"
        for field in ("sent", "received", "input_sent")
    )
    shared = f"the owner sends {shared} bytes to share a sample"
    if case.looks_up:
        shared = f"the first call receives {max(one.first_received for one in parties):,} bytes"
    demanded = torch.cuda.is_available() and setting == PAIR and batch == case.batch
    made = Row(
        name=name,
        value=max(one.seconds for one in parties) / batch,
        unit="s a sample",
        baseline=case.figure,
        baseline_value=case.seconds,
        target=case.milliseconds / 1e3 / case.seconds if demanded else None,
        lower_is_better=True,
        note=f"{sent} bytes a sample sent and {received} received by the busiest party, "
        f"{max(one.rounds for one in parties)} rounds a batch; {shared}; "
        f"{parties[0].recorded}; plain torch {plain:.2g} s; "
        f"normalised mean squared error {error:.0e}",
    )
    print(f"  {made.name}: {made.value:.3g} s; {made.note}", flush=True)
    return made


def rows(only: Sequence[str] = ()) -> Iterator[Row]:
    """All cases, or those with one of these texts in their names; each row as soon as it is."""
    cases = [
        (f"{case.name}, {setting}", (case, setting, batches))
        for case in CASES
        for setting, batches in case.runs()
    ]
    with one_thread():
        for name, case in chosen(cases, only):
            with elapsed(name):
                made = attempted(name, case)
            yield from made


def attempted(name: str, case: tuple[Case, Setting, tuple[int, ...]]) -> list[Row]:
    """The rows of a case; none if a party fails or an answer is wrong."""
    try:
        return rows_of(*case)
    except (PartyFailed, WrongAnswer) as error:
        print(f"  {name}: left out: {str(error).splitlines()[0]}", flush=True)
        return []
