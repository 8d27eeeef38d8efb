"""Errors of Tacit that are also what CrypTen raises there, so that its programs catch them."""

from ...errors import ConfigError, RevealForbidden


class RefusedAssertion(ConfigError, AssertionError):
    """A call that CrypTen refuses by an assertion."""


class RefusedSyntax(ConfigError, SyntaxError):
    """A call that CrypTen refuses by a SyntaxError."""


class SecretTruth(RevealForbidden, RuntimeError):
    """A tensor was taken for true or false. CrypTen raises a RuntimeError here."""
