"""The security of a configuration with an enclave, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from ...config import VISIBLE_WEIGHTS, Config
from ...enclave.attestation.simulated import WARNING

LOG = "every reveal is written to the log of the run"
PUBLIC = "shapes, the program and its public operands, the sizes and times of messages"


def enclave_security(
    config: Config, names: Sequence[str], workers: Sequence[str]
) -> dict[str, list[str]]:
    """Returns sentences by heading; `names` are those of all members, the enclaves last."""
    parties = names[: len(names) - config.helpers]
    enclaves = " and ".join(names[len(parties) :])
    return {
        "warning": [f"what an enclave started by this version is worth: {WARNING}"],
        "collusion": [
            f"{enclaves} computes on every value in plain: the hardware protects it from its host, "
            "and each party checks before it sends anything what runs there",
            *_pooling(workers),
        ],
        "each party learns": [
            *learned_by_parties(config, parties),
            f"the host of {enclaves}: the program, its arguments, and the sizes and times of what "
            "it relays",
            *(f"{worker}: {_learned_by_worker(config)}" for worker in workers),
        ],
        "deviation": [
            "a worker that answers wrongly is caught and named before its answer is used",
            "the parties are trusted to follow the program; the enclave runs what was measured",
        ],
        "public": [PUBLIC],
    }


def learned_by_parties(config: Config, names: Sequence[str]) -> list[str]:
    """Returns what each party learns, by the reveal policy."""
    return [
        f"{name}: what it gave, and what the program reveals to it; {LOG}"
        if config.reveals is None or rank in config.reveals
        else f"{name}: what it gave, and nothing else; a reveal to it is refused at every party"
        for rank, name in enumerate(names)
    ]


def _learned_by_worker(config: Config) -> str:
    if config.outsourcing == VISIBLE_WEIGHTS:
        return (
            "shapes, masked numbers, and the parameters of modules as their owner shares them "
            f"(outsourcing={VISIBLE_WEIGHTS!r})"
        )
    return "shapes, and masked numbers"


def _pooling(workers: Sequence[str]) -> list[str]:
    if len(workers) < 2:
        return []
    return [f"no two workers may pool what they see: {', '.join(workers)}"]
