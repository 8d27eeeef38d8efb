"""The security of a configuration in plain words, from the guarantees of its protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations

from ...config import FIRST_PARTY, Config
from ...crypto import public_key_fingerprint, valid_until
from ...registry import PROTOCOLS
from .enclave_security import PUBLIC, enclave_security, learned_by_parties


def security_summary(
    config: Config,
    names: Sequence[str],
    *,
    certificates: Mapping[str, bytes] | None = None,
    workers: Sequence[str] = (),
) -> dict[str, list[str]]:
    """Returns sentences by heading: collusion, what each party learns, channels, deviation.

    `names` are those of all members, a dealer or enclaves last. `certificates`, in PEM, are those
    on a network; None for parties on one machine. `workers` are the names of an enclave's.
    """
    warning = dealer_warning(config, names)
    if config.enclaves is not None:
        return enclave_security(config, names, workers) | {"channels": _channels(certificates)}
    return {
        **({"warning": [warning]} if warning else {}),
        "collusion": _collusion(config, names),
        "each party learns": _learned(config, names),
        "channels": _channels(certificates),
        "deviation": _deviation(config),
        "public": [PUBLIC],
    }


def dealer_warning(config: Config, names: Sequence[str]) -> str | None:
    """Returns what everybody must know if the first party runs the dealer; None if it does not."""
    if config.dealer != FIRST_PARTY:
        return None
    return (
        f"{names[0]} runs the dealer, too (dealer={FIRST_PARTY!r}), and can open every secret: use "
        "it for trials only, and let a machine that no party controls deal"
    )


def _collusion(config: Config, members: Sequence[str]) -> list[str]:
    guarantees = PROTOCOLS[config.protocol].guarantees
    names, dealers = _split(config, members)
    if not guarantees.private:
        return [f"protocol {config.protocol} hides nothing: every party is trusted with all data"]
    colluding = guarantees.colluding_of(len(names))
    pools = combinations(names, colluding + 1)
    return [
        f"up to {colluding} of {len(names)} parties may look at all that they receive, "
        "and see only random numbers",
        "these must not pool what they hold, or they know every secret: "
        + ", ".join(" with ".join(pool) for pool in pools),
        *(
            f"the dealer {dealer} is no party; with a single one of them it knows every secret, so "
            f"it must pool with none: {', '.join(f'{dealer} with {name}' for name in names)}"
            for dealer in dealers
        ),
    ]


def _split(config: Config, members: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Returns the names of the parties, and of the dealer if there is one."""
    parties = len(members) - config.helpers
    return members[:parties], members[parties:]


def _learned(config: Config, members: Sequence[str]) -> list[str]:
    names, dealers = _split(config, members)
    if not PROTOCOLS[config.protocol].guarantees.private:
        return [f"{name}: every value" for name in names]
    dealt = "the program and all shapes, and what the program reveals with to_dealer=True"
    told = [f"{dealer}, the dealer: {dealt}" for dealer in dealers]
    return told + learned_by_parties(config, names)


def _channels(certificates: Mapping[str, bytes] | None) -> list[str]:
    if certificates is None:
        return ["the parties are on one machine, whose administrator sees everything"]
    lines = [
        "TLS 1.3 only, certificates on both sides; whoever lacks the private key to a certificate "
        "in the party file is refused"
    ]
    return lines + [_pinned(name, pem) for name, pem in certificates.items()]


def _pinned(name: str, pem: bytes) -> str:
    expires = valid_until(pem)
    days = (expires - datetime.now(UTC)).days
    return (
        f"{name}: key {public_key_fingerprint(pem)[:16]}..., certificate valid until "
        f"{expires:%Y-%m-%d} ({days} days)"
    )


def _deviation(config: Config) -> list[str]:
    if PROTOCOLS[config.protocol].guarantees.detects:
        return ["a party that deviates from the protocol is caught, and nothing is opened"]
    return [
        "the parties are trusted to follow the program (semi-honest): one that deviates can make "
        "results wrong, or a permitted reveal show it something else, without being caught"
    ]
