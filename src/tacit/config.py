"""The settings that all parties must share; they are compared before a session opens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .errors import ConfigError
from .registry import PROTOCOLS

RINGS = (32, 64)
TRUNCATIONS = ("exact", "probabilistic")
# Numbers below 2^5 and their products must fit the ring. A smaller range can be asked for.
LEAST_RANGE = 5
LEAST_MEMORY = 1 << 20
CIPHERS = ("aes128-ctr", "chacha20")
VISIBLE_WEIGHTS = "one-worker-visible-weights"
# How many workers help an enclave, by the name of the setting.
OUTSOURCING = {
    "three-server": 3,
    "two-server": 2,
    "one-worker": 1,
    VISIBLE_WEIGHTS: 1,
    "none": 0,
}
PRECISIONS = ("fixed", "swalp", "goten")
OWN, FIRST_PARTY, NO_DEALER = DEALERS = ("own", "insecure-first-party", "none")


@dataclass(frozen=True, kw_only=True)
class Config:
    """How numbers are represented and which protocol computes on them.

    `protocol="none"` gives the parties channels and keys, and no operations on secrets.
    `truncation="probabilistic"` saves a round where a product is not followed by a comparison, but
    can fail: a division of an integer x is off by 2^(ring - shift) with probability |x| / 2^ring,
    about once in 10^7 for a product of magnitude 2^10 with 16 fraction bits in 64.
    `range_bits`: secret real numbers are below 2^range_bits in magnitude; None means 20, or what
    the ring allows. Fewer make comparisons cheaper; a number beyond them is misread.
    `debug`: a value outside the range, or outside the domain of a function, raises RangeError. This
    inspects all values, so it needs `protocol="cleartext"`.
    `guard`: the results of modules, and what is revealed, are compared with their range on secrets;
    a bit for each module is opened before a reveal, and a value out of range raises RangeError.
    `cipher` draws the masks: AES, or ChaCha20 if a party draws them on a GPU.
    `memory_limit`: the bytes that an operation may take at a party beyond its operands and results.
    Larger operations run in chunks: products at no cost, the others in more rounds. With
    `protocol="enclave"`: the bytes of secret tensors in plain inside an enclave; others are sealed.
    `reveals`: the ranks of the parties that may learn anything at all; None means every party.
    `dealer`: who deals where the protocol needs a dealer that is no party. "own", the default: a
    process or machine of its own. "insecure-first-party": the first party runs it, and can then
    open every secret. "none": nobody; the parties make what it would deal, which is slower.
    `outsourcing`: which workers multiply for `protocol="enclave"`: "three-server" by default. With
    "one-worker-visible-weights" the worker sees the parameters of modules as their owner shares
    them, and nothing else.
    `precision`: of what they multiply: "fixed", 22 bits; "swalp", 8 bits rounded at random; or, to
    be compared with, "goten": as "swalp", but sums wrap unnoticed at a modulus of 21 bits.
    `enclaves`: how many compute: 1, or 2, each of which has workers of its own.
    """

    ring: int = 64
    fraction_bits: int = 16
    protocol: str = "trio"
    truncation: str = "exact"
    range_bits: int | None = None
    debug: bool = False
    guard: bool = False
    cipher: str = "aes128-ctr"
    memory_limit: int | None = None
    reveals: tuple[int, ...] | None = None
    dealer: str | None = None
    outsourcing: str | None = None
    precision: str | None = None
    enclaves: int | None = None

    def __post_init__(self) -> None:
        if type(self.ring) is not int or self.ring not in RINGS:
            raise ConfigError(f"ring={self.ring!r}", limit=f"allowed are {_listed(RINGS)} bits")
        highest = (self.ring - 3 - LEAST_RANGE) // 2
        if type(self.fraction_bits) is not int or not 0 <= self.fraction_bits <= highest:
            raise ConfigError(
                f"fraction_bits={self.fraction_bits!r}",
                limit=f"a ring of {self.ring} bits allows 0 to {highest}, so that a product of "
                f"numbers below 2^{LEAST_RANGE} fits",
            )
        if not isinstance(self.protocol, str) or self.protocol not in PROTOCOLS:
            raise ConfigError(
                f"protocol={self.protocol!r}", limit=f"allowed are {_listed(PROTOCOLS)}"
            )
        if self.truncation not in TRUNCATIONS:
            raise ConfigError(
                f"truncation={self.truncation!r}", limit=f"allowed are {_listed(TRUNCATIONS)}"
            )
        if self.cipher not in CIPHERS:
            raise ConfigError(f"cipher={self.cipher!r}", limit=f"allowed are {_listed(CIPHERS)}")
        limit = self.memory_limit
        if limit is not None and (type(limit) is not int or limit < LEAST_MEMORY):
            raise ConfigError(
                f"memory_limit={limit!r}",
                limit=f"a number of bytes is needed, {LEAST_MEMORY} at least",
            )
        most = self.ring - 3 - 2 * self.fraction_bits
        bits = self.range_bits
        if bits is not None and (type(bits) is not int or not 1 <= bits <= most):
            raise ConfigError(
                f"range_bits={bits!r}",
                limit=f"a ring of {self.ring} bits with {self.fraction_bits} fraction bits allows "
                f"1 to {most}, so that a product fits",
            )
        self._check_reveals()
        self._check_dealer()
        self._check_enclave()
        if type(self.guard) is not bool:
            raise ConfigError(f"guard={self.guard!r}", limit="allowed are True and False")
        if self.guard and self.reveals == ():
            raise ConfigError(
                "guard=True with reveals=()",
                limit="a guard opens a bit for each module to the parties in reveals",
                remedy="let one party learn it, or leave guard out",
            )
        if self.debug and self.protocol != "cleartext":
            raise ConfigError(
                f"debug=True with protocol={self.protocol!r}",
                limit="it looks at every value, which only protocol='cleartext' may",
                remedy="run the same program with it, on data that you may see",
            )

    def _check_reveals(self) -> None:
        if self.reveals is None:
            return
        ranks = tuple(self.reveals)
        if len(set(ranks)) != len(ranks) or not all(type(r) is int and r >= 0 for r in ranks):
            raise ConfigError(
                f"reveals={self.reveals!r}",
                limit="allowed are different ranks of parties, or None for all",
            )
        object.__setattr__(self, "reveals", tuple(sorted(ranks)))

    def _check_dealer(self) -> None:
        if not PROTOCOLS[self.protocol].has_dealer:
            if self.dealer is not None:
                dealt = [info.name for info in PROTOCOLS.values() if info.has_dealer]
                raise ConfigError(
                    f"dealer={self.dealer!r} with protocol={self.protocol!r}",
                    limit="this protocol has no dealer beside its parties",
                    remedy=f"leave dealer out; {_listed(dealt)} have one",
                )
        elif self.dealer is None:
            object.__setattr__(self, "dealer", OWN)
        elif self.dealer not in DEALERS:
            raise ConfigError(f"dealer={self.dealer!r}", limit=f"allowed are {_listed(DEALERS)}")

    def _check_enclave(self) -> None:
        if PROTOCOLS[self.protocol].helper != "enclave":
            for name in ("outsourcing", "precision", "enclaves"):
                if getattr(self, name) is not None:
                    raise ConfigError(
                        f"{name}={getattr(self, name)!r} with protocol={self.protocol!r}",
                        limit="it is for protocol='enclave'",
                    )
            return
        allowed: dict[str, list[Any]] = {
            "outsourcing": [*OUTSOURCING],
            "precision": [*PRECISIONS],
            "enclaves": [1, 2],
        }
        for name, values in allowed.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, values[0])
            elif getattr(self, name) not in values:
                raise ConfigError(
                    f"{name}={getattr(self, name)!r}", limit=f"allowed are {_listed(values)}"
                )
        if self.enclaves == 2 and self.workers < 2:
            raise ConfigError(
                f"enclaves=2 with outsourcing={self.outsourcing!r}",
                limit="each of two enclaves has a worker of its own",
                remedy="use one enclave, or two or three workers",
            )

    @property
    def workers(self) -> int:
        """How many workers multiply for the enclaves."""
        return OUTSOURCING[self.outsourcing] if self.outsourcing else 0

    @cached_property
    def helpers(self) -> int:
        """How many members a session has beyond its parties."""
        if self.enclaves is not None:
            return self.enclaves
        return 0 if self.dealer == NO_DEALER else PROTOCOLS[self.protocol].helpers


def _listed(values: Iterable[object]) -> str:
    return ", ".join(repr(value) for value in values)
