"""What a command prints, where a user reads only the beginning of it, or has a narrow terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading

import pytest

from tacit.cli import screen as screens
from tacit.runtime.progress import Progress, RunningLoops
from tacit.testing.clock import ManualClock

PRINTS = """
import sys
import threading
from tacit.cli.screen import Screen
screen = Screen(as_json=False)
for _ in range(3):
    screen.line("text")
print("printed outside of the screen")
print("the command has ended", file=sys.stderr)
"""


def test_a_command_goes_on_when_nobody_reads_its_output():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-c", PRINTS]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "the command has ended\n")


@pytest.mark.parametrize("width", [60, 80])
def test_the_time_left_is_seen_on_a_narrow_terminal(width, monkeypatch):
    shown, clock, loops = io.StringIO(), ManualClock(), RunningLoops()
    screen = screens.Screen(as_json=False)
    screen.console = screens._Console(file=shown, width=width, force_terminal=True)
    monkeypatch.setattr(screens, "TERMINAL_SECONDS", 0.01)
    progress = Progress("rows that are compared with many others [of both]", 1000, now=clock.now)
    state = threading.Event()

    def text():
        state.set()
        return f"{loops.text}; 123456 rounds, 1.2 GB sent"

    with loops.added(progress):
        clock.advance(7.0)
        progress.add()
        with screen.live("running", text):
            assert state.wait(60)
    last = shown.getvalue().rpartition("running")[2]
    assert "1.9 h left, rows that are compared" in last
