"""The code blocks of the documents, and what is to be done with each.

An HTML comment in the line before a block says it:
- `<!-- run -->`: the block's commands run, one after another.
- `<!-- run: together -->`: each line is a process of its own, all at the same time.
- `<!-- file: NAME -->`: the block is a file that the page's commands use.
- `<!-- not run: REASON -->`: the block is only looked at.
Python blocks need none: they run, as one program for each page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"(?:^<!-- (?P<order>[^\n]*) -->\n\n?)?^(?P<fence>```+)(?P<language>\w+)[^\n]*\n"
    r"(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
SHELLS = ("bash", "sh", "console", "shell")
REASON = "not run: "


@dataclass(frozen=True)
class Block:
    """`order` is what the comment before it says; `line` is that of its first line of text."""

    order: str
    language: str
    text: str
    line: int

    @property
    def is_program(self) -> bool:
        return self.language == "python" and not self.order

    @property
    def file(self) -> str | None:
        return self.order.removeprefix("file: ") if self.order.startswith("file: ") else None

    @property
    def commands(self) -> list[str]:
        """What a shell is given: all of it, or line by line."""
        if self.order == "run: together":
            return self.text.replace("\\\n", "").splitlines()
        return [self.text] if self.order == "run" else []

    @property
    def fault(self) -> str | None:
        """Why nobody can tell what is to be done with the block, if so."""
        orders = ("run", "run: together") if self.language in SHELLS else ("",)
        if self.language not in (*SHELLS, "python") or self.file or self.order in orders:
            return None
        if self.order.startswith(REASON) and self.order.removeprefix(REASON).strip():
            return None
        return f"line {self.line}: a block of {self.language} without an order"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            found["order"] or "",
            found["language"],
            found["text"],
            text.count("\n", 0, found.start("text")) + 1,
        )
        for found in BLOCK.finditer(text)
    ]


def program(page: Path) -> str:
    """The page's Python, at the lines where the page has it; empty if there is none."""
    lines: list[str] = []
    for block in filter(lambda block: block.is_program, blocks(page)):
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join([*lines, ""]) if lines else ""
