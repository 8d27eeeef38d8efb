"""`tacit.run`: all parties of a program on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...config import Config
from ...errors import ConfigError, PartyFailed
from ...protocols import check_parties, helper_names, party_names
from ...registry import TRANSPORTS
from ...transport import Limits, NetworkSetting
from ...transport import network as build_network
from ..placement import ON_CPU, DeviceSetting, PartyDevices, cipher_for, party_devices
from ..preprocessing.making import Preprocessing
from ..report.report_file import ReportFile, collected, facts, report_file
from .program import Program


def run(
    main: Callable[..., Any],
    *args: Any,
    parties: int = 3,
    protocol: str = "trio",
    transport: str = "threads",
    ring: int = 64,
    fraction_bits: int = 16,
    truncation: str = "exact",
    range_bits: int | None = None,
    debug: bool = False,
    guard: bool = False,
    device: DeviceSetting | None = None,
    placement: str = "gpu",
    memory_limit: int | None = None,
    network: NetworkSetting = None,
    deadline: float = 30.0,
    stripes: int | None = None,
    names: Sequence[str] | None = None,
    reveals: Sequence[int | str] | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    dealer: str | None = None,
    preprocessed: str | Path | Making | None = None,
    outsourcing: str | None = None,
    precision: str | None = None,
    enclaves: int | None = None,
    allow_simulated: bool = False,
    report: str | Path | ReportFile | None = None,
    **kwargs: Any,
) -> list[Any]:
    """What `main(session, *args, **kwargs)` returns at each party, by rank.

    `transport="threads"` runs the parties in this process, `"processes"` in one process each with
    TLS between them; then `main` must be importable and results are copied. A protocol with a
    dealer runs one more, which runs `main` too and whose result is dropped. Secret reals are below
    2^range_bits, by default 2^20; `tacit.calibrate` finds what a model needs. `debug=True`,
    for `protocol="cleartext"`, raises RangeError where a value leaves its range or a function's
    domain, with the names of operation and module. `guard=True` finds values beyond their range in
    a run on secrets, and names the module; see docs/concepts/fixed_point.md. `device` is "cpu" or
    "cuda", of all parties or of each, by default what TACIT_DEVICE in the environment says, or
    "cpu"; `placement="linear"` keeps everything but products off the GPU. `memory_limit` is in
    bytes: an operation that takes more beyond its operands and results is done in pieces; an
    enclave has no more of its tensors in plain inside, and seals the rest outside. `network`
    gives the links a latency and a bandwidth. No party waits longer than `deadline` seconds for a
    party that is dead or frozen, or if all wait for each other; one that computes is waited for.
    Between processes `stripes` is how many connections carry large messages from one party to
    another, by default as many as the cores can drive, 1 for none but that of all others. `names`
    are what the parties are called, by rank; `reveals` lists those that may learn anything at all.
    With `folder` each party writes to a folder of its name in it, the record of its reveals for
    one; `resume` lets a training go on from its checkpoints there. `dealer` is "own", or
    "insecure-first-party" to try that out: here all run on this machine anyway. `preprocessed` is a
    folder of `tacit.preprocess`: a stored run takes the place of the dealer, and is used up.
    `protocol="enclave"` adds an enclave (`enclaves=2`: two), which runs `main` on the numbers
    themselves, and workers on `device`, which multiply for it as `outsourcing` says; see
    docs/guides/enclaves.md. Between processes the parties ask an enclave for a quote before they
    send anything. Here it is simulated and proves nothing: `allow_simulated=True` accepts that.
    `report` is the .html file of a page that shows where time, rounds and bytes went, also if the
    run fails; a trace for Perfetto is written beside it. See docs/guides/report.md.
    If a party fails, all are ended, and PartyFailed says which failed first and why.
    """
    if transport not in TRANSPORTS:
        allowed = ", ".join(map(repr, TRANSPORTS))
        raise ConfigError(f"transport={transport!r}", limit=f"allowed are {allowed}")
    if type(parties) is not int or parties < 1:
        raise ConfigError(f"parties={parties!r}", limit="at least one party is needed")
    if not callable(main):
        raise ConfigError(
            f"main={main!r}", limit="a function main(session, *args, **kwargs) is needed"
        )
    devices = party_devices(device, placement, parties)
    called = _names(names, parties)
    config = Config(
        ring=ring,
        fraction_bits=fraction_bits,
        protocol=protocol,
        truncation=truncation,
        range_bits=range_bits,
        debug=debug,
        guard=guard,
        memory_limit=memory_limit,
        cipher=cipher_for([one.shares for one in devices], placement),
        reveals=None if reveals is None else _ranks(reveals, called),
        dealer=dealer,
        outsourcing=outsourcing,
        precision=precision,
        enclaves=enclaves,
    )
    check_parties(config, parties, local=TRANSPORTS[transport].one_process)
    helpers = config.helpers
    if clash := set(called) & set(helper_names(config)):
        raise ConfigError(f"names={names!r}", limit=f"{clash.pop()!r} is no party's name")
    called += helper_names(config)
    links = build_network(network)
    program = Program(main, args, kwargs, called, None if folder is None else Path(folder), resume)
    if isinstance(preprocessed, Making):
        if report is not None:
            raise ConfigError("report", limit="preprocessing writes none: it opens nothing")
        program = preprocessed.of(program)
    elif preprocessed is not None:
        program, helpers = replace(program, preprocessed=Path(preprocessed)), 0
    launch = TRANSPORTS[transport].load()
    if allow_simulated and config.enclaves and not TRANSPORTS[transport].one_process:
        launch = partial(launch, allow_simulated=True)
    about = facts(called, parties, protocol, transport=transport, network=links.described())
    try:
        with collected(report_file(report, _name_of(main)), about) as measured:
            results: list[Any] = launch(
                replace(program, measured=measured),
                devices=_all_devices(devices, config, helpers),
                config=config,
                limits=Limits(deadline=deadline, stripes=stripes),
                network=links,
            )
    except PartyFailed as error:  # where it was collected tells nobody anything
        raise error.with_traceback(None) from error.__cause__
    return results[:parties]


def _name_of(main: Callable[..., Any]) -> str:
    return getattr(main, "__qualname__", type(main).__qualname__)


def _all_devices(
    devices: Sequence[PartyDevices], config: Config, helpers: int
) -> list[PartyDevices]:
    """Returns the devices of all members, then of workers: with an enclave only they use GPUs."""
    if not config.workers:
        return [*devices, *([devices[0]] * helpers)]
    members = len(devices) + helpers
    return [ON_CPU] * members + [devices[0]] * config.workers


def preprocess(
    main: Callable[..., Any], *args: Any, folder: str | Path, runs: int = 1, **settings: Any
) -> list[str]:
    """Makes stored runs for `tacit.run(..., preprocessed=folder)`, and returns their names.

    Takes the program, the arguments and the settings of `tacit.run`, with a protocol that has a
    dealer. All members run the program once, without opening anything, and the dealer once more for
    each run. Each party gets a subfolder of its name in `folder`, which holds its files, their key,
    and the list of those it has used. See docs/concepts/preprocessing.md.
    """
    if type(runs) is not int or runs < 1:
        raise ConfigError(f"runs={runs!r}", limit="at least one run is needed")
    made: list[list[str]] = run(main, *args, preprocessed=Making(Path(folder), runs), **settings)
    return made[0]


@dataclass(frozen=True)
class Making:
    """Asks for stored runs to be made in a folder."""

    folder: Path
    runs: int

    def of(self, program: Program) -> Preprocessing:
        """Returns the program that makes stored runs of another."""
        fields = {name: getattr(program, name) for name in ("main", "args", "kwargs", "names")}
        return Preprocessing(**fields, preprocessed=self.folder, runs=self.runs)


def _names(names: Sequence[str] | None, parties: int) -> tuple[str, ...]:
    if names is None:
        return party_names(parties)
    if len(set(names)) != parties or len(names) != parties:
        raise ConfigError(
            f"names={names!r}", limit=f"a different name for each of {parties} parties"
        )
    return tuple(names)


def _ranks(reveals: Sequence[int | str], names: tuple[str, ...]) -> tuple[int, ...]:
    unknown = [party for party in reveals if isinstance(party, str) and party not in names]
    if unknown:
        raise ConfigError(
            f"reveals={reveals!r}", limit=f"the parties are {', '.join(map(repr, names))}"
        )
    return tuple(names.index(p) if isinstance(p, str) else p for p in reveals)
