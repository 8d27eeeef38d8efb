"""`tacit party check`: connects to all parties and measures the links between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .dealer_process import dealing_beside
from .errors import reported
from .options import Debug, Json, Key, Listen, PartyFile, PartyName, passphrase_of
from .report import size
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime.deploy.party_file import PartyFile as ReadFile
    from ..transport.probe import Link

# Seconds between two clocks that are worth a warning. From an hour on, a new certificate of the
# party ahead is not valid yet at the other.
MOST_CLOCK_DIFFERENCE = 60.0
EXPIRES_SOON = timedelta(days=30)


def check(
    party: PartyName,
    parties: PartyFile,
    key: Key = None,
    listen: Listen = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Connect to all parties and measure the links.

    All parties start it, in any order, and a dealer too; enclaves and workers take part in runs
    only. They wait for each other for up to connect_deadline of the party file. The exit code is 3
    if a party is missing, and 4 if a party has other settings or another version; the error names
    that party.

    Examples:

        tacit party check --party alice --parties parties.toml

        tacit party check --party alice --parties parties.toml --listen 0.0.0.0:7000 --json
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from .. import connect
        from ..runtime.deploy.party_file import read_party_file
        from ..transport.probe import probe

        file = read_party_file(parties).without_enclaves()
        known.names = file.names
        file.rank_of(party)
        own_key = key or file.key_file(party)
        secret = passphrase_of(own_key)
        dealer = ("--party", file.names[-1], "--parties", parties, "--key", own_key)
        command = ("party", "check", *dealer)
        waiting = f"waiting for the others, up to {file.limits.connect_deadline:g} s"
        screen.line(waiting)
        with dealing_beside(file, party, command, passphrase=secret):
            with screen.live(waiting, lambda: ""):
                session = connect(file, party=party, key=own_key, passphrase=secret, listen=listen)
            with session, screen.live("measuring", lambda: ""):
                links = {file.names[rank]: link for rank, link in probe(session.mesh).items()}
        _show(screen, file, links)


def _show(screen: Screen, file: ReadFile, links: Mapping[str, Link]) -> None:
    columns = ("party", "address", "latency", "bandwidth", "versions", "clock", "valid until")
    addresses = {entry.name: entry.address for entry in file.members}
    screen.table(columns, [_row(name, addresses[name], link) for name, link in links.items()])
    config = file.config
    screen.line(f"protocol {config.protocol}, ring of {config.ring} bits, the same at all parties")
    found = [*_clocks(links), *_expiries(file)]
    screen.section("problems", found or ["none: all parties are ready"])
    screen.document(
        {
            "protocol": config.protocol,
            "ring": config.ring,
            "links": {name: _entry(addresses[name], link) for name, link in links.items()},
            "problems": found,
        }
    )


def _row(name: str, address: str, link: Link) -> tuple[str, ...]:
    until = link.certificate_expires
    return (
        name,
        address,
        f"{link.latency_s * 1e3:.2f} ms",
        f"{size(link.bandwidth_bytes_per_s)}/s",
        ", ".join(f"{what} {version}" for what, version in link.versions.items()),
        f"{link.clock_difference_s:+.2f} s",
        "" if until is None else f"{until:%Y-%m-%d}",
    )


def _entry(address: str, link: Link) -> dict[str, Any]:
    return {
        "address": address,
        "latency_s": link.latency_s,
        "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
        "clock_difference_s": link.clock_difference_s,
        "versions": link.versions,
        "certificate_expires": link.certificate_expires,
    }


def _clocks(links: Mapping[str, Link]) -> Iterator[str]:
    for name, link in links.items():
        apart = link.clock_difference_s
        if abs(apart) > MOST_CLOCK_DIFFERENCE:
            side = "ahead of" if apart > 0 else "behind"
            yield (
                f"the clock of {name} is {abs(apart):.0f} s {side} this one: certificates may seem "
                "to be expired; let both follow a time server"
            )


def _expiries(file: ReadFile) -> Iterator[str]:
    from ..crypto import valid_until

    for name, certificate in file.certificates.items():
        until = valid_until(certificate)
        if until - datetime.now(UTC) < EXPIRES_SOON:
            yield (
                f"the certificate of {name} expires on {until:%Y-%m-%d}: it makes a new one "
                "with `tacit party init`, and all parties put its block into their party file"
            )
