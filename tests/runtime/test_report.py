"""Reports of runs: what they count is what was counted, and they harm nobody who opens them."""

from __future__ import annotations

import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tests.runtime.party_files import NAMES, write_parties
from torch import nn

import tacit
from tacit.errors import ConfigError, PartyFailed
from tacit.runtime.report import ReportFile, compare_reports, read_report
from tacit.runtime.report.memory_samples import MOST_SAMPLES, MemorySamples
from tacit.runtime.report.party_report import KINDS
from tacit.runtime.report.report_file import PAGE_FILES
from tacit.runtime.report.timeline import COMPUTING, SENDING, WAITING, Doing, Timeline, coarser

COUNTED = ("rounds", "bytes_sent", "bytes_received", "messages")
PROTOCOLS = [
    {"protocol": "trio"},
    {"protocol": "additive", "parties": 2},
    {"protocol": "quad", "parties": 4},
]
TRANSPORTS = ["threads", pytest.param("processes", marks=pytest.mark.full("trio in test_failing"))]
SECRET = "31415926"  # a value that an error of the program holds


def train(session, steps=1):
    """Returns what the session has counted and revealed at the end."""
    torch.manual_seed(0)
    model = session.share(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)), owner=0)
    x = session.share(torch.randn(5, 4), owner=1)
    for _ in range(steps):
        model(x).square().mean().backward()
    session.reveal(model(x), to=1)
    for _ in range(3):
        session.reveal(x.sum())
    return session.stats, [(one.to, one.shape, one.where) for one in session.reveals]


def report_of(path: Path, main=train, **settings):
    return tacit.run(main, report=path, **settings), read_report(path)


def is_exact(party, counted) -> None:
    """Checks one party's report against its statistics, and against itself."""
    for name in COUNTED:
        assert party[name] == getattr(counted, name), name
        assert sum(place[name] for place in party["places"]) == party[name], name
    assert sum(party[kind] for kind in KINDS) == pytest.approx(party["seconds"])
    for kind in KINDS:
        assert sum(place[kind] for place in party["places"]) == pytest.approx(party[kind])
    assert sum(party["waited"].values()) == pytest.approx(party["waiting"])
    starts = [start for start, *_ in party["events"]]
    ends = [start + length for start, length, *_ in party["events"]]
    assert starts[0] == 0
    assert ends[:-1] == starts[1:]
    assert ends[-1] == pytest.approx(party["seconds"] * 1e6, abs=50)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("settings", PROTOCOLS, ids=lambda one: one["protocol"])
def test_totals_are_those_of_the_statistics(tmp_path, settings, transport):
    results, report = report_of(tmp_path / "run.html", transport=transport, **settings)
    assert [party["name"] for party in report["parties"]] == report["names"]
    for (counted, revealed), party in zip(results, report["parties"], strict=False):
        is_exact(party, counted)
        assert sum(one["count"] for one in party["reveals"]) == len(revealed) == 4
        one, three = party["reveals"]
        assert (one["count"], one["to"], one["shape"]) == (1, ["party1"], [5, 1])
        assert (three["count"], three["shape"]) == (3, [])
        assert (
            one["where"]
            == Path(revealed[0][2].split(":")[0]).name + ":" + revealed[0][2].split(":")[1]
        )


def test_a_report_sends_nothing(tmp_path):
    without = tacit.run(train)
    measured, _ = report_of(tmp_path / "run.html")
    for (a, _), (b, _) in zip(without, measured, strict=True):
        assert all(getattr(a, name) == getattr(b, name) for name in COUNTED)


def test_modules_have_their_part_of_forward_and_backward(tmp_path):
    _, report = report_of(tmp_path / "run.html")
    places = report["parties"][1]["places"]
    parts = {place["part"]: place for place in places}
    for part in ("Sequential.0 (Linear)", "Sequential.1 (ReLU)", "Sequential.2 (Linear)"):
        assert parts[part]["bytes_sent"] > 0
        assert parts[f"{part}, backward"]["bytes_sent"] > 0
    assert parts["share"]["line"].startswith("test_report.py:")
    assert parts["reveal"]["line"].endswith("in train")


def repeated(session, calls=7):
    """Returns what the session has counted, and the recording of a function of two modules."""
    torch.manual_seed(0)
    model = session.share(nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 1)), owner=0)
    x = session.share(torch.ones(8, 4), owner=0)
    step = session.repeated(model)
    with torch.no_grad():
        for _ in range(calls):
            step(x)
    return session.stats, step.recordings[0]


def test_replays_are_divided_among_modules_and_lines(tmp_path):
    results, report = report_of(tmp_path / "run.html", repeated)
    for (counted, recording), party in zip(results, report["parties"], strict=True):
        is_exact(party, counted)
        assert recording.num_replays == 4
        parts = {one["part"]: one for one in party["places"]}
        modules = [
            f"Sequential.{i} ({kind})" for i, kind in enumerate(("Linear", "ReLU", "Linear"))
        ]
        replays = [parts[f"{module}, replayed"] for module in modules]
        assert parts["repeated Sequential"]["calls"] == 7
        assert sum(one["bytes_sent"] for one in replays) == 4 * recording.bytes_sent
        assert sum(one["rounds"] for one in replays) == 4 * recording.rounds
        for module, replayed in zip(modules, replays, strict=True):
            normal = parts[module]  # of three calls
            assert (replayed["estimated"], normal["estimated"]) == (True, False)
            assert replayed["line"] == normal["line"]
            assert replayed["bytes_sent"] == pytest.approx(normal["bytes_sent"] * 4 / 3, rel=0.02)
            assert replayed["calls"] == normal["calls"] * 4 / 3
            assert (replayed["computing"] > 0) == (normal["computing"] > 0)


def test_without_replays_nothing_is_estimated(tmp_path):
    _, report = report_of(tmp_path / "run.html", lambda session: repeated(session, calls=3))
    places = [place for party in report["parties"] for place in party["places"]]
    assert not any(place["estimated"] for place in places)


def mapped(session):
    model = session.share(nn.Linear(4, 3), owner=0)
    x = session.share(torch.ones(12, 4), owner=1)
    with torch.no_grad():
        for y in session.map(model, x.split(2), in_flight=3):
            session.reveal(y)
    return session.stats, None


def test_calls_in_flight_keep_their_places(tmp_path):
    results, report = report_of(tmp_path / "run.html", mapped)
    for (counted, _), party in zip(results, report["parties"], strict=True):
        is_exact(party, counted)
        [own] = [one for one in party["places"] if one["part"] == "Linear"]
        assert own["calls"] >= 6
        assert own["bytes_sent"] > 0


def test_waits_on_a_slow_network_are_seen(tmp_path):
    _, report = report_of(tmp_path / "run.html", network={"latency": 0.02, "bandwidth": 1e9})
    assert report["network"] == "20 ms, 1000 Mbit/s"
    party = report["parties"][1]
    assert party["waiting"] >= 0.02 * (party["rounds"] - 2)  # those of the keys came before
    assert party["waiting"] <= party["seconds"]


# Runs that fail -----------------------------------------------------------------------------------


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x).cumprod(0)[0, 0].item()


def ask_for_values(session):
    model = session.share(Broken(), owner=0)
    return model(session.share(torch.ones(2, 2), owner=0))


def raise_at_one(session):
    x = session.share(torch.ones(4), owner=0)
    session.reveal(x)  # all parties have come to here
    if session.rank == 1:
        raise ValueError(SECRET)
    return session.reveal(x.relu())


@pytest.mark.parametrize("transport", ["threads", "processes"])
def test_a_failing_run_says_where_it_ended(tmp_path, transport):
    path = tmp_path / "run.html"
    with pytest.raises(PartyFailed):
        tacit.run(raise_at_one, report=path, transport=transport)
    report = read_report(path)
    by_name = {party["name"]: party for party in report["parties"]}
    ended = by_name["party1"]["ended"]
    assert (ended["kind"], ended["told"]) == ("ValueError", "ValueError")
    assert ended["line"].startswith("test_report.py:")
    assert ended["line"].endswith("in raise_at_one")
    assert SECRET not in path.read_text() + ReportFile(path, "").trace.read_text()
    waiting = by_name["party2"]
    assert waiting["ended"]["kind"] == "PeerClosed"
    assert waiting["ended"]["part"] in ("aten.relu", "reveal")


def test_the_module_in_which_a_run_ends_is_named(tmp_path):
    path = tmp_path / "run.html"
    with pytest.raises(PartyFailed):
        tacit.run(ask_for_values, report=path)
    ended = read_report(path)["parties"][0]["ended"]
    assert "in forward" in ended["line"]


# The trace ----------------------------------------------------------------------------------------


def test_the_trace_has_nested_slices_of_every_party(tmp_path):
    _, report = report_of(tmp_path / "run.html")
    trace = json.loads((tmp_path / "run.trace.json").read_text())
    named = [one for one in trace["traceEvents"] if one["name"] == "process_name"]
    assert [one["args"]["name"] for one in named] == report["names"]
    for party in report["parties"]:
        slices = [
            (one["ts"], -one["dur"], one["name"])
            for one in trace["traceEvents"]
            if one["ph"] == "X" and one["pid"] == party["rank"]
        ]
        assert {name for *_, name in slices} >= {"share", "reveal", "Sequential.0 (Linear)"}
        inside: list[float] = []  # the ends of the slices that are open
        for start, length, _ in sorted(slices):
            while inside and inside[-1] <= start:
                inside.pop()
            inside.append(start - length)
            assert inside == sorted(inside, reverse=True), "a slice ends after the one around it"
            assert len(inside) <= 2


# The page -----------------------------------------------------------------------------------------


ATTACK = "</script><script>alert(1)</script><!--<script>&amp;\u2028"


def test_names_cannot_become_code(tmp_path):
    def main(session):
        model = type(ATTACK, (nn.Linear,), {})(2, 2)
        session.share(model, owner=0)(session.share(torch.ones(1, 2), owner=0))

    path, names = tmp_path / "run.html", [ATTACK, "b", "c"]
    plain, attacked = tmp_path / "plain.html", ReportFile(path, ATTACK)
    tacit.run(main, report=attacked, names=names)
    tacit.run(train, report=plain)
    page, harmless = path.read_text(), plain.read_text()
    for mark in ("<script", "</script", "<!--", "alert("):
        assert page.lower().count(mark) == harmless.lower().count(mark) + (
            mark == "alert("
        ) * page.count("alert(1)")
    report = read_report(path)
    assert (report["title"], report["names"]) == (ATTACK, names)
    assert any(ATTACK in place["part"] for place in report["parties"][0]["places"])
    assert "innerHTML" not in harmless


def test_the_page_needs_no_network(tmp_path):
    report_of(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "default-src 'none'" in page
    outside = page.replace("http://www.w3.org/2000/svg", "")
    assert not any(mark in outside for mark in ("http:", "https:", "src=", "@import", "url("))
    assert not any(f"[[{name}]]" in page for name in (*PAGE_FILES, "report-data"))


def test_a_file_that_cannot_be_written_ends_the_run_before_it_begins(tmp_path):
    begun = []
    with pytest.raises(ConfigError, match="cannot be written"):
        tacit.run(begun.append, report=tmp_path / "missing" / "run.html")
    assert not begun


# Two reports --------------------------------------------------------------------------------------


def test_two_reports_are_compared(tmp_path):
    before, after, output = (tmp_path / f"{name}.html" for name in ("before", "after", "both"))
    report_of(before)
    report_of(after, steps=3)
    changes = {one.name: one for one in compare_reports(before, after, output)}
    first, second = (read_report(path)["parties"] for path in (before, after))
    for one, parties in (("before", first), ("after", second)):
        assert getattr(changes["rounds"], one) == max(party["rounds"] for party in parties)
        assert getattr(changes["bytes_sent"], one) == sum(party["bytes_sent"] for party in parties)
    assert changes["rounds"].ratio > 1
    with pytest.raises(ConfigError, match="holds no report"):
        read_report(output)


@pytest.mark.parametrize(
    "text",
    ["", "<p>", '<script id="report-data">{</script>', '<script id="report-data">[]</script>'],
)
def test_a_page_without_a_report_is_refused(tmp_path, text):
    (tmp_path / "page.html").write_text(text)
    with pytest.raises(ConfigError, match="holds no report"):
        read_report(tmp_path / "page.html")


# One party on its own machine ---------------------------------------------------------------------


def test_each_party_writes_what_it_knows(tmp_path):
    path = write_parties(tmp_path)

    def party(name):
        with tacit.connect(path, party=name, report=tmp_path / f"{name}.html") as session:
            x = session.share(torch.ones(3), owner="bob")
            session.reveal((x * x).relu())
        return session.stats

    with ThreadPoolExecutor(len(NAMES)) as pool:
        counted = dict(zip(NAMES, pool.map(party, NAMES), strict=True))
    for name in NAMES:
        report = read_report(tmp_path / f"{name}.html")
        [own] = report["parties"]
        assert (own["name"], report["names"]) == (name, list(NAMES))
        is_exact(own, counted[name])
        assert own["waited"].keys() <= set(NAMES) - {name}


def test_a_report_keeps_no_module(tmp_path):
    models = []

    def main(session):
        model = session.share(nn.Linear(2, 2), owner=0)
        model(session.share(torch.ones(1, 2), owner=0))
        models.append(weakref.ref(model))

    tacit.run(main, report=tmp_path / "run.html")
    gc.collect()
    assert [model() for model in models] == [None] * 3


# Bounded memory -----------------------------------------------------------------------------------


def test_a_long_timeline_stays_short_and_whole():
    timeline, now = Timeline(0.0, most=100), 0.0
    for i in range(20_000):
        now += 1e-3 if i % 3 else 1e-4
        timeline.add(now, Doing((COMPUTING, SENDING, WAITING)[i % 3], i % 7))
        assert len(timeline.events) <= 100
    assert timeline.step > 5e-6
    assert timeline.events[0].start == 0.0
    assert timeline.events[-1].end == now
    pairs = zip(timeline.events, timeline.events[1:], strict=False)
    assert all(a.end == b.start for a, b in pairs)


def test_what_took_longest_stands_for_merged_events():
    timeline = Timeline(0.0)
    short, longer, wait = Doing(COMPUTING, 0), Doing(SENDING, 1), Doing(WAITING, 2, 1)
    for end, doing in [(1.0, short), (3.0, longer), (4.0, short), (20.0, wait)]:
        timeline.add(end, doing)
    merged = list(coarser(timeline.events, 5.0))
    assert [(one.end, one.doing) for one in merged] == [(4.0, short), (20.0, wait)]


def test_samples_of_memory_stay_few():
    memory = MemorySamples()
    for i in range(5 * MOST_SAMPLES):
        memory.take(float(i))
    assert len(memory.samples) < MOST_SAMPLES
    assert memory.samples[0][0] == 0.0
    assert memory.peak >= max(size for _, size in memory.samples) > 0
