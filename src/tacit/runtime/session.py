"""One party's side of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..config import Config
from ..crypto import KeyRing
from ..errors import ConfigError, Error, naming_parties
from ..fixedpoint import Numbers, PlainNumbers
from ..nn import reveal, share
from ..nn.encrypted_file import Key
from ..privacy import Mechanism
from ..protocols import Enclave, PrivacySpent, Protocol, Revealed, out_of_memory
from ..protocols.loops import Item
from ..protocols.plain_memory import MemoryCounters
from ..tables import Csv, Kind, Missing
from ..transport import Mesh, Stats
from .files import LIMIT, Dtypes, Shapes, expectation, load, reading_options
from .joining import Joined, Size, intersect, join
from .private_lookups import PrivateLookups
from .progress import Progress, RunningLoops, length_of
from .random_secrets import RandomSecrets
from .replay.repeated import Repeated
from .throughput.mapped import mapped
from .train.training import Schedule, Training


@dataclass(frozen=True, kw_only=True)
class Session:
    """What `main` gets at each party: who it is, its channels to the others, and its keys.

    names: those of all parties, by rank, and of a dealer; wherever a party is meant, its rank or
    its name will do.
    folder: where this party writes, if anywhere. resume: whether trainings resume from their
    checkpoints. repeated_functions: if a list, `repeated` adds to it what it returns. loops: those
    of the program whose progress is known.
    As a context manager it closes at the end, and ends the run of all if it raises.
    """

    mesh: Mesh = field(repr=False)
    keys: KeyRing = field(repr=False)
    config: Config
    operations: Protocol | None = field(repr=False)
    names: tuple[str, ...]
    folder: Path | None = None
    resume: bool = False
    repeated_functions: list[Repeated] | None = field(default=None, repr=False)
    ending: ExitStack = field(default_factory=ExitStack, repr=False)
    loops: RunningLoops = field(default_factory=RunningLoops, repr=False)

    def __post_init__(self) -> None:
        if self.operations is not None:
            self.operations.context.loops = self.loops

    @property
    def name(self) -> str:
        """The name of this party."""
        return self.names[self.rank]

    def rank_of(self, party: int | str, field: str = "party") -> int:
        """Returns the rank of a party given by rank or name; errors call the argument `field`."""
        names = self.names[: self.parties]
        if isinstance(party, str) and party in names:
            return names.index(party)
        if type(party) is int and party in range(self.parties):
            return party
        raise ConfigError(
            f"{field}={party!r}",
            limit=f"allowed are {', '.join(map(repr, names))} and their ranks, 0 "
            f"to {self.parties - 1}",
        )

    @property
    def rank(self) -> int:
        """The rank of this party."""
        return self.mesh.rank

    @property
    def parties(self) -> int:
        """The number of parties; their ranks come first."""
        return self.mesh.parties - self.config.helpers

    @property
    def is_enclave(self) -> bool:
        """Whether this is no party but the enclave that computes for them."""
        return isinstance(self.operations, Enclave) and self.operations.is_enclave

    @property
    def is_dealer(self) -> bool:
        """Whether this is no party but the dealer of them: it runs the program and learns nothing.

        What is revealed to all parties is NaN, 0 or False here.
        """
        return self.rank >= self.parties and not self.is_enclave

    @property
    def protocol(self) -> Protocol:
        """The protocol: what can be computed on shares."""
        if self.operations is None:
            raise ConfigError(
                'this session has protocol="none", channels and keys only',
                remedy="choose a protocol",
            )
        return self.operations

    @cached_property
    def numbers(self) -> Numbers:
        """The arithmetic of secret tensors."""
        config = self.config
        make = PlainNumbers if isinstance(self.protocol, Enclave) else Numbers
        return make(
            self.protocol,
            fraction_bits=config.fraction_bits,
            range_bits=config.range_bits,
            debug=config.debug,
            guard=config.guard,
        )

    @cached_property
    def random(self) -> RandomSecrets:
        """Random numbers that no party knows; see docs/guides/random_numbers.md."""
        return RandomSecrets(self.numbers)

    def share(
        self,
        value: Any,
        owner: int | str,
        shape: Sequence[int] | None = None,
        *,
        dtype: torch.dtype | None = None,
        public: Collection[str] = (),
    ) -> Any:
        """Returns the owner's tensor or module, or a list, tuple or dict of them, as secrets.

        A numpy array, a frame of numbers (pandas, polars), a list of numbers or a number is shared
        as a tensor; `load` takes other frames. The other parties give a tensor of the same
        shape and dtype, whose values are ignored; or, for a single tensor, None, its shape and its
        dtype, by default float32. A module keeps its class and code; its parameters and buffers
        become secret, in place. Integer and bool buffers that are the same at all parties stay
        public; `public` names others whose values the owner reveals to all.
        """
        rank = self.rank_of(owner, "owner")
        try:
            return share(self.numbers, value, rank, shape, dtype=dtype, public=public)
        except (RuntimeError, MemoryError) as error:
            if exhausted := out_of_memory(error, self.protocol.context, "in share"):
                raise exhausted from error
            raise

    def private_lookups(self, table: Tensor, owner: int | str) -> PrivateLookups:
        """Returns what adds up rows of a secret table at places that only `owner` knows.

        lookups.sums(index) is `nn.functional.embedding_bag(index, table, mode="sum")`. The first
        call sends the table once; after that a call costs about what it looks up, however long
        the table is. Later changes of the table are not seen.
        """
        return PrivateLookups(self.numbers, table, self.rank_of(owner, "owner"))

    def load(
        self,
        source: Any,
        owner: int | str,
        *,
        shape: Shapes = None,
        dtype: Dtypes = None,
        columns: Sequence[str | int] | Mapping[str, Kind] | None = None,
        without: Sequence[str | int] = (),
        missing: Missing = "error",
        header: bool | None = None,
        csv: Csv | None = None,
        size: tuple[int, int] | None = None,
        limit: int = LIMIT,
    ) -> Any:
        """Returns the owner's data as secrets: a file, given by its path, or what is in memory.

        No other party needs it; they give None. A tensor from .npy, .idx and -ubyte, also with .gz,
        from a tensor, a numpy array, a list or a number; a dict of them from .npz, .safetensors and
        a dict; from .csv and .tsv, also with .gz, .parquet and frames of pandas or polars a dict by
        column, or one matrix of `columns`; `images, labels` from a folder of pictures with a
        subfolder for each class. `shape` (with None for any size) and `dtype`, of all tensors or in
        a dict by name, are what this party expects. `columns` as a dict declares a kind of
        `tacit.tables` for each, the same at all parties. `without`: columns that are left out.
        `missing`: what becomes of empty cells if nothing is declared. `header`: whether a .csv
        begins with names. `csv`: how it is written. `size`: pictures become that high and wide.
        `limit`: bytes, 8 for each element. Names, shapes and dtypes become public. What is wrong
        with the data, or not as any party expects, is a DataRejected at every party.
        """
        rank = self.rank_of(owner, "owner")
        expected = expectation(shape, dtype, limit)
        options = reading_options(
            limit,
            columns=columns,
            without=without,
            missing=missing,
            header=header,
            csv=csv,
            size=size,
        )
        with naming_parties(self.names):
            return load(self.numbers, source, rank, expected, options)

    def join(
        self,
        left: Any,
        right: Any,
        on: str | Sequence[str],
        *,
        owners: tuple[int | str, int | str] = (0, 1),
        size: Size = None,
        columns: Sequence[str] | Mapping[str, Kind] | None = None,
        missing: Missing = "error",
        csv: Csv | None = None,
    ) -> Joined:
        """Returns the rows of two owners' tables that have the same id, as secrets, side by side.

        left, right: a frame of pandas or polars, the path of a .csv, .tsv or .parquet, or a dict of
        columns, at the owner; anything elsewhere. on: the columns of ids, texts or integers; an id
        comes once in a table. All other columns, or those of `columns`, are numbers, or of the
        kinds that all parties declare there; no name is in both tables. Nobody learns which rows
        match, or how many. By default the result has rows that match nothing, whose mark `matched`
        is 0: about 1.35 times as many rows as the shorter table. `size` moves the matching rows
        together: a number is as many rows as there are at most, and an error, the one bit that it
        tells, if more match; "reveal" tells all parties how many match. `missing`, `csv`: as for
        `load`. Numbers of rows and names of columns become public. See docs/guides/joining.md.
        """
        ranks = self.rank_of(owners[0], "owners"), self.rank_of(owners[1], "owners")
        options = reading_options(LIMIT, columns=columns, missing=missing, csv=csv)
        with naming_parties(self.names):
            return join(self.numbers, (left, right), ranks, on, size, options)

    def intersect(
        self,
        left: Any,
        right: Any,
        on: str | Sequence[str],
        *,
        to: int | str,
        owners: tuple[int | str, int | str] = (0, 1),
        csv: Csv | None = None,
    ) -> Tensor | None:
        """Returns, at the owner `to`, a bool for each row of its table: is its id in the other?

        None elsewhere. Tables are given as for `join`; only the columns `on` of them are used. The
        other owner learns nothing but the number of rows, and `to` nothing else of the other table.
        """
        ranks = self.rank_of(owners[0], "owners"), self.rank_of(owners[1], "owners")
        options = reading_options(LIMIT, csv=csv)
        with naming_parties(self.names):
            receiver = self.rank_of(to, "to")
            return intersect(self.numbers, (left, right), ranks, on, receiver, options)

    def reveal(
        self,
        secret: Any,
        to: int | str | None = None,
        *,
        to_dealer: bool = False,
        dp: Mechanism | PrivacySpent | None = None,
    ) -> Any:
        """Returns the plain tensor or module at every party, or at party `to` and None elsewhere.

        A dealer that is no party gets NaN, 0 or False for what all parties get; `to_dealer` shows
        it the values, too: for a program that decides or computes with them.
        dp: a mechanism of `tacit.privacy` that adds noise before anything is opened, or what a
        training with noise has cost; the record of reveals keeps epsilon and delta.
        Raises RevealForbidden at every party, before anything is sent, if the policy forbids it, or
        if it would cost more than `limit_privacy` allows.
        """
        rank = None if to is None else self.rank_of(to, "to")
        try:
            if isinstance(dp, Mechanism):
                spent = dp.cost(secret)
                self.protocol.context.reveal_policy.require(rank, spent)  # before noise is drawn
                secret, dp = dp.noisy(secret), spent
            return reveal(self.numbers, secret, rank, to_dealer=to_dealer, privacy=dp)
        except (RuntimeError, MemoryError) as error:
            if exhausted := out_of_memory(error, self.protocol.context, "in reveal"):
                raise exhausted from error
            raise

    def limit_privacy(self, epsilon: float, delta: float = 0.0) -> None:
        """Sets what the reveals of this session may cost each person in all, by sums.

        From now on a reveal has to say its cost with `dp=`, and one that would bring the sum above
        the budget is a PrivacyBudgetExceeded at every party. Bits of guards and coins are free.
        """
        context = self.protocol.context
        context.record.absorb("limit_privacy", (epsilon, delta))
        context.reveal_policy.limit_privacy(epsilon, delta)

    @property
    def privacy_spent(self) -> PrivacySpent:
        """What the reveals of this session with `dp=` have cost each person so far, by sums."""
        return self.protocol.context.reveal_policy.privacy_spent

    def check(self) -> None:
        """Raises RangeError, at every party, if a guarded value has left its range so far.

        Every reveal does this too. Without `guard=True` it does nothing.
        """
        self.numbers.check()

    def verify(self) -> None:
        """Raises CheatingDetected, at every honest party, if a party has deviated so far.

        Every reveal, every checkpoint and the end of a run do this too. A protocol that cannot tell
        does nothing, and neither does a session that has ended: nothing can be opened any more.
        """
        if self.operations is not None and self.mesh.is_open:
            self.operations.verify()

    def precompute(self, calls: int) -> None:
        """Lets an enclave compute ahead what its products with visible weights need.

        For each such product that was computed so far, it does the part that depends on no data for
        the next `calls` of them: run the model once, and then this while no input is there. Without
        `outsourcing="one-worker-visible-weights"` it does nothing.
        """
        if type(calls) is not int or calls < 0:
            raise ConfigError(f"calls={calls!r}", limit="a number of calls is needed, 0 or more")
        if isinstance(self.operations, Enclave):
            self.operations.precompute(calls)

    def training(
        self,
        module: nn.Module,
        optimizer: Optimizer | None = None,
        *,
        folder: str | Path | None = None,
        every: int | None = None,
        minutes: float | None = None,
        keep: int = 2,
        key: Key | None = None,
        extra: Any = None,
    ) -> Training:
        """Returns a training with secret checkpoints; it resumes after a crash if `resume` is set.

        folder: in it each party has one of its name; by default the session's. every, minutes: when
        to save; keep: how many stay. key: 32 bytes or a passphrase; by default one in the folder.
        extra: public state to save. The state of torch's random numbers is saved too. 2 rounds.
        """
        schedule = Schedule(every, minutes, keep)
        return Training(
            self,
            module,
            optimizer,
            folder=folder,
            schedule=schedule,
            key=key,
            extra=extra,
        )

    def repeated(self, function: Callable[..., Any]) -> Repeated:
        """Returns the function, made faster for many calls with arguments of the same forms.

        The third call is recorded, and later calls replay its work without running the function's
        code: on CPUs at each party, and for parties that share a GPU all at once. It may read and
        write secrets (a whole training step). Public values keep what they were when recorded,
        except arguments, variables that the function names, modes of its modules, and settings and
        counts of its optimizers. It may reveal, and share plain arguments. A function that reads
        what it reveals as a number, among others, is not recorded and runs normally; the logger
        `tacit` says why, and so does `summary()` of what this returns.
        """
        made = Repeated(self, function)
        if self.repeated_functions is not None:
            self.repeated_functions.append(made)
        return made

    def map(
        self,
        function: Callable[..., Any],
        *batches: Iterable[Any],
        in_flight: int = 3,
        progress: bool = False,
    ) -> Iterator[Any]:
        """Returns an iterator over function(batch) for each batch, in order, as Python's `map`.

        Up to `in_flight` calls run side by side: while one waits for messages, another computes,
        and with `trio` the roles turn, so that every party deals in a third of the calls. With
        several iterables the function gets one item of each. They are read as calls begin, never
        more than `in_flight` items ahead of the results. `session.map(model, x.split(32))` is for
        secrets that are one tensor. Calls must not depend on each other: one that writes to a
        secret from outside, such as a step of training, raises UnsupportedError, and so does a
        result that requires a gradient. If a call raises, all end, and the iterator raises the
        error at once. Memory grows with `in_flight`, which is the same at all parties.
        progress: party 0 shows how many items (sizes of first dimensions) are done a second, and
        about how long the rest takes.
        """
        return mapped(self, function, batches, in_flight, progress)

    def progress(
        self, items: Iterable[Item], *, total: int | None = None, name: str = "steps"
    ) -> Iterator[Item]:
        """Yields the items, and shows how many are done and about how long the rest takes.

        `for batch in session.progress(batches)`. `tacit run` and `tacit local` show it at the end
        of their line; else party 0 prints it to stderr. total: how many there are, if they have no
        length. No message is sent.
        """
        total = length_of(items) if total is None else total
        return self.loops.followed(items, Progress(name, total, prints=self.prints_progress))

    @property
    def prints_progress(self) -> bool:
        """Whether this party prints the progress that it is asked for; a command line shows it."""
        return self.rank == 0 and not self.loops.is_shown

    def gather_objects(self, value: Any) -> list[Any]:
        """Returns every party's object, by rank, where all parties are threads that share a GPU."""
        assert self.mesh.barrier is not None
        return self.mesh.barrier.all_gather(self.rank, value, self.mesh.require_running)

    @property
    def reveals(self) -> list[Revealed]:
        """Everything that was revealed so far, and to whom."""
        return [] if self.operations is None else self.operations.context.reveal_policy.record

    @property
    def device(self) -> torch.device:
        """The device of this party's shares; a secret tensor's `device` is always `cpu`."""
        return self.mesh.device

    @property
    def stats(self) -> Stats:
        """Bytes, messages and rounds so far."""
        return self.mesh.stats

    @property
    def sealed_memory(self) -> MemoryCounters | None:
        """What this enclave's memory has sealed so far; None at a party, or without a limit."""
        protocol = self.operations
        return protocol.memory.counters() if isinstance(protocol, Enclave) else None

    def close(self) -> None:
        """Waits until everything is sent, closes the channels, and releases all resources.

        What has not been verified is verified before.
        """
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Error):
            error.names = self.names
        with self.ending:
            if error is None:
                try:
                    self.verify()
                except BaseException as found:
                    self.mesh.abort(found)
                    raise
            self.mesh.__exit__(kind, error, traceback)
