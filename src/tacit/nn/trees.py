"""Decision trees that are evaluated without a branch: structure, thresholds and leaves are secret.

All nodes are compared at once, and all leaves (the matrix form of trees of Nakandala et al., OSDI
2020). What is public: the numbers of trees, features and outputs, and a bound on the leaves of a
tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from .answers import answer, require_link


class Leaf(NamedTuple):
    """What a tree says at its end, a number for each output."""

    values: Sequence[float]


class Split(NamedTuple):
    """Rows go left if sign * x[feature] <= threshold. The sign is 1 or -1."""

    feature: int
    threshold: float
    left: Split | Leaf
    right: Split | Leaf
    sign: int = 1


Tree = Split | Leaf


def below(feature: int, threshold: float, true: Tree, false: Tree) -> Split:
    """Returns the split for x[feature] < threshold: -x <= -threshold, with exchanged branches."""
    return Split(feature, -threshold, false, true, sign=-1)


class TreeEnsemble(nn.Module):
    """The sum, or the average, of trees through a link: (n, features) to an answer.

    A row goes to the leaf whose path agrees with all comparisons. With c = +1 for a left turn on
    the path of a leaf, -1 for a right turn and 0 for nodes that are not on it, the sum of c over
    the nodes where the row would go left is the number of left turns for this leaf, and less for
    all others. About 13 rounds of `trio` without the link, whatever depth and number of trees
    are. The module holds trees * leaves^2 numbers: for trees of some hundred leaves at most.
    """

    def __init__(
        self,
        trees: int,
        leaves: int,
        features: int,
        outputs: int = 1,
        link: str = "identity",
        *,
        average: bool = False,
    ) -> None:
        super().__init__()
        nodes = max(leaves - 1, 1)
        self.select = _zeros(trees * nodes, features)
        self.threshold = _zeros(trees * nodes)
        self.turns = _zeros(trees, nodes, leaves)
        self.fewest = _zeros(trees, 1, leaves)
        self.fewest.fill_(0.5)  # no row gets to a leaf that a tree does not have
        self.values = _zeros(trees * leaves, outputs)
        self.base = _zeros(outputs)
        self.link = require_link(link, "TreeEnsemble")
        self.average = average

    def forward(self, x: Tensor) -> Tensor:
        return answer(self.scores(x), self.link)

    def scores(self, x: Tensor) -> Tensor:
        """The sum or average of the trees, (n, outputs), before the link."""
        trees, nodes, leaves = self.turns.shape
        chosen = nn.functional.linear(x.to(self.select.dtype), self.select)
        left = (chosen <= self.threshold).to(chosen.dtype).view(-1, trees, nodes)
        reached = left.transpose(0, 1) @ self.turns > self.fewest
        at_leaf = reached.to(chosen.dtype).transpose(0, 1).reshape(-1, trees * leaves)
        total = at_leaf @ self.values
        return self.base + (total / trees if self.average else total)

    def padded(self, leaves: int | None) -> TreeEnsemble:
        """Returns the same trees with room for more leaves, which hides how many they have."""
        trees, nodes, own = self.turns.shape
        if leaves is None:
            return self
        if leaves < own:
            raise ConfigError(f"{leaves=}", limit=f"a tree has {own} leaves", subject="trees")
        features, outputs = self.select.shape[1], self.values.shape[1]
        made = TreeEnsemble(trees, leaves, features, outputs, self.link, average=self.average)
        by_tree = (trees, -1)
        made.select.view(*by_tree, features)[:, :nodes] = self.select.view(*by_tree, features)
        made.threshold.view(by_tree)[:, :nodes] = self.threshold.view(by_tree)
        made.turns[:, :nodes, :own] = self.turns
        made.fewest[..., :own] = self.fewest
        made.values.view(*by_tree, outputs)[:, :own] = self.values.view(*by_tree, outputs)
        made.base.copy_(self.base)
        return made

    def extra_repr(self) -> str:
        trees, _, leaves = self.turns.shape
        outputs, features = self.values.shape[1], self.select.shape[1]
        return (
            f"{trees}, {leaves}, {features}, {outputs}, {self.link!r}"
            f"{', average=True' if self.average else ''}"
        )


def _zeros(*shape: int) -> nn.Buffer:
    return nn.Buffer(torch.zeros(shape, dtype=torch.float64))


def ensemble(
    trees: Sequence[Tree],
    features: int,
    base: Sequence[float],
    link: str,
    *,
    average: bool = False,
) -> TreeEnsemble:
    """Returns the module of these trees; `base` is added to their sum or average."""
    paths = [list(_paths(tree)) for tree in trees]
    leaves = max(len(one) for one in paths)
    made = TreeEnsemble(len(trees), leaves, features, len(base), link, average=average)
    for number, found in enumerate(paths):
        _fill(made, number, found)
    made.base.copy_(torch.tensor(base))
    return made


Path = list[tuple[Split, int]]  # the splits above a leaf, and the turn at each: 1 left, -1 right


def _paths(tree: Tree) -> Iterator[tuple[Path, Leaf]]:
    """Yields the leaves from left to right, each with its path."""
    waiting: list[tuple[Path, Tree]] = [([], tree)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, Leaf):
            yield path, node
        else:
            waiting.append(([*path, (node, -1)], node.right))
            waiting.append(([*path, (node, 1)], node.left))


def _fill(made: TreeEnsemble, number: int, paths: Sequence[tuple[Path, Leaf]]) -> None:
    """Writes one tree into the buffers of the module."""
    _, nodes, leaves = made.turns.shape
    places: dict[int, int] = {}
    for place, (path, leaf) in enumerate(paths):
        for split, turn in path:
            node = places.setdefault(id(split), len(places))
            made.select[number * nodes + node, split.feature] = split.sign
            made.threshold[number * nodes + node] = split.threshold
            made.turns[number, node, place] = turn
        made.fewest[number, 0, place] = sum(turn == 1 for _, turn in path) - 0.5
        made.values[number * leaves + place] = torch.tensor(leaf.values, dtype=torch.float64)
