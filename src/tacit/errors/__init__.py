"""Every error that Tacit raises.

Error
  ConfigError         ValueError           a bad or inconsistent setting
  UnsupportedError    NotImplementedError
    UnsupportedOp                          an operation without a rule for secrets
    UnsupportedModule                      a module that cannot be shared
  RangeError          OverflowError        a value outside the fixed-point range
  OutOfMemory         MemoryError          an operation that does not fit in a party's memory
  RevealForbidden                          an opening that nobody asked for
    PrivacyBudgetExceeded                  a reveal that costs more privacy than is left
  TransportError      OSError
    ConnectError                           a peer could not be reached
    ConnectTimeout                         ... within the deadline
    PeerClosed                             a peer ended, or ended the run
    PeerTimeout                            a peer is silent for longer than the deadline
    FrameRejected                          a peer's bytes are not a message
    HandshakeMismatch                      two parties disagree on a field before they start
    CertificateRejected                    a peer is not who it should be (not retried)
  ProtocolError
    ProtocolDesync                         two parties are at different operations
    PublicMismatch                         public operands or operations differ between parties
    CheatingDetected                       a check of a malicious-secure protocol failed
    ForkedUse                              a forked process uses the session of its parent
  WorkerFailed                             a worker of an enclave ended, is late, or sent nonsense
  CheckpointRejected                       a saved file missing, foreign, changed or unwritable
  PreprocessingRejected                    a stored run missing, used, changed or of other programs
  DataRejected        ValueError           a data file that cannot be read or is not as announced
  AttestationRejected                      an enclave that is not the expected one
  SealedChunkRejected                      sealed memory missing, changed, old or unwritable
  PartyFailed                              the program of one party raised

PrecisionWarning      UserWarning          a public number that fixed point rounds to zero

Every error carries fields: what happened (`reason`), to what (`subject`, `party`, `operation`,
`op`, `path`), where (`line`, `library_line`), the `limit`, the `remedy`, and the `cause`. `str`
renders them in one sentence. No field ever holds tensor values, shares, seeds or keys.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from .base import ALL_LINES, Error, keeps_all_lines, naming_parties
from .call_sites import Frame, frames_of, from_users_code, shortened
from .phrases import (
    ROUND_BITS,
    DealerName,
    EnclaveName,
    Operation,
    Operator,
    Party,
    Phrase,
    Text,
    joined,
    rendered,
)
from .rendering import FIELDS, described, lines_text, sentence, short_traceback, statement
from .reports import fields_of, lines_of, one_line, told_to_peers

__all__ = [
    "ALL_LINES",
    "FIELDS",
    "ROUND_BITS",
    "AttestationRejected",
    "CertificateRejected",
    "CheatingDetected",
    "CheckpointRejected",
    "ConfigError",
    "ConnectError",
    "ConnectTimeout",
    "DataRejected",
    "DealerName",
    "EnclaveName",
    "Error",
    "ForkedUse",
    "Frame",
    "FrameRejected",
    "HandshakeMismatch",
    "Operation",
    "Operator",
    "OutOfMemory",
    "Party",
    "PartyFailed",
    "PeerClosed",
    "PeerTimeout",
    "Phrase",
    "PrecisionWarning",
    "PreprocessingRejected",
    "PrivacyBudgetExceeded",
    "ProtocolDesync",
    "ProtocolError",
    "PublicMismatch",
    "RangeError",
    "RevealForbidden",
    "SealedChunkRejected",
    "Text",
    "TransportError",
    "UnsupportedError",
    "UnsupportedModule",
    "UnsupportedOp",
    "WorkerFailed",
    "described",
    "fields_of",
    "from_users_code",
    "joined",
    "keeps_all_lines",
    "lines_of",
    "lines_text",
    "naming_parties",
    "one_line",
    "rendered",
    "shortened",
    "statement",
    "told_to_peers",
]


class ConfigError(Error, ValueError):
    """A bad or inconsistent setting; names the field, the value and what is allowed."""


class UnsupportedError(Error, NotImplementedError):
    """Something that Tacit cannot do on secrets."""


class UnsupportedOp(UnsupportedError):
    """An operation without a rule; names the op, the argument kinds and the nearest way."""


class UnsupportedModule(UnsupportedError):
    """A module that cannot be shared; names its path in the model and the replacement."""


class RangeError(Error, OverflowError):
    """A value outside the fixed-point range; names the range and the setting that widens it.

    `number` is its class ("NaN", "infinite", "too large", "zero", "index") and `position` its place
    in the tensor, where they are known.
    """

    def __init__(
        self,
        reason: Phrase,
        *,
        number: str = "",
        position: tuple[int, ...] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(reason, **fields)
        self.number, self.position = number, position


class PrecisionWarning(UserWarning):
    """A public number that fixed point rounds to zero, or gradients that vanish; says what to do.

    Every text begins with "precision:", so that a filter of `warnings` can choose them.
    """

    def __init__(self, text: str) -> None:
        super().__init__(f"precision: {text}")


class OutOfMemory(Error, MemoryError):
    """An operation that does not fit in the memory of `party`; names the device and what helps."""


class RevealForbidden(Error):
    """An opening that nobody asked for, such as `bool()` of a secret."""


class PrivacyBudgetExceeded(RevealForbidden):
    """A reveal that would cost more privacy than the budget of the session; nothing was opened."""


class TransportError(Error, OSError):
    """A channel between two parties failed; `party` is the peer at fault."""


class ConnectError(TransportError):
    """A peer could not be reached, or a port could not be taken."""


class ConnectTimeout(ConnectError):
    """A peer could not be reached within the deadline."""


class PeerClosed(TransportError):
    """A peer ended, or ended the run; the message gives the reason that it sent, if any."""


class PeerTimeout(TransportError):
    """A peer sent nothing for longer than the deadline, or than one that is `alive` is given."""

    def __init__(self, reason: Phrase, *, alive: bool = True, **fields: Any) -> None:
        super().__init__(reason, **fields)
        self.alive = alive


class FrameRejected(TransportError):
    """A peer's bytes are not a message: wrong magic, over the cap, or inconsistent."""


class HandshakeMismatch(TransportError):
    """Two parties disagree before they start; `field` names what differs."""

    def __init__(self, reason: Phrase, *, field: str = "", **fields: Any) -> None:
        super().__init__(reason, **fields)
        self.field = field


class CertificateRejected(TransportError):
    """A peer's certificate is not the pinned one. Fatal: never retried."""


class ProtocolError(Error):
    """The parties do not run the same protocol."""


class ProtocolDesync(ProtocolError):
    """Two parties are at different operations, or expect different tensors."""


class PublicMismatch(ProtocolError):
    """The parties differ in something public: an operand that meets a secret, or the operations.

    Every party raises it, with `op` and `line` of the first difference in its own program. `party`
    is the one that differs from all others, if there is one. No value of the call was returned.
    """


class CheatingDetected(ProtocolError):
    """A consistency check failed: a party deviated from the protocol. Nothing was opened.

    `workers` are the numbers of an enclave's workers that did, if it was they.
    """

    workers: tuple[int, ...] = ()


class ForkedUse(ProtocolError):
    """A forked process, such as a worker of a DataLoader, uses secrets of its parent.

    torch makes the error of a worker once more in the parent, from the text of the worker's
    traceback. That text is dropped: the sentence says everything.
    """

    _REMEDY = "DataLoader(num_workers=0), or workers that load public indices for secret[indices]"

    def __init__(self, text: Phrase = "", **fields: Any) -> None:
        super().__init__(
            "a forked process, such as a worker of a DataLoader, uses secrets",
            limit=fields.pop("limit", "the process that connected the party computes with them"),
            remedy=fields.pop("remedy", self._REMEDY),
            **fields,
        )


class WorkerFailed(Error):
    """A worker of an enclave, or the other enclave, ended, is late, or sent what is no answer.

    `subject` names it. Workers are no parties: the error names none; `workers` has their numbers.
    """

    workers: tuple[int, ...] = ()


class CheckpointRejected(Error):
    """A checkpoint that is missing, damaged, foreign, not that of the others, or unwritable.

    `party` says whose file it is. Nothing was loaded, and none that was complete is lost.
    """


class PreprocessingRejected(Error):
    """A stored run that is missing, used, damaged, foreign, not that of the others, or unwritable.

    Also a program that cannot be preprocessed, or is not the one that was. `party` says whose it
    is. A run that has been refused before its use can still be used.
    """


class DataRejected(Error, ValueError):
    """A party's data file that cannot be read, or is not what a party expects; `party` owns it.

    Every party raises it, nothing was shared, and the session goes on.
    """


class AttestationRejected(Error):
    """An enclave that is not the expected one, or a quote that proves nothing about it.

    `field` names the first thing that differs: a file, a setting, a version, or a part of the
    quote. Nothing was sent to the enclave.
    """

    def __init__(self, reason: Phrase, *, field: str = "", **fields: Any) -> None:
        super().__init__(reason, **fields)
        self.field = field


class SealedChunkRejected(Error):
    """A sealed chunk that is missing, changed, old or of another place, or cannot be written.

    `subject` names the tensor and the chunk. Nothing of the chunk was used.
    """


class PartyFailed(Error):
    """The program of one party raised; `party` says which.

    The fields are those of the party's own error, and `kind` is the name of its class. `trace` is
    the text of its traceback, `frames` the lines of it. What is printed of an error of Tacit's has
    the user's lines alone; `python -X dev` shows all.
    """

    _is_ours = False  # whether the party's own error is one of Tacit's

    def __init__(
        self,
        reason: Phrase,
        *,
        kind: str = "",
        trace: str = "",
        frames: Sequence[Frame] = (),
        **fields: Any,
    ) -> None:
        super().__init__(reason, **fields)
        self._kind, self.trace, self._frames = kind, trace, tuple(frames)

    @classmethod
    def of(cls, error: BaseException, party: int) -> PartyFailed:
        """Returns the failure of a party whose program raised this error."""
        trace = "".join(traceback.format_exception(error))
        made = cls(str(error), party=party, kind=type(error).__name__, trace=trace)
        if isinstance(error, Error):
            made.__dict__.update(error.__dict__, party=party)
            made._is_ours = True
        made._frames = frames_of(error.__traceback__)
        made.known_lines = made.line, made.library_line
        return made

    @property
    def kind(self) -> str:
        """The name of the class of the party's own error."""
        return self._kind

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames that the party's own error has passed, outermost first."""
        return self._frames

    @property
    def headline(self) -> str:
        """The sentence without the traceback."""
        return sentence(self)

    def heading(self) -> tuple[Phrase, ...]:
        """Returns which party failed, and the class of its error."""
        failed = Party(self.party or 0) + " failed"
        return (failed, self.kind) if self.kind else (failed,)

    def tracebacks(self) -> Iterator[tuple[str, Sequence[Frame]]]:
        """Yields the caller's traceback, then that of the party."""
        yield from super().tracebacks()
        if self._frames:
            yield f"In {rendered(Party(self.party or 0), self.names)}:", self._frames

    def __str__(self) -> str:
        if not self.trace or self.__cause__ is not None:  # Python shows the traceback of a cause
            return self.headline
        who = rendered(Party(self.party or 0), self.names)
        if self._is_ours and not keeps_all_lines():
            lines = "\n".join(short_traceback(self._frames))
            return f"{self.headline}\n\nYour lines at {who}{ALL_LINES}:\n{lines}"
        return f"{self.headline}\n\nThe traceback of {who}:\n{self.trace}"
