"""A rehearsal names what would go wrong, and counts what a run costs."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from threading import Thread
from time import perf_counter, process_time, thread_time

import pytest
import torch
from tests.runtime.test_plans_of_networks import LARGE, NETWORKS, QUICK, made
from torch import nn

import tacit
from tacit.runtime.rehearsal.forecast import forecast
from tacit.runtime.rehearsal.holdings import holding, opened
from tacit.runtime.rehearsal.meter import Meter, Spent
from tacit.runtime.rehearsal.rehearse import check
from tacit.tables import Category, Number
from tacit.transport import Stats
from tacit.transport.shaping import Link

CHEAP = [name for name in NETWORKS if name not in (*LARGE, *QUICK)]
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.full("others run")) for name in CHEAP)]
PROTOCOLS = [
    {"protocol": "trio"},
    {"protocol": "replicated"},
    {"protocol": "quad", "parties": 4},
    {"protocol": "additive", "parties": 2},
    {"protocol": "beaver", "parties": 2},
    {"protocol": "replicated-malicious"},
    {"protocol": "cleartext", "parties": 2},
]
BY_NAME = [one["protocol"] for one in PROTOCOLS]


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacit.errors.PrecisionWarning)
        yield


# Problems -----------------------------------------------------------------------------------------


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        nn.init.constant_(self.inner.weight, 10.0)

    def forward(self, x):
        return torch.relu(self.inner(x * 1e5))


def square(session):
    x = session.share(torch.tensor([1.0, 1e5]), owner=0)
    y = x**2
    return session.reveal(y + 1)


def scaled_layer(session):
    model = session.share(Scaled(), owner=0)
    return session.reveal(model(session.share(torch.ones(4, 3), owner=1)))


def negative_logarithm(session):
    x = session.share(torch.tensor([1.0, -2.0]), owner=0)
    return session.reveal(x.log().sum())


def differing_factor(session):
    x = session.share(torch.ones(2), owner=0)
    return session.reveal(x * (1 + session.rank))


class Noisy(nn.Module):
    def forward(self, x, noise):
        return torch.relu(x + noise)


def differing_in_a_module(session):
    x = session.share(torch.ones(2), owner=0)
    return session.reveal(nn.Sequential(Noisy())[0](x, float(session.rank)))


def without_rule(session):
    x = session.share(torch.eye(2) + 1, owner=0)
    y = torch.linalg.matrix_exp(x) * 2
    return session.reveal(y.sum())


class Unruled(nn.Module):
    def forward(self, x):
        return torch.linalg.matrix_exp(x) + (1e3 * x) ** 2


def without_rule_in_a_module(session):
    return session.reveal(Unruled()(session.share(torch.eye(2) + 1, owner=0)).sum())


def lost(session):
    x = session.share(torch.tensor([1.0, 3.0]), owner=0)
    return session.reveal(x * 1e-7)


def rough(session):
    x = session.share(torch.tensor([1.0, 3.0]), owner=0)
    y = x * 1e-5
    return session.reveal(y * 1e5)


def asked(session):
    x = session.share(torch.tensor([1.0, 3.0]), owner=0)
    if x.sum() > 0:
        x = x * 1e6
    return session.reveal(x)


FORWARD = {"Scaled.inner": Scaled.forward, "Noisy": Noisy.forward}


def line_of(job, text):
    """The line of a job that contains a text."""
    lines, first = inspect.getsourcelines(job)
    number = max(i for i, line in enumerate(lines) if text in line)
    return f"at test_rehearsal.py:{first + number} in {job.__name__}"


@pytest.mark.parametrize(
    ("job", "path", "op", "reason", "remedy", "text"),
    [
        (square, "", "aten.pow", "beyond the range", "range_bits", "x**2"),
        (scaled_layer, "Scaled.inner", "aten.addmm", "beyond the range", "scale it", "inner("),
        (negative_logarithm, "", "aten.log", "outside of its domain: x > 0", "clamp", "log()"),
        (differing_factor, "", "aten.mul", "PublicMismatch", "same public", "session.rank"),
        (differing_in_a_module, "Noisy", "aten.add", "PublicMismatch", "same public", "noise)"),
        (without_rule, "", "aten.linalg_matrix_exp", "no rule", "ops.md", "matrix_exp"),
        (lost, "", "aten.mul", "below half a unit", "fraction_bits", "1e-7"),
        (rough, "", "aten.mul", "far from that of float64", "calibrate", "1e5"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_problem_is_named(job, path, op, reason, remedy, text):
    [problem] = check(job).problems
    assert problem.path == path
    assert problem.op.startswith(op)
    assert reason in problem.reason
    assert remedy in problem.remedy
    assert problem.line == line_of(FORWARD.get(path, job), text)


def test_every_problem_of_a_line_in_a_module_is_named():
    unruled, large = check(without_rule_in_a_module).problems
    assert unruled.op.startswith("aten.linalg_matrix_exp")
    assert large.op.startswith("aten.pow")
    for problem in (unruled, large):
        assert problem.path == "Unruled"
        assert problem.line == line_of(Unruled.forward, "matrix_exp")


def test_a_question_is_answered_and_the_run_goes_on():
    question, overflow = check(asked).problems
    assert question.op == "bool()"
    assert "torch.where" in question.remedy
    assert question.line == line_of(asked, "if ")
    assert overflow.line == line_of(asked, "1e6")


def test_an_operation_without_rule_goes_on_with_the_plain_result():
    found = check(without_rule)
    wanted = 2 * torch.linalg.matrix_exp(torch.eye(2) + 1).sum()
    assert all(torch.allclose(x, wanted, atol=1e-3) for x in found.results)


def fails(session):
    session.share(torch.ones(2), owner=0)
    raise ValueError("of the job")


def test_an_error_of_the_job_is_a_problem():
    found = check(fails)
    [problem] = found.problems
    assert "ValueError: of the job" in problem.reason
    assert "not checked" in problem.remedy
    assert found.results is None
    assert found.rounds > 0


def test_settings_that_no_rehearsal_has():
    for settings in ({"transport": "processes"}, {"protocol": "enclave"}):
        with pytest.raises(tacit.errors.ConfigError):
            check(square, **settings)


# Clean jobs, and their costs ----------------------------------------------------------------------


def counted(session, value=None):
    return value, session.stats.rounds, session.stats.bytes_sent


def network_job(session, name, trains):
    network, inputs = made(name)
    model = session.share(network.train(trains), owner=0)
    x = session.share(inputs[0], owner=1)
    with torch.set_grad_enabled(trains):
        y = model(x)
    y = y[0] if isinstance(y, tuple) else y
    if trains:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        (y * y).mean().backward()
        optimizer.step()
    session.reveal(y.detach(), to=1)
    return counted(session)


def require_same_costs(found, run):
    """The rehearsal has no problem, and the costs of a run."""
    assert not found.problems, found.problems
    assert found.rounds == max(rounds for _, rounds, _ in run)
    assert list(found.bytes_sent[: len(run)]) == [sent for *_, sent in run]
    assert sum(place.rounds for place in found.places) >= found.rounds
    for rank, sent in enumerate(found.bytes_sent):
        assert sum(place.bytes_sent[rank] for place in found.places) == sent


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", NAMES)
def test_networks_are_clean_and_cost_what_a_run_does(name, trains):
    run = tacit.run(network_job, name, trains)
    require_same_costs(check(network_job, name, trains), run)


def training(session, optimizer="Adam"):
    torch.manual_seed(1)
    model = session.share(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), owner=0)
    x = session.share(torch.randn(6, 3), owner=1)
    labels = session.share(torch.tensor([0, 1, 1, 0, 1, 0]), owner=1)
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.05)
    for _ in range(2):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        steps.step()
    return counted(session, session.reveal(loss.detach()))


OTHERS = [one for one in PROTOCOLS[1:] if one["protocol"] != "replicated-malicious"]  # 11 s


@pytest.mark.parametrize(
    "settings",
    [PROTOCOLS[0], *(pytest.param(one, marks=pytest.mark.full("trio")) for one in OTHERS)],
    ids=lambda one: one["protocol"],
)
def test_every_protocol(settings):
    require_same_costs(check(training, **settings), tacit.run(training, **settings))


@pytest.mark.parametrize(
    "optimizer", ["SGD", *(pytest.param(x, marks=pytest.mark.full("Adam")) for x in ("RMSprop",))]
)
def test_optimizers_are_clean(optimizer):
    assert not check(training, optimizer).problems


def in_place(session):
    x = session.share(torch.arange(12.0).reshape(3, 4), owner=0)
    x[1] = x[0] * 2
    x.t()[2:].add_(1).mul_(x[:, :2].t())
    y = torch.cat([x.flatten()[::2], x.permute(1, 0)[0]])
    y.masked_fill_(y > 6, float("-inf"))
    first, index = torch.stack([y, -y]).max(dim=0)
    total = first.clone().sub_(index).softmax(0).unsqueeze(0).expand(3, -1).contiguous()
    total.transpose_(0, 1)
    return counted(session, session.reveal(total.sum()))


def test_views_and_operations_in_place():
    require_same_costs(check(in_place), tacit.run(in_place))


def repeats(session):
    model = session.share(nn.Linear(3, 2), owner=0)
    step = session.repeated(lambda x: model(x).relu())
    with torch.no_grad():
        for i in range(5):
            y = step(session.share(torch.full((2, 3), float(i)), owner=1))
        y = y * 1e-5 * 1e5 if session.config.fraction_bits < 16 else y + 1
    return counted(session, session.reveal(y.sum()))


def test_replays_are_counted():
    found = check(repeats)
    require_same_costs(found, tacit.run(repeats))
    assert any(place.where.startswith("replays of ") for place in found.places)


def maps(session):
    model = session.share(nn.Linear(3, 2), owner=0)
    x = session.share(torch.ones(8, 3), owner=1)
    with torch.no_grad():
        y = torch.cat(list(session.map(model, x.split(2))))
    return counted(session, session.reveal((y + 1).sum()))


def test_mapped_calls_are_counted():
    require_same_costs(check(maps), tacit.run(maps))


def joins(session):
    kinds = {"age": Number(), "ward": Category(["A", "B"]), "crp": Number()}
    made = session.join(
        Path("stays.csv"), Path("lab.csv.gz"), "patient", size="reveal", columns=kinds
    )
    found = session.intersect(Path("stays.csv"), Path("lab.csv.gz"), ["patient"], to=0)
    matched = 0 if found is None else int(found.sum())
    return len(made), made.names, matched, session.reveal(made["ward=A"].sum())


def test_tables_of_a_join_may_be_made_up():
    sizes = {"stays.csv": "9:ward,patient,age", "lab.csv.gz": "6:crp,patient"}
    found = check(joins, stand_ins=sizes)
    assert not found.problems, found.problems
    assert found.stand_ins == {"stays.csv": "9x3", "lab.csv.gz": "6x2"}
    for rank, (rows, names, matched, wards) in enumerate(found.results):
        assert (rows, matched) == (6, 6 * (rank == 0))
        assert names == ("ward=A", "ward=B", "age", "crp")
        assert float(wards) == 3  # A and B take turns
    [problem] = check(joins, stand_ins=sizes | {"stays.csv": "9:ward,age"}).problems
    assert "--stand-in stays.csv=ROWS:patient,NAME" in problem.remedy


def processor_seconds(action):
    """The processor time of this process, the smaller of two."""
    found = []
    for _ in range(2):
        before = process_time()
        action()
        found.append(process_time() - before)
    return min(found)


@pytest.mark.full("what it costs; the other tests run it")
def test_a_rehearsal_takes_little_more_than_a_run():
    """A private run and five plain ones, and half of that for a busy machine."""
    network, inputs = made("alexnet")

    def plain():
        with torch.no_grad():
            network(inputs[0])

    private = processor_seconds(lambda: tacit.run(network_job, "alexnet", False))
    rehearsed = processor_seconds(lambda: check(network_job, "alexnet", False))
    assert rehearsed < 1.5 * (private + 5 * processor_seconds(plain))


def linked(session):
    """Returns the seconds of work that waits for its link: many rounds, and then many bytes."""
    start = perf_counter()
    x = session.share(torch.ones(8), owner=0)
    for _ in range(6):
        x = x.relu()
    large = session.share(torch.ones(1 << 17), owner=1)
    session.reveal(large * large)
    session.reveal(x)
    return perf_counter() - start


def test_the_forecast_is_near_a_run_on_such_a_link():
    """The link takes most of the time, and a busy machine little; suite `rehearsal` has models."""
    found = [check(linked) for _ in range(2)]
    forecast = min(one.seconds["wan"] for one in found)
    measured = min(max(tacit.run(linked, network="wan")) for _ in range(2))
    latency, bandwidth = 0.04 * found[0].rounds, 8 * max(found[0].bytes_sent) / 100e6
    assert min(latency, bandwidth) > 0.1  # seconds: both count
    assert 0.7 * measured < forecast < 1.3 * measured


# What it is made of -------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", PROTOCOLS, ids=BY_NAME)
@pytest.mark.parametrize("ring", [64, 32])
def test_the_threads_together_know_a_secret(settings, ring):
    """The sum of what all members hold is what a reveal opens, in every state of a share."""
    held: dict[int, list] = {}

    def job(session):
        x = session.share(torch.tensor([1.5, -2.25, 3.0]), owner=0)
        whole = session.share(torch.tensor([4, -5]), owner=1)
        y = session.share(torch.tensor([0.5, 2.0, -1.0]), owner=1)
        values = [x, x * y, x > 0, whole, whole + whole[0], (x * y).relu(), x * 0.3]
        held[session.rank] = [holding(session.numbers, one.value) for one in values]
        return [session.reveal(one) for one in values]

    ring_settings = {"ring": ring, "fraction_bits": 16 if ring == 64 else 8}
    if ring == 32 and settings["protocol"] == "replicated-malicious":
        pytest.skip("this protocol needs 64 bits")
    [revealed, *_] = tacit.run(job, **settings, **ring_settings)
    for number, want in enumerate(revealed):
        found = opened([held[rank][number] for rank in sorted(held)])
        tolerance = 0.0 if not want.is_floating_point() else 2.0 ** (2 - ring // 4)
        assert found is not None
        assert found.shape == want.shape
        assert torch.allclose(found.double(), want.double(), atol=tolerance, rtol=0)


def busy(seconds):
    """Computes for so many seconds of this thread."""
    end = thread_time() + seconds
    while thread_time() < end:
        torch.ones(1000).sum()


def test_what_others_compute_meanwhile_is_not_counted():
    """Other parties are threads of the same machine; on their own machines they cost no time."""
    meter = Meter(Stats([1]), "outside")
    meter.read()
    other = Thread(target=busy, args=(0.2,))
    other.start()
    other.join()
    meter.read("waited")
    busy(0.05)
    meter.read("computed")
    with meter.rehearsing():
        busy(0.05)
    meter.read("rehearsed")
    lane = Thread(target=meter.counted(busy), args=(0.1,))
    lane.start()
    lane.join()
    meter.read("lane")
    seconds = {one.where: one.seconds for one in meter.records[1:]}
    assert seconds["waited"] < 0.1
    assert 0.05 <= seconds["computed"] < 0.1
    assert seconds["rehearsed"] < 0.04
    assert 0.1 <= seconds["lane"] < 0.2


def test_times_follow_from_rounds_bytes_and_computing():
    link = Link(latency=1.0, bandwidth=8.0)  # a byte takes a second

    def spent(seconds=0.0, rounds=0, received=(), ahead=()):
        return Spent("", seconds, rounds, 0, dict(received), dict(ahead))

    # Two parties compute 1 s and 2 s, exchange 3 bytes in one round, then in two rounds 4 bytes.
    both = [
        [spent(1, 1, [(1, 3)]), spent(0, 2, [(1, 4)])],
        [spent(2, 1, [(0, 3)]), spent(0, 2, [(0, 4)])],
    ]
    assert forecast(both, link) == pytest.approx(2 + (1 + 3) + (2 + 4))
    # A dealer sends 10 bytes ahead; its receiver computes meanwhile, and waits for the rest.
    dealt = [[spent(0), spent(0)], [spent(3), spent(0, 1, [(0, 0)], [(0, 10)])]]
    assert forecast(dealt, link) == pytest.approx(10 + 1 + 1)
