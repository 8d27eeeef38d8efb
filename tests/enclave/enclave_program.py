"""The program of an enclave in the tests: it answers an owner's questions over the relay.

It runs in the enclave process. An owner would never write most of these: they show what the process
has and can do.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import re
import resource
import socket
import sys
from contextlib import suppress

from tacit.transport import Hello, Identity, Limits, connect

SESSION = b"0123456789abcdef"
ADDRESSES = [("enclave", 1), ("owner", 1)]


def serve(context):
    """Answers until the owner says end."""
    held = {}
    with _mesh(context) as mesh:
        while True:
            asked = json.loads(mesh.exchange_bytes({}, [1])[1])
            action = asked.pop("do")
            if action == "end":
                return
            answer = ACTIONS[action](context, held, **asked)
            mesh.exchange_bytes({1: json.dumps(answer).encode()}, [])


def _mesh(context):
    mine = context.credentials
    peers = (mine.certificate, context.settings["owner"].encode())
    return connect(
        Hello(session=SESSION, rank=0, parties=2),
        context.host.listen("owners"),
        ADDRESSES,
        identity=Identity(mine.certificate, mine.private_key, peers),
        limits=Limits(deadline=20.0, connect_deadline=60.0),
        dial=context.host.dial,
    )


def facts(context, held):
    descriptors = {}
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            descriptors[number] = os.readlink(f"/proc/self/fd/{number}")
    return {
        "descriptors": descriptors,
        "environment": dict(os.environ),
        "dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "arguments": sys.argv,
        "caches_written": sys.flags.dont_write_bytecode,
        "cached": [
            module.__cached__ or ""
            for name, module in sys.modules.items()
            if name.startswith("tacit") and module.__file__.endswith(".py")
            if type(module.__loader__).__name__ not in ("FromSource", "Measured")
        ],
        "own_loader": type(__loader__).__name__,
        "later_loader": type(importlib.import_module("tacit.enclave.worker").__loader__).__name__,
        "settings": dict(context.settings),
        "locked_kB": int(re.search(r"VmLck:\s+(\d+)", open("/proc/self/status").read())[1]),
    }


def reach(context, held, host, port):
    """Why the process cannot connect to an address of the machine itself."""
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        return os.strerror(error.errno) if error.errno else "timeout"
    return ""


def hold(context, held, text):
    held["text"] = bytes.fromhex(text)
    return len(held["text"])


def tell_key(context, held):
    return context.credentials.private_key.decode()


def seal(context, held, text):
    """Keeps the key of a sealed store, and says what it is."""
    from tacit.enclave.trusted.chunk_cipher import ChunkCipher

    held["cipher"] = ChunkCipher(context.manifest.digest())
    plain = memoryview(bytes.fromhex(text))
    held["cipher"].seal(plain, memoryview(bytearray(len(plain) + 16)), tensor=1, chunk=0)
    return bytes(held["cipher"]._key)[::-1].hex()  # not as it is: this text may stay in memory


ACTIONS = {one.__name__: one for one in (facts, reach, hold, tell_key, seal)}
