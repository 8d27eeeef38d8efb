"""The documents are there, are up to date, and their links lead somewhere.

tests/docs runs their code.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
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

    import tacit.compat.crypten  # noqa: F401  # they do not depend on what else is imported

    assert generate.stale() == [], "run make docs"
