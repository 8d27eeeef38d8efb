"""`tacit dealer`: runs the dealer of a job, on a machine that belongs to no party."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError
from .errors import reported
from .options import Arguments, Debug, Job, Json, Key, Listen, Log, PartyFile, Resume
from .run import Order, take_part
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime.deploy.party_file import PartyFile as ReadFile


def dealer(
    job: Job,
    parties: PartyFile,
    arguments: Arguments = None,
    key: Key = None,
    listen: Listen = None,
    log: Log = None,
    resume: Resume = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the dealer of a job.

    It starts the same job with the same arguments and the same party file as the parties. It runs
    main(session, ...) in its role: it makes random numbers for the parties, and sees shapes, never
    a value. What the job reveals to the parties is NaN, 0 or False here, and what main returns is
    not shown. The dealer must not be run by a party, nor together with one.

    Examples:

        tacit dealer --parties parties.toml job.py

        tacit dealer --parties parties.toml --resume job.py -- 20 mnist
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from ..runtime.deploy.party_file import read_party_file

        file = read_party_file(parties)
        order = Order(job, arguments or [], _name(file), file, key, listen, log, resume)
        take_part(screen, known, order)


def _name(file: ReadFile) -> str:
    """Returns the name of the dealer in a party file."""
    config = file.config
    if file.dealer is None:
        raise ConfigError(
            "there is no dealer",
            limit=f"protocol={config.protocol!r} with dealer={config.dealer!r} needs none",
            remedy="start the parties, each with `tacit run`",
            subject=f"{file.path}",
        )
    return file.dealer.name
