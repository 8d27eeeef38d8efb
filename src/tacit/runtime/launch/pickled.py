"""Python objects as bytes, between a program and the processes that it starts itself.

Never for bytes of a peer, because unpickling runs code that they name; peers send fixed frames.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import torch

from ...errors import ConfigError

GUARD = "a script that calls tacit.run needs an `if __name__ == '__main__':` guard"
RULES = (
    "with transport='processes' main must be a function at the top level of a module, arguments "
    f"and results plain data or tensors, and {GUARD}; transport='threads' has none of these limits"
)


def pack(value: Any, what: str) -> bytes:
    """Returns the value as bytes; tensors are copied, not put in shared memory."""
    buffer = BytesIO()
    try:
        torch.save(value, buffer)
    except Exception as error:
        raise ConfigError(f"{what} cannot be sent to another process ({error}): {RULES}") from error
    return buffer.getvalue()


def unpack(data: bytes, what: str) -> Any:
    """Returns the value that another process of the same run packed."""
    try:
        return torch.load(BytesIO(data), weights_only=False)
    except Exception as error:
        raise ConfigError(f"{what} cannot be read in this process ({error}): {RULES}") from error
