"""Where the parties' public records differ, and the error that says so.

NOTE [public mismatch]
Each message carries the digest of everything public that its sender's program did before. The
receiver compares it with its own before it looks at anything else, and ends the run if they differ.
A party that opens a secret hears from all others first, so no value of a call is returned while the
parties differ. At the end of a run each party says goodbye with its digest and waits for the
others' words, so a difference after the last message is found too.

The first party that notices tells all others, with the last entries of its record. Each of them
answers with its own, so that every party finds the first difference: the operation, the line of its
own program, and which parties agree. What is told are names of operations and digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import Operator, Party, PeerClosed, Phrase, PublicMismatch, joined
from ..errors.call_sites import frame_at
from .channel import Abort, Goodbye, LastWord
from .public_record import KEPT, Excerpt, PublicRecord, Told
from .root_cause import PeerAborted

CAUSES = (
    "every party must give the same public values and run the same operations. Usual causes: a "
    "random number or a shuffle with a party's own seed, labels or data that were never shared, "
    "session.rank in an expression, a forgotten session.share(model)"
)
DETAIL = ": "  # between the name of an operation and what it says about itself
FORMS = "every party gives the same shape, dtype and owner; without values, by shape= and dtype="
MAX_NAME = 80


class Difference(NamedTuple):
    """The first entry that differs: its position, and what each party has there, by rank.

    None stands for a party that did nothing more. `earlier`: the records are cut, and the first
    difference may lie before this entry.
    """

    position: int
    told: dict[int, Told | None]
    earlier: bool

    @property
    def details(self) -> dict[int, str] | None:
        """What each party's operation says about itself behind its name, if they differ there."""
        names = {rank: told.name if told else "" for rank, told in self.told.items()}
        if len({name.partition(DETAIL)[0] for name in names.values()}) > 1:
            return None
        found = {rank: _printable(name.partition(DETAIL)[2]) for rank, name in names.items()}
        return found if len(set(found.values())) > 1 else None

    @property
    def groups(self) -> list[list[int]]:
        """The parties that agree with each other, largest group first."""
        found: dict[Told | None, list[int]] = {}
        for rank, told in sorted(self.told.items()):
            found.setdefault(told, []).append(rank)
        return sorted(found.values(), key=len, reverse=True)


def first_difference(excerpts: Mapping[int, Excerpt]) -> Difference | None:
    """Returns where records of parties, by rank, first differ; None if they do not show it."""
    start = max(excerpt.first for excerpt in excerpts.values())
    end = max(excerpt.end for excerpt in excerpts.values())
    for index in range(start, end):
        told = {rank: one.entries[index] for rank, one in excerpts.items() if index in one.entries}
        if len(set(told.values())) > 1:
            return Difference(index, dict(told), index == start > 0)
    index = min((one.end for one in excerpts.values() if one.stopped), default=end)
    if not start <= index < end:
        return None
    known = [rank for rank, one in excerpts.items() if one.stopped or index in one.entries]
    return Difference(index, {rank: excerpts[rank].entries.get(index) for rank in known}, False)


def differs(word: LastWord | None, record: PublicRecord) -> bool:
    """Returns whether a peer's last word shows that its public record is another."""
    if isinstance(word, Goodbye):
        return word.digest != record.digest
    if word is None or word.record is None:
        return False
    excerpts = {0: record.excerpt(most=KEPT), 1: word.record}
    return word.reason == PublicMismatch.__name__ or first_difference(excerpts) is not None


def is_mismatch(
    error: BaseException,
    told: PeerAborted | None,
    last: PeerAborted | Goodbye | None,
    record: PublicRecord,
) -> bool:
    """Returns whether a run ends because public records differ.

    `told`: what a peer reports. `last`: the last word of a peer that ended before its message came.
    """
    if isinstance(error, PublicMismatch) or differs(None if told is None else told.word, record):
        return True
    return isinstance(last, Goodbye) and differs(last, record)


def accused(error: BaseException, told: PeerAborted | None) -> int | None:
    """Returns the party whose message or goodbye showed the mismatch."""
    if told is not None:
        return told.word.origin
    return error.party if isinstance(error, PublicMismatch | PeerClosed) else None


def answer(told: PeerAborted | None, origin: int, operation: int, record: PublicRecord) -> Abort:
    """Returns what a party tells the others when it notices a mismatch, or is told of one."""
    if told is None or told.word.record is None:
        near = record.excerpt(stopped=told is None)
    else:  # what the other party has, and what comes next
        near = record.excerpt(told.word.record.end + 1)
    return Abort(origin, operation, PublicMismatch.__name__, near)


def public_mismatch(
    record: PublicRecord,
    rank: int,
    words: Mapping[int, LastWord | None],
    *,
    noticed: bool,
    accused: int | None = None,
) -> PublicMismatch:
    """Returns the error of the party `rank`, from its record and those in the peers' last words.

    noticed: this party noticed the difference itself, at the end of its record. accused: the party
    to name if the records do not show the difference.
    """
    told = {peer: word.record for peer, word in words.items() if word and word.record}
    own = record.excerpt(most=KEPT, stopped=noticed)
    found = first_difference({rank: own, **told}) if told else None
    if found is None:
        who = "the parties differ" if accused is None else Party(accused) + " differs from others"
        reason = who + " in public operands or operations"
        return PublicMismatch(reason, remedy=CAUSES, party=accused)
    groups = found.groups
    alone = groups[-1][0] if len(groups) == 2 and len(groups[-1]) == 1 < len(groups[0]) else None
    error = PublicMismatch(_reason(found), remedy=_remedy(found), party=alone)
    entry = record.entry(found.position)
    if entry is None:  # this party has not come there
        error.op = next((operator_name(one.name) for one in found.told.values() if one), None)
        return error
    error.op = operator_name(entry.name)
    error.known_lines = (frame_at(entry.place) if entry.place else None, None)
    return error


def _reason(found: Difference) -> Phrase:
    names = {rank: told and operator_name(told.name) for rank, told in found.told.items()}
    if len(set(names.values())) > 1:
        held = (_parties(group) + ": " + _doing(names[group[0]]) for group in _by(names))
        what: Phrase = "the parties run different operations: " + joined(", ", held)
    else:
        what = "public operands of " + _doing(next(iter(names.values()))) + " differ: "
        what += _sides(found.groups) if found.details is None else _held(found.details)
    return what + (", or those of an operation before" if found.earlier else "")


def _held(details: Mapping[int, str]) -> Phrase:
    """What each party has, in words."""
    return joined("; ", (_parties(group) + ": " + details[group[0]] for group in _by(details)))


def _remedy(found: Difference) -> str:
    return CAUSES if found.details is None else FORMS


def _doing(name: str | None) -> Phrase:
    return "nothing more" if name is None else Operator(name)


def _by(names: Mapping[int, str | None] | Mapping[int, str]) -> list[list[int]]:
    """The ranks with the same name, in their order."""
    found: dict[str | None, list[int]] = {}
    for rank, name in sorted(names.items()):
        found.setdefault(name, []).append(rank)
    return list(found.values())


def _sides(groups: list[list[int]]) -> Phrase:
    if len(groups[0]) == 1:
        parties = sorted(rank for group in groups for rank in group)
        return _parties(parties) + f" have {len(groups)} different ones"
    *_, last = groups
    others = [rank for group in groups[:-1] for rank in group]
    return _parties(last) + " has others than " + _parties(others)


def _parties(ranks: list[int]) -> Phrase:
    """The parties in words, such as "party 0, party 1 and party 2"."""
    *first, last = map(Party, ranks)
    return joined(", ", first) + " and " + last if first else last


def operator_name(name: str) -> str:
    """Returns an operator's name as torch writes it, from the record of any party."""
    shown = _printable(name.partition(DETAIL)[0])
    if not shown.startswith("aten::"):
        return shown
    shown = shown.replace("::", ".", 1)
    return shown if shown.count(".") > 1 else f"{shown}.default"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_NAME])
