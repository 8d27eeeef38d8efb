"""A training that can stop at any party, at any time, and resume."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from logging import getLogger
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ...errors import CheckpointRejected, ConfigError, Party, joined
from ...nn import Checkpoint, load, save
from ...nn.checkpoint import state_to_save
from ...nn.encrypted_file import Key
from ...protocols.blind import refuse_saving
from ...transport.consensus import agree, broadcast_from, synchronized
from ..progress import Progress
from .checkpoints import CheckpointFolder, StoredCheckpoint
from .resume import Inventory, common_checkpoints, exchange_inventories
from .scalars import FIRST, Scalars

if TYPE_CHECKING:
    from ..session import Session

LOG = getLogger("tacit")


@dataclass(frozen=True)
class Schedule:
    """When to save, and how many checkpoints to keep."""

    every: int | None = None
    minutes: float | None = None
    keep: int = 2

    def __post_init__(self) -> None:
        if self.every is not None and (type(self.every) is not int or self.every < 1):
            raise ConfigError(
                f"every={self.every!r}", limit="a number of steps, 1 or more", subject="training"
            )
        if self.minutes is not None and not self.minutes > 0:
            raise ConfigError(f"minutes={self.minutes!r}", limit="more than 0", subject="training")
        if type(self.keep) is not int or self.keep < 1:
            raise ConfigError(
                f"keep={self.keep!r}", limit="1 or more checkpoints", subject="training"
            )


class Training:
    """Counts steps, saves a secret module and its optimizer regularly, and logs public numbers.

    step: the number of completed steps. extra: public state to save too, anything JSON can hold.
    Resuming restores torch's public random numbers too.
    """

    def __init__(
        self,
        session: Session,
        module: nn.Module,
        optimizer: Optimizer | None = None,
        *,
        folder: str | Path | None = None,
        schedule: Schedule,
        key: Key | None = None,
        extra: Any = None,
    ) -> None:
        refuse_saving(session.protocol.context)
        self._session, self._module, self._optimizer = session, module, optimizer
        self._schedule = schedule
        self.step, self.extra = 0, {} if extra is None else extra
        own = _own_folder(session, folder)
        self._scalars = Scalars(own, session.rank, mute=session.is_enclave)
        self._checkpoints = CheckpointFolder(own, session.numbers)
        self._lineage: list[Path] = []  # folders of checkpoints of this training, oldest first
        self._begun = False
        self._saved_at = monotonic()
        settings = asdict(schedule) | {"resume": session.resume}
        agree(session.mesh, {name: repr(x) for name, x in settings.items()}, topic="training")
        self._inventories = self._exchange_inventories(key)
        self._seed = int(torch.randint(1 << 62, ()))  # of the batches; public, as torch draws it
        if session.resume:
            self.resume()

    def _exchange_inventories(self, key: Key | None) -> list[Inventory]:
        usable, rejected = list[StoredCheckpoint](), list[CheckpointRejected]()
        failure: OSError | CheckpointRejected | None = None
        try:
            usable, rejected = self._checkpoints.scan()
            is_new = not usable and not rejected
            if key is None and not self._session.is_enclave:
                key = self._checkpoints.key(create=is_new)
            self._key: Key = b"" if key is None else key  # an enclave's is made by the parties
        except (OSError, CheckpointRejected) as error:
            failure = error
        self._folders = {one.id: one.folder for one in usable}
        steps = {one.id: one.step for one in usable}
        place = self._checkpoints.folder
        return exchange_inventories(self._session.numbers, steps, rejected, failure, place)

    def steps(self, total: int) -> Iterator[int]:
        """Yields the numbers of the remaining steps, up to total - 1.

        Saves after every `every` steps, when `minutes` have passed since the last time, and at the
        end. The clock is that of party 0, which tells the others after each step.
        """
        self._begin()
        progress = Progress("steps", total, done=self.step)
        try:
            with self._session.loops.added(progress):
                while self.step < total:
                    yield self.step
                    self.step += 1
                    if self.step == total or self._due():
                        self.save()
                    progress.add()
        finally:
            self._scalars.close()

    def batch(self, length: int, size: int) -> Tensor:
        """Returns the row indices of this step's batch; the number of rows is public.

        Each epoch shuffles the rows, in the same order at all parties, and drops a last batch that
        is incomplete. Resuming continues within the epoch.
        """
        if not 0 < size <= length:
            raise ConfigError(
                f"size={size!r}", limit=f"from 1 to the number of rows, {length}", subject="batch"
            )
        epoch, position = divmod(self.step, length // size)
        own = sha256(f"batches|{self._seed}|{epoch}".encode()).digest()
        shuffle = torch.Generator().manual_seed(int.from_bytes(own[:8], "little") >> 1)
        return torch.randperm(length, generator=shuffle)[position * size : (position + 1) * size]

    def log(self, **values: float | Tensor | None) -> None:
        """Writes public numbers of this step to scalars.csv, and to TensorBoard if installed.

        Values that are None, such as the result of a reveal to another party, are left out.
        """
        reserved = [name for name in FIRST if name in values]
        if reserved:
            raise ConfigError(
                f"{reserved[0]} is a column of its own", remedy="choose another name", subject="log"
            )
        self._begin()
        self._scalars.add(self.step, values)

    def save(self) -> Checkpoint:
        """Saves now, at all parties together; deletes the oldest checkpoint beyond `keep`."""
        self._begin()
        folder = self._checkpoints.new_folder(self.step)
        state = b64encode(torch.get_rng_state().numpy().tobytes()).decode()
        made = save(
            self._session,
            folder,
            self._module,
            self._optimizer,
            key=self._key,
            step=self.step,
            extra={"extra": self.extra, "seed": self._seed, "random state": state},
        )
        self._saved_at = monotonic()
        self._lineage = [*self._lineage, folder][-self._schedule.keep :]
        self._checkpoints.keep_only(self._lineage)
        return made

    def resume(self) -> int:
        """Loads the newest checkpoint that all parties have; returns the number of completed steps.

        All parties skip one that is damaged at any party, with a warning. Returns 0, and loads
        nothing, if no party has any; raises CheckpointRejected if they have none in common.
        """
        if self._begun:
            raise ConfigError(
                "the training has begun", remedy="resume before its first step", subject="resume"
            )
        names = self._session.names
        for rank, one in enumerate(self._inventories):
            for text in one.refused:
                whose = Party(rank).render(names)
                LOG.warning("resume: a checkpoint of %s cannot be used: %s", whose, text)
        if not any(one.have or one.refused for one in self._inventories):
            LOG.warning("resume: no party has a checkpoint: the training starts from the beginning")
            return 0
        shared, problems = common_checkpoints(self._inventories), list[str]()
        for position, identity in enumerate(shared):
            try:
                found = self._load(identity)
            except CheckpointRejected as error:
                error.names = names
                step = self._inventories[0].have[identity]
                problems.append(f"step {step}: {error}")
                LOG.warning("resume: the checkpoint of step %d is left out: %s", step, error)
                continue
            self._lineage = [self._folders[name] for name in reversed(shared[position:])]
            self._restore(found)
            return self.step
        have = joined(
            "; ", (Party(r) + f" has {a.summary}" for r, a in enumerate(self._inventories))
        )
        nothing = CheckpointRejected(
            "the parties have no checkpoint in common that can be used: "
            + have
            + "".join(f". {problem}" for problem in problems),
            remedy="to start anew, give another folder",
            subject="resume",
        )
        raise synchronized(self._session.mesh, nothing)

    def _load(self, identity: str) -> Checkpoint:
        folder = self._folders[identity]
        return load(self._session, folder, self._module, self._optimizer, key=self._key)

    def _restore(self, found: Checkpoint) -> None:
        self.step, self.extra, self._seed = found.step, found.extra["extra"], found.extra["seed"]
        state = bytearray(b64decode(found.extra["random state"]))
        torch.set_rng_state(torch.frombuffer(state, dtype=torch.uint8))
        self._begun = True
        self._scalars.begin(self.step)
        LOG.info("resume: the training goes on after step %d", self.step)

    def _begin(self) -> None:
        """Checks, before the first step, that nothing of an earlier training is overwritten."""
        if self._begun:
            return
        for rank, one in enumerate(self._inventories):
            if one.have or one.refused:
                error = CheckpointRejected(
                    "the folder of " + Party(rank) + f" holds an earlier one ({one.summary})",
                    remedy="resume it (--resume, or training.resume()), or give another folder",
                    subject="training",
                    party=rank,
                )
                raise synchronized(self._session.mesh, error)
        state_to_save(self._module, self._optimizer, self.extra)
        self._begun = True
        self._scalars.begin(self.step)
        self._saved_at = monotonic()

    def _due(self) -> bool:
        """Whether to save after this step, the same at all parties. With `minutes`, one message."""
        every, minutes = self._schedule.every, self._schedule.minutes
        if every is not None and self.step % every == 0:
            return True
        if minutes is None:
            return False
        due = monotonic() - self._saved_at >= 60 * minutes
        [told] = broadcast_from(
            self._session.numbers.protocol.context.mesh, [torch.tensor([int(due)])], owner=0
        )
        return bool(told)


def _own_folder(session: Session, folder: str | Path | None) -> Path:
    """Returns this party's folder: the session's, or one of its name in the given one."""
    if folder is not None:
        return Path(folder) / session.name
    if session.folder is None:
        raise ConfigError(
            "folder is needed", remedy="give it here, or to tacit.run or --log", subject="training"
        )
    return session.folder
