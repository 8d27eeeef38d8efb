"""What a command prints, where a user reads only the beginning of it."""

from __future__ import annotations

import os
import subprocess
import sys

PRINTS = """
import sys
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
