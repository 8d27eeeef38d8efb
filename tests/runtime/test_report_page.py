"""The page of a report in a browser: it draws itself, and names stay names."""

from __future__ import annotations

import pytest
import torch
from tests.docs.browser import PROGRAM, started
from torch import nn

import tacit
from tacit.runtime.report import ReportFile, compare_reports

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed"),
    pytest.mark.full("test_report.py looks at the text of the page"),
]
ATTACK = "<img src=x onerror='window.harmed = 1'></script><script>window.harmed = 1</script>"
HARMED = "window.harmed === undefined && document.querySelectorAll('img').length === 0"
TITLES = "[...document.querySelectorAll('h2')].map((one) => one.textContent)"
COLOURS = """(() => {
  const canvas = document.querySelector("canvas");
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(all.buffer)).size;
})()"""
PRESS = """(() => {
  const found = [...document.querySelectorAll("th, button")];
  found.find((one) => one.textContent.trim().startsWith("%s")).click();
})()"""


def main(session):
    model = type(ATTACK, (nn.Linear,), {})(4, 2)
    y = session.share(model, owner=0)(session.share(torch.ones(3, 4), owner=1))
    session.reveal(y.relu(), to=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name in ("before", "after"):
        path = folder / f"{name}.html"
        tacit.run(main, report=ReportFile(path, ATTACK), names=[ATTACK, "bob", "carol"])
    compare_reports(folder / "before.html", folder / "after.html", folder / "both.html")
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with started(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("width", [1280, 400])
def test_a_report_draws_itself(folder, browser, width):
    browser.resize(width, 1600)
    browser.open((folder / "after.html").as_uri())
    assert browser.value("document.querySelector('h1').textContent") == ATTACK
    assert browser.value(HARMED)
    assert browser.value(TITLES) == [
        "What each party did",
        "Timeline",
        "Where it goes",
        "Between parties",
        "Revealed",
        "Memory",
        "How to read this",
    ]
    assert browser.value("document.documentElement.scrollWidth") <= width
    browser.value(
        "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
    )
    assert browser.value(COLOURS) > 5
    browser.value(PRESS % "zoom in")
    assert browser.value(COLOURS) > 5


def test_tables_are_sorted_and_grouped(folder, browser):
    browser.open((folder / "after.html").as_uri())
    browser.value(PRESS % "part of the program")
    names = browser.value("[...document.querySelectorAll('td.name')].map((one) => one.textContent)")
    assert "share" in names
    browser.value(PRESS % "line")
    assert "test_report_page.py" in browser.value(
        "[...document.querySelectorAll('td.name')].map((one) => one.textContent).join()"
    )


def test_a_comparison_draws_itself(folder, browser):
    browser.open((folder / "both.html").as_uri())
    assert browser.value(HARMED)
    assert browser.value(TITLES) == ["By part of the program", "Revealed"]
    assert "Both runs reveal the same" in browser.value("document.body.textContent")
