"""A hook of mkdocs: files beside docs/ that pages link to are part of the site, at its root.

Links are written as the repository has them: `docs/...` in a page of the root, `../...` in others.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = ("SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
EXAMPLES = ("*.py", "*.ipynb", "*/*.py", "*/*.toml", "*/*.sh")
OUTSIDE = re.compile(rf"\]\(\.\./((?:\.\./)*(?:{'|'.join(PAGES)}|examples/))")


def on_files(files: Any, config: Any) -> Any:
    examples = [path for pattern in EXAMPLES for path in (ROOT / "examples").glob(pattern)]
    for path in [*(ROOT / page for page in PAGES), *examples]:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    if page.file.src_uri in PAGES:
        return markdown.replace("](docs/", "](")
    return OUTSIDE.sub(r"](\1", markdown)
