"""A headless Chromium, driven over the pipes of its DevTools protocol."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
# Without a sandbox, which a container's root cannot have: the pages are our own.
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")
PIPES = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'  # where the protocol wants them
SECONDS = 120  # for one answer, on a busy machine


class Browser:
    """One tab of a browser that takes commands and gives answers, each ended by a zero byte."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self.commands, self.answers = commands, answers
        self.buffer, self.count, self.tab = b"", 0, ""
        made = self.command("Target.createTarget", url="about:blank")
        attached = self.command("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self.tab = attached["sessionId"]
        self.command("Page.enable")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def open(self, address: str) -> None:
        """Returns when the page has loaded."""
        self.command("Page.navigate", url=address)
        while self.message().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression; of a promise, what it resolves to."""
        options = {"awaitPromise": True, "returnByValue": True}
        done = self.command("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        sent: dict[str, Any] = {"id": self.count, "method": method, "params": parameters}
        if self.tab:
            sent["sessionId"] = self.tab
        self.commands.write(json.dumps(sent).encode() + b"\0")
        while (message := self.message()).get("id") != self.count:
            pass
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def message(self) -> dict[str, Any]:
        """The next answer or event."""
        while b"\0" not in self.buffer:
            assert select.select([self.answers], [], [], SECONDS)[0], "the browser does not answer"
            read = os.read(self.answers.fileno(), 1 << 16)
            assert read, "the browser has ended"
            self.buffer += read
        text, self.buffer = self.buffer.split(b"\0", 1)
        found: dict[str, Any] = json.loads(text)
        return found


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """A browser that keeps its files in the folder `profile`."""
    assert PROGRAM is not None
    command = ["sh", "-c", PIPES, "sh", PROGRAM, *OPTIONS, f"--user-data-dir={profile}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield Browser(process.stdin, process.stdout)
        finally:
            process.terminate()
