"""Using a stored run: all parties choose the same one, open it, and mark it as used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

from ...errors import Party, Phrase, PreprocessingRejected, joined, told_to_peers
from ...transport import Mesh
from ...transport.consensus import all_gather, decode_all, quoted, synchronized
from ...transport.stored import DroppingChannel, ReadingChannel
from .store import Store, StoredFile, StoredRun, overwrite

MOST_TOLD = 1 << 10  # runs that a party tells the others of
MOST_OTHERS = 8  # reasons why runs do not fit
REMEDY = "all parties make stored runs together, and keep them in the folders of that time"


@dataclass(frozen=True)
class Offer:
    """What a party tells the others of its runs: the first that fit, and how many do not, and why.

    failure: why its folder cannot be used, if so.
    """

    runs: Sequence[str] = ()
    used: int = 0
    rejected: int = 0
    others: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""

    @classmethod
    def decode(cls, data: bytes) -> Offer:
        """Returns what a peer tells."""
        fields = json.loads(data)
        others = {str(name): int(count) for name, count in fields["others"].items()}
        runs = [str(run) for run in fields["runs"]]
        if len(runs) > MOST_TOLD or len(others) > MOST_OTHERS:
            raise ValueError("a party tells of more runs than it may")
        numbers = int(fields["used"]), int(fields["rejected"])
        return cls(runs, *numbers, others, str(fields["failure"]))

    def __str__(self) -> str:
        held = [quoted(run) for run in (*self.runs[:1], *self.runs[1:][-1:])]
        parts = [f"{len(self.runs)} ({' to '.join(held)})" if self.runs else "none"]
        parts += [f"{count} with another {quoted(name)}" for name, count in self.others.items()]
        parts += [f"{self.used} that were used before"] if self.used else []
        parts += [f"{self.rejected} that cannot be read"] if self.rejected else []
        return ", ".join(parts)


def take(mesh: Mesh, store: Store, about: Mapping[str, str]) -> StoredRun:
    """Returns the first stored run that all parties have for this program, marked as used.

    Raises PreprocessingRejected at every party, which names what each of them has, if there is
    none, and the party whose file is damaged. Two rounds of short messages.
    """
    fitting, offer, refusal = _offer(store, about)
    offers = decode_all(all_gather(mesh, json.dumps(asdict(offer)).encode()), Offer.decode)
    _check(mesh, [one.failure for one in offers], refusal)
    held = set.intersection(*(set(one.runs) for one in offers))
    common = [run for run in offer.runs if run in held]
    if not common:
        raise synchronized(mesh, _no_run(offers))
    [file] = [one for one in fitting if one.header.id == common[0]]
    run, refusal = _opened(store, file)
    told = told_to_peers(refusal) if refusal else ""
    with ExitStack() as closing:
        if run is not None:
            closing.enter_context(run)
        failures = decode_all(all_gather(mesh, told.encode()), bytes.decode)
        _check(mesh, failures, refusal)
        assert run is not None
        run.use()
        closing.pop_all()
    return run


def _offer(
    store: Store, about: Mapping[str, str]
) -> tuple[list[StoredFile], Offer, PreprocessingRejected | None]:
    try:
        found = store.inventory()
        for path in found.used:  # a crash left it, or it came back
            overwrite(path)
    except OSError as error:
        refusal = PreprocessingRejected(
            f"it cannot be read: {error.strerror}",
            subject=str(store.folder),
            told="its folder of stored runs cannot be read",
        )
        return [], Offer(failure=told_to_peers(refusal)), refusal
    fitting, others = found.fitting(about)
    runs = [file.header.id for file in fitting[:MOST_TOLD]]
    reasons = dict(others.most_common(MOST_OTHERS))
    return fitting, Offer(runs, len(found.used), len(found.rejected), reasons), None


def _opened(
    store: Store, file: StoredFile
) -> tuple[StoredRun | None, PreprocessingRejected | None]:
    try:
        return store.open(file), None
    except PreprocessingRejected as error:
        return None, error


def _check(mesh: Mesh, failures: Sequence[str], own: PreprocessingRejected | None) -> None:
    """Raises at every party if one of them cannot use its file."""
    for rank, failure in enumerate(failures):
        if failure:
            subject: Phrase = "the stored run of " + Party(rank)
            error = PreprocessingRejected(quoted(failure), subject=subject)
            if own is not None and rank == mesh.rank:
                error = own.about(subject)
            error.party = rank
            raise synchronized(mesh, error)


def _no_run(offers: Sequence[Offer]) -> PreprocessingRejected:
    held = joined("; ", (Party(rank) + f" has {offer}" for rank, offer in enumerate(offers)))
    return PreprocessingRejected(
        "no stored run for this program and these settings is left at all parties: " + held,
        remedy=REMEDY,
    )


def attach(mesh: Mesh, run: StoredRun) -> None:
    """Puts a stored run in the place of what the dealer sends."""
    dealer = run.header.dealer
    mesh.barrier = None  # a recorded graph would repeat what is used once
    if mesh.rank == dealer:
        for peer in range(mesh.parties):
            if peer != dealer:
                mesh.attach_ahead(DroppingChannel(peer))
        return
    channel = ReadingChannel(dealer, run.frames, rank=mesh.rank, record=lambda: mesh.record)
    if dealer < mesh.parties:
        mesh.attach_ahead(channel)
    else:
        mesh.attach(channel)
