"""Public random numbers of torch's own functions, the same at all parties of a session.

torch draws from one default generator for each process. In the thread of a session, every random
operator that is not given a generator draws from the session's instead, and so do all functions
made of those operators: initialisers, dropout, samplers, `DataLoader`, `random_split`. The seed
comes from the key that all parties share, so it is fresh for each session and costs no message.
`torch.manual_seed`, `torch.get_rng_state` and their relatives act on the session's generator.

NOTE [operators]: the random operators are replaced at the dispatch key BackendSelect, between
autograd and the kernels of the devices. No other operator passes through Python for it, and random
numbers that torch draws in C++ are found too. The replacements stay for the life of the process,
because torch's tables must not change while other threads use them. Without a session they do
nothing.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch._C import DispatchKey
from torch._ops import OpOverload

from ..crypto import KeyRing

LABEL = "public|torch"

# The operators whose kernels read a generator; all other random operators call these.
DRAWING = (
    *("bernoulli.out", "bernoulli_.Tensor", "bernoulli_.float", "binomial", "cauchy_"),
    *("exponential_", "geometric_", "log_normal_", "multinomial", "multinomial.out"),
    *("normal.Tensor_Tensor", "normal.Tensor_Tensor_out", "normal.Tensor_float"),
    *("normal.Tensor_float_out", "normal.float_Tensor", "normal.float_Tensor_out", "normal_"),
    *("poisson", "random_", "random_.from", "random_.to", "randperm.generator_out"),
    *("rrelu_with_noise", "rrelu_with_noise.out", "rrelu_with_noise_", "uniform_"),
    *("_sample_dirichlet", "_standard_gamma"),
)

DEFAULT = torch.default_generator._cdata  # type: ignore[attr-defined]  # torch copies the object
_library = torch.library.Library("aten", "IMPL")
_thread = threading.local()
_replacing = threading.Lock()


class PublicStream:
    """The public random numbers of one session: a generator for each device, with one seed.

    Its methods are those of a torch.Generator that `torch.random` calls.
    """

    def __init__(self, seed: int) -> None:
        self.outer = current_stream()
        self.is_open = True
        self._cpu = Generator()
        self._generators = {self._cpu.device: self._cpu}
        self.manual_seed(seed)

    def generator(self, device: torch.device) -> Generator | None:
        """Returns the generator of a device; None for devices without numbers, such as meta."""
        if device.type not in ("cpu", "cuda"):
            return None
        if device not in self._generators:
            self._generators[device] = Generator(device).manual_seed(self.initial_seed())
        return self._generators[device]

    def manual_seed(self, seed: int) -> Generator:
        """Starts anew from a seed; returns the generator of the CPU."""
        for generator in self._generators.values():
            generator.manual_seed(seed)
        return self._cpu

    def seed(self) -> int:
        """Starts anew from a seed that the stream itself draws, so that all parties have it."""
        drawn = torch.empty((), dtype=torch.int64).random_(generator=self._cpu)
        return self.manual_seed(int(drawn)).initial_seed()

    def initial_seed(self) -> int:
        """Returns the seed."""
        return self._cpu.initial_seed()

    def get_state(self) -> Tensor:
        """Returns the state of the CPU's generator."""
        return self._cpu.get_state()

    def set_state(self, state: Tensor) -> Generator:
        """Sets the state of the CPU's generator."""
        return self._cpu.set_state(state)


def current_stream() -> PublicStream | None:
    """Returns the stream of the session that this thread opened last and has not closed."""
    stream: PublicStream | None = getattr(_thread, "stream", None)
    while stream is not None and not stream.is_open:
        stream = stream.outer
    return stream


@contextmanager
def public_randomness(keys: KeyRing, parties: int, *, whole_process: bool) -> Iterator[None]:
    """Gives this thread the public random numbers of a session until the end of the block.

    whole_process: seeds the default generators of torch, Python and numpy alike too, and restores
    them at the end. For a process that runs one party.
    """
    seed = int.from_bytes(keys.key(range(parties)).derive(LABEL, 8), "little") >> 1
    replace_operators()
    with ExitStack() as stack:
        if whole_process:
            stack.enter_context(_seeded_process(seed))
        stream = _thread.stream = PublicStream(seed)
        try:
            yield
        finally:  # perhaps in another thread
            stream.is_open = False


@contextmanager
def drawing_from(stream: PublicStream | None) -> Iterator[None]:
    """Lets this thread draw from the stream of a session that another thread opened."""
    before, _thread.stream = getattr(_thread, "stream", None), stream
    try:
        yield
    finally:
        _thread.stream = before


@contextmanager
def unchanged_cuda_generators() -> Iterator[None]:
    """Restores torch's generators of GPUs at the end: `torch.manual_seed` in a thread sets them."""
    generators = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def _seeded_process(seed: int) -> Iterator[None]:
    states = torch.default_generator.get_state(), random.getstate(), np.random.get_state()
    torch.default_generator.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)  # waits until CUDA is used
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
    try:
        yield
    finally:
        torch.default_generator.set_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])


# Redirecting torch's default generator ------------------------------------------------------------


def replace_operators() -> None:
    """Makes torch's random operators and functions ask for a session's stream; only once.

    See NOTE [operators]. Parties of one process may open their sessions at the same time.
    """
    with _replacing:
        _replace_operators()


@cache
def _replace_operators() -> None:
    for name in DRAWING:
        _replace(name, _drawing)
    _replace("native_dropout", _dropout)
    torch.random.default_generator = DefaultGenerator()  # type: ignore[attr-defined,assignment]


class DefaultGenerator:
    """What `torch.random` takes for the default generator: the session's, or else torch's own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(current_stream() or torch.default_generator, name)


Kernel = Callable[..., Any]  # (the dispatch keys that remain, *args, **kwargs)


def _replace(name: str, kernel_of: Callable[[OpOverload], Kernel]) -> None:
    packet, _, overload = name.partition(".")
    func = getattr(getattr(torch.ops.aten, packet), overload or "default")
    _library.impl(name, kernel_of(func), "BackendSelect", with_keyset=True)


def _drawing(func: OpOverload) -> Kernel:
    names = [argument.name for argument in func._schema.arguments]

    def draw(keys: Any, *args: Any, **kwargs: Any) -> Any:
        stream = current_stream()
        if stream is not None:
            args, kwargs = (
                (),
                _with_generator(stream, dict(zip(names, args, strict=False)) | kwargs),
            )
        return func.redispatch(keys.remove(DispatchKey.BackendSelect), *args, **kwargs)

    return draw


def _with_generator(stream: PublicStream, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments with the stream's generator, unless they have one of the program's."""
    own = given.get("generator")
    if own is not None and own._cdata != DEFAULT:
        return given
    device = next(x.device for x in (given.get("out"), *given.values()) if isinstance(x, Tensor))
    return given | {"generator": stream.generator(device)}


def _dropout(func: OpOverload) -> Kernel:
    """Dropout on a GPU, whose kernel reads torch's own generator: the same from `bernoulli_`."""

    def dropout(keys: Any, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
        if current_stream() is None or not input.is_cuda or train is False:
            return func.redispatch(keys.remove(DispatchKey.BackendSelect), input, p, train)
        mask = torch.empty_like(input, dtype=torch.bool).bernoulli_(1 - p)
        return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask

    return dropout


def seed_public_numbers(seed: int) -> None:
    """Starts the public numbers of this thread's session, or of torch without one, anew."""
    torch.manual_seed(seed)
