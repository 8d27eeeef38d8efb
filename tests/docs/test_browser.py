"""The site in a browser, opened from disk and over HTTP."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.docs.browser import PROGRAM, started

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")

# Types a word and resolves to the addresses of what is found.
SEARCH = """new Promise((found) => {
  const results = document.querySelector("[data-md-component=search-result] ol");
  new MutationObserver(() => {
    const links = [...results.querySelectorAll("a")];
    if (links.length) found(links.map((link) => link.href));
  }).observe(results, { childList: true, subtree: true });
  const field = document.querySelector("[data-md-component=search-query]");
  field.focus();
  field.value = "%s";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
})"""

# What is wider than its room: code, tables, drawings, words of a drawing, and the page itself.
TOO_WIDE = """[
  ...[...document.querySelectorAll("pre > code, figure, .md-typeset__scrollwrap, html")]
    .filter((one) => one.scrollWidth > one.clientWidth),
  ...[...document.querySelectorAll(".drawing text")].filter((words) => {
    const box = words.getBBox();
    return box.x < 0 || box.x + box.width > words.ownerSVGElement.viewBox.baseVal.width;
  }),
].map((one) => one.tagName + ": " + one.textContent.trim().slice(0, 80))"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with started(tmp_path_factory.mktemp("profile")) as browser:
        browser.resize(1280, 900)
        yield browser


@pytest.fixture(scope="module")
def server(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("way", ["from disk", "over HTTP"])
def test_the_search_finds_a_word(way, site, server, browser):
    root = site.as_uri() if way == "from disk" else server
    browser.open(f"{root}/guides/data.html")
    found = browser.value(SEARCH % "DataLoader")
    assert any(address.startswith(f"{root}/guides/training.html") for address in found), found


@pytest.mark.full("tests/docs/test_site.py counts the characters of lines")
def test_nothing_is_wider_than_a_screen_of_1280_pixels(site, browser):
    wide = {}
    for page in sorted(site.rglob("*.html")):
        browser.open(page.as_uri())
        wide[page.name] = browser.value(TOO_WIDE)
    assert {page: found for page, found in wide.items() if found} == {}
