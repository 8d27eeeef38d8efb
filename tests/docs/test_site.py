"""The site is built without a warning, has every page, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed: make setup does it")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site):
    for page in DOCS.rglob("*.md"):
        relative = page.relative_to(DOCS).with_suffix("")
        folder = relative.parent if relative.name == "index" else relative
        assert (site / folder / "index.html").exists(), page
    assert (site / "SECURITY" / "index.html").exists()
    assert (site / "examples" / "01_hello.py").exists()


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert [page for page in pages if page not in menu] == []


def test_nothing_is_fetched_from_elsewhere(site):
    """Styles, scripts, fonts and pictures come with the site; links may lead anywhere."""
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]*src=[\"']?https?:|<link[^>]*stylesheet[^>]*https?:"
    )
    pages = list(Path(site).rglob("*.html"))
    assert pages
    assert [page for page in pages if loads.search(page.read_text())] == []
