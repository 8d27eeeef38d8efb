"""Errors of Tacit that are also what CrypTen raises there, so that its programs catch them."""

from ...errors import ConfigError


class RefusedAssertion(ConfigError, AssertionError):
    """A call that CrypTen refuses by an assertion."""
