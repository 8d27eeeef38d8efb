"""The calls of a repeated function with arguments of one form: what is observed and recorded."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ...fixedpoint.flatten import canonical_limit
from ...tensor import SecretTensor
from ...tensor.trace import Trace
from .buffers import CallSignature, SecretTree
from .environment import Environment, InUse
from .gradients import GradientsBefore
from .optimizer_observer import OptimizerObserver
from .recording import Recording, compute
from .told import decode_places, encode_places

if TYPE_CHECKING:
    from ..session import Session

MOST_UNUSED = 4  # recordings in a row that no later call fitted
MOST_OBSERVED = 16  # calls in a row of which none did what the one before did
MOST_VARIANTS = 2  # a call that sets gradients, and one that adds to them


class Variant:
    """What a function does under the same circumstances: one observed call, and its recording."""

    def __init__(
        self, trace: OptimizerObserver, environment: Environment, gradients: GradientsBefore
    ) -> None:
        self.trace, self.environment, self._gradients = trace, environment, gradients
        self.recording: Recording | None = None
        self._limits = [(cell, canonical_limit(cell.value)) for cell in trace.written()]

    def fits(self, given: SecretTree) -> bool:
        """Returns whether the function would do now what was observed or recorded."""
        if not self.environment.is_unchanged() or not self._gradients.are_alike():
            return False
        for old, new in self._gradients.moved():
            self.trace.replace(old, new)
            self._limits = [(new if cell is old else cell, limit) for cell, limit in self._limits]
            if self.recording is not None:
                self.recording.replace_state(old, new)
        self._note_writes()
        return self.recording is None or self.recording.fits(given)

    def _note_writes(self) -> None:
        """Drops the recording if the program has written to what the function only reads.

        Such tensors, as the weights if the optimizer is outside, are state in the next recording.
        """
        changed = [] if self.recording is None else self.recording.changed_reads()
        for cell in changed:
            self.trace.replace(cell, cell)
        if changed:
            self.recording = None

    def accepts_state(self) -> bool:
        """Returns whether the tensors that the function writes still have their recorded forms."""
        if self.recording is not None:
            return self.recording.accept_state()
        return all(canonical_limit(cell.value) == limit for cell, limit in self._limits)


class Specialization:
    """The calls with arguments of one form: warm-up, observation, recording, then replays.

    Under other circumstances (a module's mode, gradients that are already there) the function is
    observed and recorded again. So there may be several variants; the newest is the first.
    """

    def __init__(
        self,
        session: Session,
        kind: type[Recording],
        function: Callable[..., Any],
        signature: CallSignature,
        leaves: list[SecretTensor] | None = None,
    ) -> None:
        """leaves: the parameters, if the function was called before; its kernels are compiled.

        is_for_any_contents: it was made because public arguments differ from call to call.
        """
        self.signature, self.is_for_any_contents = signature, bool(signature.varying)
        self.obstacle: str | None = None
        self._session, self._kind, self._function = session, kind, function
        self.leaves = leaves
        self._variants: list[Variant] = []
        self._num_unused = 0  # recordings in a row that were not replayed
        self._num_observed = 0  # calls in a row that were not recorded

    @property
    def recordings(self) -> list[Recording]:
        """What is replayed, the newest first."""
        return [one.recording for one in self._variants if one.recording is not None]

    def call(self, given: SecretTree, args: Any, kwargs: Any) -> Any:
        """Returns what the function returns, by running, observing, recording or replaying it."""
        if self.leaves is None:
            return self._warm_up(args, kwargs)
        variant = next((one for one in self._variants if self._can_go_on(one, given)), None)
        if variant is None:
            return self._observe(given, args, kwargs)
        self._num_observed = 0
        recording = variant.recording
        if recording is not None and not recording.may_reveal():
            return self._function(*args, **kwargs)  # raises there, and keeps what it wrote before
        if recording is not None and recording.advance(given):
            self._num_unused = 0
            return recording.replay(given)
        return self._record(variant, given)

    def _warm_up(self, args: Any, kwargs: Any) -> Any:
        """Runs the function, so that kernels are compiled, and finds its parameters."""
        in_use = InUse()
        with in_use.collected():
            result = self._function(*args, **kwargs)
        self.leaves = in_use.parameters()
        return result

    def _can_go_on(self, variant: Variant, given: SecretTree) -> bool:
        """Whether the function would do now what was observed or recorded."""
        return self._kind.decided(self._session, variant.fits(given)) and variant.accepts_state()

    def _record(self, variant: Variant, given: SecretTree) -> Any:
        """Records the function, and returns what it returns."""
        recording = self._kind(
            self._session,
            self._function,
            given,
            variant.trace,
            variant.environment.parameters(),
            self.signature,
        )
        result = recording.first_results(given)
        obstacle = recording.obstacle
        if obstacle is None and not variant.environment.is_unchanged():
            obstacle = "it changes a variable, a module or an optimizer's settings"
        obstacle = obstacle or recording.difference_in_public()
        obstacle = self._kind.first_of_all(self._session, obstacle)
        self._num_unused += 1
        if self._num_unused > MOST_UNUSED:
            self.obstacle = obstacle or "its public numbers are others in every call"
        elif obstacle is not None and variant.recording is not None:  # it does something else now
            self._variants.remove(variant)
        else:
            self.obstacle, variant.recording = obstacle, recording
            recording.hand_on()
        return result

    def _observe(self, given: SecretTree, args: Any, kwargs: Any) -> Any:
        """Runs the function and finds what it uses, and whether it can be recorded."""
        session, trace = self._session, self._kind.observer()
        trace.note_arguments(given.others, self.signature.varying)
        environment, revealed = Environment(self._function, given.others), len(session.reveals)
        gradients = GradientsBefore(self.leaves or ())
        watched = trace.steps.watching(environment.schedulers())
        with environment.observed(trace), trace.on(session.numbers), watched:
            result = self._function(*args, **kwargs)
            made = SecretTree.of(result)
            compute(made.values)
        trace.note_results(made.secrets)
        trace.operands.note_results(made.others, made.spec)
        obstacle = environment.obstacle or _obstacle(trace, given, made)
        verifies = session.protocol.verifies_reveals and not self._kind.can_verify
        if len(session.reveals) > revealed and verifies:
            obstacle = "it opens what is verified before, which a GPU's graphs do not"
        self._num_observed += 1
        if self._num_observed > MOST_OBSERVED:
            obstacle = obstacle or "variables, modules or settings of it are others in every call"
        tensors = {i for i, x in enumerate(given.others) if isinstance(x, Tensor)}
        private, used, plain = self._agreed(
            len(given.others), trace.shared_arguments, trace.used_arguments, tensors
        )
        if private & used:
            obstacle = obstacle or "it shares an argument, and computes with its plain numbers, too"
        self.obstacle = self._kind.first_of_all(session, obstacle)
        own = plain - used if self._kind.takes_plain else frozenset[int]()
        varying = (self.signature.varying | own) - private
        self.signature = self.signature.refined(given, private, varying, varying & used)
        trace.forget(given.secrets)
        gradients.observe(trace)
        self._variants = [Variant(trace, environment, gradients), *self._variants][:MOST_VARIANTS]
        return result

    def _agreed(self, num_arguments: int, *places: Set[int]) -> list[Set[int]]:
        """Returns for each set of places all that are in it at some party."""
        told = [
            decode_places(party, text, len(places), num_arguments)
            for party, text in enumerate(self._kind.gathered(self._session, encode_places(places)))
        ]
        return [frozenset[int]().union(*of_all) for of_all in zip(*told, strict=True)]


def _obstacle(trace: Trace, given: SecretTree, made: SecretTree) -> str | None:
    """Returns why an observed function cannot be recorded, or None."""
    written = {id(cell): cell for cell in trace.written()}
    if any(id(x._cell) in written for x in given.secrets):
        return "it writes to an argument"
    if any(x.requires_grad for x in given.secrets):
        return "an argument requires a gradient"
    if any(x.requires_grad for x in made.secrets):
        return "a result requires a gradient (detach it)"
    if not all(trace.is_new_secret(x) for x in made.secrets):
        return "a result is an alias of a tensor from before (clone it)"
    if any(
        canonical_limit(trace.values[i]) != canonical_limit(cell.value)
        for i, cell in written.items()
    ):
        return "what is promised of integers that it writes grows"
    return trace.obstacle
