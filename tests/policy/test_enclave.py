"""What is trusted stays inside: nothing else of the enclave's package leads to its modules."""

from __future__ import annotations

from tests.policy.test_imports import Graph, graph

TRUSTED = "tacit.enclave.trusted"


def reached(edges: Graph, start: str) -> set[str]:
    """All modules that importing one module imports, with the packages that they are in."""
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in found and name in edges:
            found.add(name)
            waiting += [*edges[name], name.rpartition(".")[0]]
    return found


def is_trusted(name: str) -> bool:
    return name.startswith(TRUSTED)


def test_nothing_of_the_host_leads_to_what_is_trusted():
    edges = graph(with_types=True)
    outside = [n for n in edges if n.startswith("tacit.enclave") and not is_trusted(n)]
    assert len(outside) > 10
    wrong = {
        name: trusted
        for name in outside
        if (trusted := [*filter(is_trusted, reached(edges, name))])
    }
    assert not wrong


def test_what_leads_there_is_found():
    edges = {
        "tacit": set(),
        "tacit.a": {"tacit.b"},
        "tacit.b": {f"{TRUSTED}.x"},
        f"{TRUSTED}.x": set(),
    }
    assert any(map(is_trusted, reached(edges, "tacit.a")))
    assert not any(map(is_trusted, reached(edges, "tacit")))
