"""What a scheduler, and the settings of its optimizer, were at one time."""

from __future__ import annotations

from copy import deepcopy

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from .buffers import snapshot


class ScheduleState:
    """The state of a scheduler, to be put back."""

    def __init__(self, scheduler: LRScheduler) -> None:
        self._scheduler = scheduler
        state = {name: x for name, x in scheduler.state_dict().items() if name != "step"}
        self._state = deepcopy(state)
        groups = scheduler.optimizer.param_groups
        self._settings = [
            {name: snapshot(x) for name, x in group.items() if name != "params"} for group in groups
        ]

    def put_back(self) -> None:
        """Lets scheduler and optimizer go on from there."""
        self._scheduler.load_state_dict(self._state)
        groups = self._scheduler.optimizer.param_groups
        for group, settings in zip(groups, self._settings, strict=True):
            for name, x in settings.items():
                if isinstance(x, Tensor):
                    group[name].copy_(x)
                else:
                    group[name] = x
