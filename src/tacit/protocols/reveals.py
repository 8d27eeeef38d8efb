"""Who may learn secrets, and the record of everything that was revealed."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ..config import Config
from ..crypto import make_private_folder, open_private
from ..errors import (
    ConfigError,
    DealerName,
    EnclaveName,
    Party,
    Phrase,
    PrivacyBudgetExceeded,
    RevealForbidden,
    joined,
)
from ..registry import PROTOCOLS

PACKAGE = str(Path(__file__).parents[1]) + os.sep
CLIENT = "a client"
PROGRAM, GUARD, COIN = "program", "guard", "coin"  # what a reveal is for
ROUNDING = 1e-9  # of sums of epsilons: ten times 0.1 are within a budget of 1


@dataclass(frozen=True)
class PrivacySpent:
    """What a reveal costs of the privacy of each person: it is (epsilon, delta)-private.

    mechanism: where the noise comes from, and what bounds a person's part.
    """

    mechanism: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):  # nor is either NaN
            raise ConfigError(
                f"epsilon={self.epsilon!r}, delta={self.delta!r} of {self.mechanism}",
                limit="epsilon is 0 or more, delta from 0 to 1",
            )

    @property
    def counted(self) -> PrivacySpent:
        """The same for further tensors of one reveal, whose cost the first one carries."""
        return PrivacySpent(self.mechanism, 0.0, 0.0)


@dataclass(frozen=True)
class Revealed:
    """One reveal: what was opened, to whom, and the line of the program that asked for it.

    purpose: "program"; "guard" for the bits that a check of a session with guards opens; "coin" for
    bits that depend on nothing but random numbers, and on none that is kept.
    privacy: what it costs, if it is differentially private.
    """

    number: int
    operation: int
    shape: tuple[int, ...]
    dtype: str
    to: tuple[str, ...]
    where: str
    purpose: str = PROGRAM
    privacy: PrivacySpent | None = None


class RevealPolicy:
    """Admits and records every reveal before anything is sent.

    names: those of the parties, by rank. dealer: the name of a dealer that is no party.
    allowed: the ranks of the parties that may learn anything, by default all. file: where the
    record is written too, a line of JSON for each reveal.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        dealer: str = "dealer",
        allowed: Sequence[int] | None = None,
        file: Path | None = None,
    ) -> None:
        self._names, self._allowed, self._file = tuple(names), allowed, file
        self._dealer = dealer
        self._guards = threading.local()  # each lane of `session.map` has its own
        self._budget: PrivacySpent | None = None
        self.record: list[Revealed] = []

    @property
    def admits_all(self) -> bool:
        """Whether every party may learn what is revealed."""
        return self._allowed is None or set(self._allowed) >= set(range(len(self._names)))

    @property
    def admits_dealer(self) -> bool:
        """Whether a dealer that is no party may learn anything: not if parties are listed."""
        return self._allowed is None

    @property
    def recipients(self) -> tuple[int | None, ...]:
        """The `to` of reveals to everybody who may learn anything: None for all at once."""
        return (None,) if self.admits_all else tuple(self._allowed or ())

    @property
    def is_guarding(self) -> bool:
        """Whether a guard asks for the reveals, and not the program."""
        return getattr(self._guards, "is_asking", False)

    @property
    def _purpose(self) -> str:
        return GUARD if self.is_guarding else PROGRAM

    @property
    def privacy_spent(self) -> PrivacySpent:
        """The sum over all reveals that are differentially private."""
        costs = [one.privacy for one in self.record if one.privacy is not None]
        epsilon, delta = sum(one.epsilon for one in costs), sum(one.delta for one in costs)
        return PrivacySpent("all reveals together", epsilon, min(delta, 1.0))

    def limit_privacy(self, epsilon: float, delta: float) -> None:
        """From now on refuses reveals without differential privacy, and those beyond a budget."""
        if self._budget is not None:
            raise ConfigError(
                "the privacy budget is set already",
                limit=f"epsilon {self._budget.epsilon:g} and delta {self._budget.delta:g}",
            )
        self._budget = PrivacySpent("the budget", epsilon, delta)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Within, reveals of this thread are recorded as those of a guard."""
        self._guards.is_asking = True
        try:
            yield
        finally:
            self._guards.is_asking = False

    def admit(
        self,
        operation: int,
        shape: Sequence[int],
        dtype: str,
        to: int | None,
        *,
        to_dealer: bool = False,
        is_coin: bool = False,
        where: str | None = None,
        privacy: PrivacySpent | None = None,
    ) -> None:
        """Records a reveal to a party, or to all, or raises RevealForbidden.

        is_coin: it tells nobody anything about a secret, so everybody may learn it. where: the line
        of the program, by default the one that is running. privacy: what it costs, if it is
        differentially private.
        """
        if not is_coin:
            self.require(to, privacy)
            if to_dealer and not self.admits_dealer:
                raise self._forbidden("the dealer")
        names = self._names if to is None else (self._names[to],)
        told = names + ((self._dealer,) if to_dealer else ())
        purpose = COIN if is_coin else self._purpose
        self._add(operation, shape, dtype, told, where or call_site(), purpose, privacy)

    def would_admit(self, reveals: Iterable[Callable[[], None]]) -> bool:
        """Returns whether it would admit all of these, one after the other; it records nothing.

        They are calls of `admit`.
        """
        count, file = len(self.record), self._file
        self._file = None
        try:
            for admit in reveals:
                admit()
        except RevealForbidden:
            return False
        finally:
            del self.record[count:]
            self._file = file
        return True

    def require(self, to: int | None, privacy: PrivacySpent | None = None) -> None:
        """Raises RevealForbidden if a party, or one of all, may not learn this.

        It may not if it is no recipient of the policy, or if the privacy budget forbids it.
        """
        if not self.allows(to):
            raise self._forbidden("all parties" if to is None else Party(to))
        self._require_budget(privacy)

    def _require_budget(self, privacy: PrivacySpent | None) -> None:
        if self._budget is None or self.is_guarding:
            return
        if privacy is None:
            raise self._exceeded(
                f"a reveal without dp= at {call_site()}",
                limit="with a privacy budget every reveal has to say what it costs",
                remedy="give session.reveal a mechanism of tacit.privacy as dp=",
            )
        spent, most = self.privacy_spent, self._budget
        epsilon, delta = spent.epsilon + privacy.epsilon, spent.delta + privacy.delta
        if epsilon > most.epsilon * (1 + ROUNDING) or delta > most.delta * (1 + ROUNDING):
            raise self._exceeded(
                f"a reveal at {call_site()} would bring the privacy spent to epsilon "
                f"{epsilon:.4g} and delta {delta:.4g}",
                limit=f"the budget is epsilon {most.epsilon:g} and delta {most.delta:g}; nothing "
                "was opened",
                remedy="reveal less, with a smaller epsilon, or agree on a larger budget",
            )

    def _exceeded(self, reason: str, *, limit: str, remedy: str) -> PrivacyBudgetExceeded:
        error = PrivacyBudgetExceeded(reason, limit=limit, remedy=remedy)
        error.names = self._names
        return error

    def allows(self, to: int | None) -> bool:
        """Returns whether a party, or each of all, may learn anything."""
        ranks = range(len(self._names)) if to is None else (to,)
        return self._allowed is None or set(ranks) <= set(self._allowed)

    def admit_client(self, operation: int, shape: Sequence[int], dtype: str) -> None:
        """Records a reveal to a client outside; forbidden if `allowed` lists ranks."""
        if self._allowed is not None:
            raise self._forbidden(CLIENT)
        self._require_budget(None)
        self._add(operation, shape, dtype, (CLIENT,), call_site(), self._purpose)

    def _forbidden(self, whom: Phrase) -> RevealForbidden:
        allowed = joined(" and ", map(Party, self._allowed or ())) if self._allowed else "nobody"
        error = RevealForbidden(
            "reveal to " + whom + f" at {call_site()}",
            limit="the reveal policy lets "
            + allowed
            + " learn anything, and no one else; nothing was opened",
            remedy="reveal to those, or have all parties change reveals=",
        )
        error.names = self._names
        return error

    def _add(
        self,
        operation: int,
        shape: Sequence[int],
        dtype: str,
        to: tuple[str, ...],
        where: str,
        purpose: str,
        privacy: PrivacySpent | None = None,
    ) -> None:
        number = len(self.record) + 1
        entry = Revealed(number, operation, tuple(shape), dtype, to, where, purpose, privacy)
        if self._file is not None:
            self._write(self._file, entry)
        self.record.append(entry)

    def _write(self, file: Path, entry: Revealed) -> None:
        try:
            make_private_folder(file.parent)
            with open_private(file, "a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(entry)) + "\n")
        except OSError as error:
            raise ConfigError(
                f"the record of reveals {file} cannot be written ({error.strerror}), and nothing "
                "was opened",
                remedy="make room, or choose another folder",
            ) from error


def party_names(parties: int) -> tuple[str, ...]:
    """Returns the default names of the parties."""
    return tuple(f"party{rank}" for rank in range(parties))


def call_site() -> str:
    """Returns the innermost line outside this package, as "file:line in function"."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"


def helper_names(config: Config) -> tuple[str, ...]:
    """Returns the default names of the members of a session that are no parties."""
    name = EnclaveName if PROTOCOLS[config.protocol].helper == EnclaveName.kind else DealerName
    if config.helpers == 1:
        return (name(name.kind),)
    return tuple(name(f"{name.kind}{i}") for i in range(config.helpers))
