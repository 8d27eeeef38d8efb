"""A command `tacit` for the shells that tests start: it begins in milliseconds, as a fork."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread

from tests import forked

# Sends what a command is given, and gets how it ended and what it wrote.
COMMAND = """\
#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as link:
    link.connect({address!r})
    with link.makefile("rw") as file:
        print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]), file=file, flush=True)
        code, out, err = json.loads(file.readline())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


class _Request(StreamRequestHandler):
    def handle(self) -> None:
        arguments, folder, environment = json.loads(self.rfile.readline())
        ended = forked.run(["-m", "tacit", *arguments], cwd=folder, env=environment)
        self.wfile.write(json.dumps(ended).encode() + b"\n")


@contextmanager
def folder_with_tacit() -> Iterator[Path]:
    """A folder that, first on the path of a shell, gives it the command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        address = str(folder / "link")
        command = folder / "tacit"
        command.write_text(COMMAND.format(python=sys.executable, address=address))
        command.chmod(0o700)
        with ThreadingUnixStreamServer(address, _Request) as server:
            Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            try:
                yield folder
            finally:
                server.shutdown()
