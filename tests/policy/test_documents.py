"""The documents tell the truth: their code runs, their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def code_blocks() -> list[tuple[str, str]]:
    found = []
    for path in DOCUMENTS:
        blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        found += [(f"{path.relative_to(ROOT)}:{i}", block) for i, block in enumerate(blocks)]
    return found


BLOCKS = code_blocks()


@pytest.mark.parametrize("block", [b for _, b in BLOCKS], ids=[name for name, _ in BLOCKS])
def test_code_runs(block, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(block)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_readme_has_code():
    assert any(name.startswith("README.md") for name, _ in BLOCKS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
    local = [t for t in targets if "://" not in t and not t.startswith("mailto:")]
    missing = [t for t in local if not (path.parent / t).exists()]
    assert not missing


@pytest.mark.parametrize(
    "name",
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE"],
)
def test_the_documents_exist(name):
    assert (ROOT / name).read_text().strip()


def test_generated_pages_are_up_to_date():
    from docs import generate

    assert generate.stale() == [], "run make docs"
