"""The pages of settings and of protocols, from the classes and registries that define them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from typing import Any

from tacit import config, run
from tacit.config import Config
from tacit.registry import PROTOCOLS, TRANSPORTS
from tacit.runtime.deploy.enclave_blocks import ENCLAVE_FIELDS, WORKER_FIELDS
from tacit.runtime.deploy.member_blocks import PARTY_FIELDS
from tacit.runtime.deploy.party_file import FIELDS
from tacit.transport import Limits

# What a party file's fields mean, where Config and Limits do not say it.
PARTY_FILE = {
    "placement": "`gpu` or `linear`: how much is on a party's GPU; see [GPUs](../guides/gpu.md)",
    "reveals": "names of those who may learn anything at all; `[]`: nobody; absent: every party",
    "party": "a block for each party, in the order of the ranks",
    "dealer": "a block for the dealer, where the protocol has one that is no party; or, instead of "
    '`[[dealer]]`, `dealer = "insecure-first-party"`',
    "enclave_threads": "threads of each enclave's process, 1 by default",
    "enclave": "a block for the host of each enclave; see [enclaves](../guides/enclaves.md)",
    "worker": "a block for each worker of the enclaves, as many as `outsourcing` needs",
}
PARTY = {
    "name": "as on the command line; letters, digits, `-` and `_`",
    "address": "where the others reach it: `10.0.0.1:7000`, `[::1]:7000`, `host.example:7000`",
    "certificate": "base64 of its certificate (DER), as `tacit party init` prints it",
    "device": "optional: `cpu`, `cuda` or `cuda:<number>`",
}
ALLOWED = {
    "ring": config.RINGS,
    "protocol": tuple(PROTOCOLS),
    "truncation": config.TRUNCATIONS,
    "cipher": config.CIPHERS,
    "dealer": config.DEALERS,
    "outsourcing": tuple(config.OUTSOURCING),
    "precision": config.PRECISIONS,
}
VARIABLES = {
    "TACIT_DEVICE": "the default of `device=`",
    "TACIT_KEEP_MIB": "MiB of encoded weights that a party keeps; 0 keeps nothing",
    "TACIT_KERNELS": "`reference` or `triton` forces these kernels; `sse4`, `avx2`, `avx512`, "
    "`vnni`, `amx` (x86-64), `neon`, `dotprod` or `i8mm` (ARM) the compiled ones of that level, if "
    "the processor runs it and the installation has it; `auto`, the default, takes the fastest",
    "TACIT_PASSPHRASE": "the passphrase of a party's key, where nobody can be asked",
}


def configuration_page() -> str:
    """Config, Limits, the party file, `tacit.run` and the environment."""
    lines = ["# Configuration", "", "Settings and party file are compared before a run.", ""]
    lines += ["## Config", "", "How numbers are represented, and which protocol computes.", ""]
    lines += [*fields_table(Config), "", *items(Config), "", "## Limits", ""]
    lines += [f"{inspect.getdoc(Limits)}", "", *fields_table(Limits), "", "## The party file", ""]
    lines += [
        "`parties.toml`; unknown fields are refused. See [deployment](../guides/deployment.md)."
    ]
    lines += ["", "| field | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {PARTY_FILE.get(name, 'as above')} |" for name in FIELDS]
    lines += [
        "",
        "In each `[[party]]`, and in `[[dealer]]`:",
        "",
        "| field | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {PARTY[name]} |" for name in PARTY_FIELDS]
    lines += ["", f"In `[[enclave]]`: {_listed(ENCLAVE_FIELDS)}; the enclave makes its key itself."]
    lines += [f"In `[[worker]]`: {_listed(WORKER_FIELDS)}; nobody dials it."]
    lines += ["", "## tacit.run", "", *prose(run), "", "| argument | default |", "|---|---|"]
    lines += [f"| `{name}` | `{value!r}` |" for name, value in defaults(run)]
    lines += ["", "## Transports", "", "| `transport=` | |", "|---|---|"]
    lines += [f"| `{name}` | {info.summary} |" for name, info in TRANSPORTS.items()]
    lines += ["", "[How to add one](../guides/add_a_transport.md)."]
    lines += ["", "## Environment", "", "| variable | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    return "\n".join(lines) + "\n"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def prose(thing: Any) -> list[str]:
    return [(inspect.getdoc(thing) or "").partition("\n\n")[2]]


def items(thing: Any) -> list[str]:
    """The text as a list: what a line that begins with a name in code says of it is an item."""
    return [f"- {' '.join(one.split())}" for one in re.split(r"\n(?=`)", *prose(thing))]


def defaults(function: Any) -> list[tuple[str, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.default) for p in parameters if p.default is not p.empty]


def fields_table(kind: Any) -> list[str]:
    """A dataclass's fields, with what is allowed or what the line of the field says."""
    remarks = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(kind), re.MULTILINE))
    lines = ["| field | type | default | |", "|---|---|---|---|"]
    for field in dataclasses.fields(kind):
        allowed = ", ".join(f"`{value}`" for value in ALLOWED.get(field.name, ()))
        kinds = str(field.type).replace("|", "or")
        meaning = allowed or remarks.get(field.name, "")
        lines.append(f"| `{field.name}` | {kinds} | `{field.default!r}` | {meaning} |")
    return lines


def protocols_page() -> str:
    """Every protocol: what it is, for how many parties, and what it guarantees."""
    lines = ["# Protocols", "", "The values of `protocol=`.", ""]
    for info in PROTOCOLS.values():
        lines += [f"## {info.name}", "", info.summary, "", f"- Parties: {info.counts}."]
        given, kind = info.guarantees, info.load()
        if given.private:
            pooling = "all but one" if given.colluding is None else given.colluding
            lines += [f"- How many may pool what they see and learn nothing: {pooling}."]
            if info.helpers:
                lines += ["- A dealer helps, which is no party and must pool with none of them."]
            caught = "is caught" if given.detects else "is not caught: it can make results wrong"
            lines += [f"- A party that deviates {caught}."]
        elif kind is not None:
            lines += ["- It protects nothing."]
        if not info.network:
            lines += ["- It runs in one process only."]
        if kind is not None:
            lines += [f"- Its shares have the form `{kind.form}`."]
        lines += [""]
    lines += ["[Costs](costs.md) has the rounds and bits of each operation;"]
    lines += ["[how to add one](../guides/add_a_protocol.md)."]
    return "\n".join(lines) + "\n"
