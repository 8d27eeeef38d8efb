"""A training that can break off at any party, at any time, and go on."""

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
from ...nn.checkpoint import recorded
from ...nn.encrypted_file import Key
from ...transport.consensus import agree, broadcast_from, synchronized
from .checkpoints import Kept, Shelf
from .resume import Answer, common, meet
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
                f"every={self.every!r}", subject="training", limit="a number of steps, 1 or more"
            )
        if self.minutes is not None and not self.minutes > 0:
            raise ConfigError(f"minutes={self.minutes!r}", subject="training", limit="more than 0")
        if type(self.keep) is not int or self.keep < 1:
            raise ConfigError(
                f"keep={self.keep!r}", subject="training", limit="1 or more checkpoints"
            )


class Training:
    """Counts steps, saves a secret module and its optimizer as it goes, and notes numbers.

    step: how many steps are done. extra: public state that is saved too, whatever JSON can hold.
    generator: of public randomness, the same at all parties; a resume restores it.
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
        seed: int | None = None,
    ) -> None:
        self._session, self._module, self._optimizer = session, module, optimizer
        self._schedule = schedule
        self.step, self.extra = 0, {} if extra is None else extra
        own = _own_folder(session, folder)
        self._scalars = Scalars(own, session.rank)
        self._shelf = Shelf(own, session.numbers)
        self._lineage: list[Path] = []  # folders of the checkpoints that this training goes back to
        self._begun = False
        self._saved_at = monotonic()
        settings = asdict(schedule) | {"seed": seed, "resume": session.resume}
        agree(session.mesh, {name: repr(x) for name, x in settings.items()}, topic="training")
        self._answers, drawn = self._meet(key)
        self._seed = drawn if seed is None else seed
        self.generator = torch.Generator().manual_seed(self._seed)
        if session.resume:
            self.resume()

    def _meet(self, key: Key | None) -> tuple[list[Answer], int]:
        kept, refused, trouble = list[Kept](), list[str](), ""
        try:
            kept, refused = self._shelf.look()
            self._key = key if key is not None else self._shelf.key(make=not kept and not refused)
        except OSError as error:
            trouble = f"{self._shelf.folder}: {error.strerror or type(error).__name__}"
        except CheckpointRejected as error:
            trouble = str(error)
        self._folders = {one.id: one.folder for one in kept}
        have = {one.id: one.step for one in kept}
        return meet(self._session.numbers, have, refused, trouble)

    def steps(self, total: int) -> Iterator[int]:
        """Numbers of steps, from the first that is not done to total - 1.

        Saves after every `every` steps, when `minutes` have passed since the last time by the clock
        of party 0, which tells the others after each step, and at the end.
        """
        self._begin()
        try:
            while self.step < total:
                yield self.step
                self.step += 1
                if self.step == total or self._due():
                    self.save()
        finally:
            self._scalars.close()

    def batch(self, length: int, size: int) -> Tensor:
        """Indices of this step's batch of a public number of rows.

        The rows are shuffled anew when all but a rest smaller than a batch were used, alike at all
        parties, and a resume goes on in the midst of them.
        """
        if not 0 < size <= length:
            raise ConfigError(
                f"size={size!r}", subject="batch", limit=f"from 1 to the number of rows, {length}"
            )
        epoch, place = divmod(self.step, length // size)
        own = sha256(f"batches|{self._seed}|{epoch}".encode()).digest()
        shuffle = torch.Generator().manual_seed(int.from_bytes(own[:8], "little") >> 1)
        return torch.randperm(length, generator=shuffle)[place * size : (place + 1) * size]

    def log(self, **values: float | Tensor | None) -> None:
        """Notes public numbers of this step in scalars.csv, and for TensorBoard if it is there.

        None is left out: what a reveal to another party gives.
        """
        reserved = [name for name in FIRST if name in values]
        if reserved:
            raise ConfigError(
                f"{reserved[0]} is a column of its own", subject="log", remedy="choose another name"
            )
        self._begin()
        self._scalars.add(self.step, values)

    def save(self) -> Checkpoint:
        """Saves now, at every party at once; the oldest goes if there are more than `keep`."""
        self._begin()
        folder = self._shelf.free(self.step)
        state = b64encode(self.generator.get_state().numpy().tobytes()).decode()
        made = save(
            self._session,
            folder,
            self._module,
            self._optimizer,
            key=self._key,
            step=self.step,
            extra={"extra": self.extra, "seed": self._seed, "generator": state},
        )
        self._saved_at = monotonic()
        self._lineage = [*self._lineage, folder][-self._schedule.keep :]
        self._shelf.keep_only(self._lineage)
        return made

    def resume(self) -> int:
        """Loads the newest checkpoint that all parties have; gives the number of steps done.

        One that turns out to be damaged at a party is left out by all, with a warning. Nothing is
        loaded, and 0 given, if no party has any; CheckpointRejected if they have none in common.
        """
        if self._begun:
            raise ConfigError(
                "the training has begun", subject="resume", remedy="resume before its first step"
            )
        names = self._session.names
        for rank, answer in enumerate(self._answers):
            for text in answer.refused:
                LOG.warning("resume: %s cannot use %s", Party(rank).render(names), text)
        if not any(answer.have or answer.refused for answer in self._answers):
            LOG.warning("resume: no party has a checkpoint: the training starts from the beginning")
            return 0
        shared, problems = common(self._answers), list[str]()
        for place, identity in enumerate(shared):
            try:
                found = self._load(identity)
            except CheckpointRejected as error:
                error.names = names
                step = self._answers[0].have[identity]
                problems.append(f"step {step}: {error}")
                LOG.warning("resume: the checkpoint of step %d is left out: %s", step, error)
                continue
            self._lineage = [self._folders[name] for name in reversed(shared[place:])]
            self._restore(found)
            return self.step
        have = joined("; ", (Party(r) + f" has {a.summary}" for r, a in enumerate(self._answers)))
        nothing = CheckpointRejected(
            "resume: the parties have no checkpoint in common that can be used: "
            + have
            + "".join(f". {problem}" for problem in problems),
            remedy="to start anew, give another folder",
        )
        raise synchronized(self._session.mesh, nothing)

    def _load(self, identity: str) -> Checkpoint:
        folder = self._folders[identity]
        return load(self._session, folder, self._module, self._optimizer, key=self._key)

    def _restore(self, found: Checkpoint) -> None:
        self.step, self.extra, self._seed = found.step, found.extra["extra"], found.extra["seed"]
        state = bytearray(b64decode(found.extra["generator"]))
        self.generator.set_state(torch.frombuffer(state, dtype=torch.uint8))
        self._begun = True
        self._scalars.begin(self.step)
        LOG.info("resume: the training goes on after step %d", self.step)

    def _begin(self) -> None:
        """Before the first step: nothing of an earlier training may be overwritten."""
        if self._begun:
            return
        for rank, answer in enumerate(self._answers):
            if answer.have or answer.refused:
                error = CheckpointRejected(
                    "training: the folder of "
                    + Party(rank)
                    + f" holds an earlier one ({answer.summary})",
                    remedy="resume it (--resume, or training.resume()), or give another folder",
                    party=rank,
                )
                raise synchronized(self._session.mesh, error)
        recorded(self._module, self._optimizer, self.extra)
        self._begun = True
        self._scalars.begin(self.step)
        self._saved_at = monotonic()

    def _due(self) -> bool:
        """Whether to save after this step: the same at all parties. With `minutes`, one message."""
        every, minutes = self._schedule.every, self._schedule.minutes
        if every is not None and self.step % every == 0:
            return True
        if minutes is None:
            return False
        late = monotonic() - self._saved_at >= 60 * minutes
        [told] = broadcast_from(
            self._session.numbers.protocol.context.mesh, [torch.tensor([int(late)])], owner=0
        )
        return bool(told)


def _own_folder(session: Session, folder: str | Path | None) -> Path:
    """The folder of this party alone: the session's, or one of its name in the one given."""
    if folder is not None:
        return Path(folder) / session.name
    if session.folder is None:
        raise ConfigError(
            "folder is needed", subject="training", remedy="give it here, or to tacit.run or --log"
        )
    return session.folder
