"""`session.load`: one party reads, all parties share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError, DataRejected, ProtocolDesync
from ...fixedpoint import Numbers
from ...nn import share
from ...transport.consensus import known_to_all, tell_all, understood
from .announcement import Announcement, Expectation
from .contents import Contents, Options, Refusal
from .messages import MOST_REASON, Word, read_word, write_word
from .pictures import Pictures
from .reading import check_values, read


def load(
    n: Numbers,
    path: str | Path | None,
    owner: int,
    expected: Expectation,
    options: Options,
    names: Sequence[str],
) -> Any:
    """The owner's file as secrets; `names` are the parties'. One round, then what `share` takes."""
    contents, word, detail = None, Word(owner, expected), ""
    if n.protocol.rank == owner:
        contents, word, detail = _at_owner(n, path, word, options)
    mesh = n.protocol.context.mesh
    words = understood(tell_all(mesh, write_word(word)), read_word)
    parties = [f"party {rank} ({name})" for rank, name in enumerate(names)]
    try:
        announced = _judged(words, owner, parties, detail)
    except (ConfigError, DataRejected) as error:
        raise known_to_all(mesh, error) from None
    return _shared(n, announced, contents, owner)


def _at_owner(
    n: Numbers, path: str | Path | None, word: Word, options: Options
) -> tuple[Contents | None, Word, str]:
    """What the file holds, what the others are told of it, and what only its owner is."""
    try:
        contents = read(path, options)
        announced = Word(word.owner, word.expected, Announcement.of(contents))
        try:
            read_word(write_word(announced))
        except ValueError as error:
            raise Refusal(f"it cannot be announced: {error}") from None
        check_values(n, contents)
        return contents, announced, f" ({path})"
    except Refusal as refusal:
        failed = Word(word.owner, word.expected, failure=refusal.reason[:MOST_REASON])
        return None, failed, f" ({refusal.path or path})"


def _judged(words: Sequence[Word], owner: int, parties: Sequence[str], detail: str) -> Announcement:
    """What the owner announced, if everybody is content with it; or the same error at all."""
    for party, word in zip(parties, words, strict=True):
        if word.owner != words[0].owner:
            raise ConfigError(
                f"load: {parties[0]} says owner={words[0].owner}, {party} owner={word.owner}"
            )
    theirs = f"load: the file of {parties[owner]}{detail}"
    if words[owner].failure:
        raise DataRejected(f"{theirs}: {words[owner].failure}", party=owner)
    announced = words[owner].announced
    if announced is None:
        raise ProtocolDesync(f"load: {parties[owner]} announced nothing", party=owner)
    for party, word in zip(parties, words, strict=True):
        difference = word.expected.difference(announced)
        if difference is not None:
            raise DataRejected(f"{theirs} is not as {party} expects: {difference}", party=owner)
    return announced


def _shared(n: Numbers, announced: Announcement, contents: Contents | None, owner: int) -> Any:
    if contents is not None:
        tensors: dict[str, Tensor] = dict(contents.tensors)
    else:
        tensors = {
            entry.name: torch.empty(entry.shape, dtype=entry.dtype, device="meta")
            for entry in announced.entries
        }
    if announced.form == "tensor":
        return share(n, next(iter(tensors.values())), owner)
    secrets = share(n, tensors, owner)
    if announced.form == "pictures":
        return Pictures(secrets["images"], secrets["labels"], announced.classes)
    return secrets
