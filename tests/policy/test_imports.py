"""No module is in a run-time cycle of imports; type-only circles are small and within a folder."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from tests.policy import sources

MOST_FILES = 5  # of a circle that only annotations close

Graph = Mapping[str, set[str]]


def graph(*, with_types: bool) -> Graph:
    """The modules of Tacit that each module imports."""
    known = sources.module_names()
    return {
        name: set(sources.imports(path, sources.tree(path), with_types=with_types))
        & known.keys() - {name}
        for name, path in known.items()
    }


def circles(edges: Graph) -> list[list[str]]:
    """Strongly connected components of more than one module, by Tarjan's algorithm."""
    number, low, stack, found = {}, {}, [], []
    numbers = count()

    def visit(node: str) -> None:
        number[node] = low[node] = next(numbers)
        stack.append(node)
        for target in edges[node]:
            if target not in number:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == number[node]:
            start = stack.index(node)
            found.append(sorted(stack[start:]))
            del stack[start:]

    for node in edges:
        if node not in number:
            visit(node)
    return [component for component in found if len(component) > 1]


def test_nothing_is_in_a_cycle_at_run_time():
    assert circles(graph(with_types=False)) == []


def test_circles_of_annotations_are_small_and_within_a_folder():
    for circle in circles(graph(with_types=True)):
        assert len(circle) <= MOST_FILES, circle
        folders = {sources.folder(sources.module_names()[name]) for name in circle} - {""}
        assert len(folders) == 1, circle


def test_circles_are_found():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}
    assert circles(edges) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}) == [["a", "b"], ["c", "d"]]
    assert circles({"a": {"b"}, "b": set()}) == []
