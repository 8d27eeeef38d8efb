"""The site is built without a warning, has every page, and needs nothing from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.docs.pages import DOCUMENTS, ROOT, blocks, name

DOCS = ROOT / "docs"
ADDRESS = re.compile(r"<(?P<tag>\w+)[^>]*?\s(?:href|src)=\"?(?P<address>[^\s\">]+)")
WIDEST = 100  # characters of a line of code that tests/docs/test_browser.py sees without scrolling


def addresses(site: Path) -> list[tuple[Path, str, str]]:
    """Page, tag and address of everything that the pages load or link to."""
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert pages
    return [
        (page, found["tag"], found["address"])
        for page in pages
        for found in ADDRESS.finditer(page.read_text())
    ]


def test_every_page_is_there(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists(), page
    assert (site / "SECURITY.html").exists()
    assert (site / "examples" / "01_hello.py").exists()


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert [page for page in pages if page not in menu] == []


def test_nothing_is_fetched_from_elsewhere(site):
    """Styles, scripts, fonts and pictures come with the site; links may lead anywhere."""
    loaded = [(page, tag, to) for page, tag, to in addresses(site) if tag != "a"]
    assert len(loaded) > 100
    assert [found for found in loaded if urlsplit(found[2]).netloc] == []
    assert [style for style in site.rglob("*.css") if "url(http" in style.read_text()] == []


def test_links_lead_to_files(site):
    """From disk nobody finds index.html for a folder, or the root of the site for `/`."""
    own = [found for found in addresses(site) if not re.match(r"\w+:|#", found[2])]
    assert len(own) > 1000
    wrong = {
        (str(page.relative_to(site)), to)
        for page, _, to in own
        if to.startswith("/") or not (page.parent / unquote(urlsplit(to).path)).is_file()
    }
    assert wrong == set()


def test_the_index_of_the_search_is_a_script(site):
    """A page from disk may load scripts, and no other file."""
    script = (site / "search" / "search_index.js").read_text()
    index = json.loads(script.removeprefix("var __index = "))
    assert any("DataLoader" in entry["text"] for entry in index["docs"])


def test_code_is_not_too_wide():
    pages = [page for page in DOCUMENTS if page.name != "README.md"]  # which the site lacks
    lines = [(name(p), line) for p in pages for b in blocks(p) for line in b.text.splitlines()]
    assert [found for found in lines if len(found[1]) > WIDEST] == []
