"""Every error that Tacit raises.

Error
  ConfigError         ValueError           a bad or inconsistent setting
  UnsupportedError    NotImplementedError
    UnsupportedOp                          an operation without a rule for secrets
    UnsupportedModule                      a module that cannot be shared
  RangeError          OverflowError        a value outside the fixed-point range
  OutOfMemory         MemoryError          an operation that does not fit in a party's memory
  RevealForbidden                          an opening that nobody asked for
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
    CheatingDetected                       a check of a malicious-secure protocol failed
  CheckpointRejected                       a saved file missing, foreign, changed or unwritable
  DataRejected        ValueError           a data file that cannot be read or is not as announced
  PartyFailed                              the program of one party raised

A message says what happened, to what (operation, party, address, module path), the limit, and what
to do. It never contains tensor values, shares, seeds or keys.
"""

from __future__ import annotations


class Error(Exception):
    """The root. `party`, `operation` and `path`, in the model, say where, when they are known."""

    path: str | None = None

    def __init__(
        self, message: str, *, party: int | None = None, operation: int | None = None
    ) -> None:
        super().__init__(message)
        self.party = party
        self.operation = operation


class ConfigError(Error, ValueError):
    """A bad or inconsistent setting; names the field, the value and what is allowed."""


class UnsupportedError(Error, NotImplementedError):
    """Something that Tacit cannot do on secrets."""


class UnsupportedOp(UnsupportedError):
    """An operation without a rule; names the op, the argument kinds and the nearest way."""


class UnsupportedModule(UnsupportedError):
    """A module that cannot be shared; names its path in the model and the replacement."""


class RangeError(Error, OverflowError):
    """A value outside the fixed-point range; names the range and the setting that widens it."""


class OutOfMemory(Error, MemoryError):
    """An operation that does not fit in the memory of `party`; names the device and what helps."""


class RevealForbidden(Error):
    """An opening that nobody asked for, such as `bool()` of a secret."""


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

    def __init__(
        self,
        message: str,
        *,
        alive: bool = True,
        party: int | None = None,
        operation: int | None = None,
    ) -> None:
        super().__init__(message, party=party, operation=operation)
        self.alive = alive


class FrameRejected(TransportError):
    """A peer's bytes are not a message: wrong magic, over the cap, or inconsistent."""


class HandshakeMismatch(TransportError):
    """Two parties disagree before they start; `field` names what differs."""

    def __init__(
        self,
        message: str,
        *,
        field: str,
        party: int | None = None,
        operation: int | None = None,
    ) -> None:
        super().__init__(message, party=party, operation=operation)
        self.field = field


class CertificateRejected(TransportError):
    """A peer's certificate is not the pinned one. Fatal: never retried."""


class ProtocolError(Error):
    """The parties do not run the same protocol."""


class ProtocolDesync(ProtocolError):
    """Two parties are at different operations, or expect different tensors."""


class CheatingDetected(ProtocolError):
    """A consistency check failed: a party deviated from the protocol. Nothing was opened."""


class CheckpointRejected(Error):
    """A checkpoint that is missing, damaged, foreign, not that of the others, or unwritable.

    `party` says whose file it is. Nothing was loaded, and none that was complete is lost.
    """


class DataRejected(Error, ValueError):
    """A party's data file that cannot be read, or is not what a party expects; `party` owns it.

    Every party raises it, nothing was shared, and the session goes on.
    """


class PartyFailed(Error):
    """The program of one party raised; `party` says which, the message holds its traceback."""
