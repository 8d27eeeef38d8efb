"""A view of a secret whose division is pending: it is divided once for both."""

from __future__ import annotations

import torch

import tacit


def test_two_products_with_views_of_one_product():
    """A product, its division, and two products with it: not a division for each view."""
    x, z, y = torch.rand(2, 3, 4), torch.rand(2, 3, 4), torch.rand(4, 5)

    def main(session):
        left, right = session.share(x, owner=0), session.share(z, owner=1)
        other = session.share(y, owner=1)
        with session.stats.scope("products") as cost:
            both = left * right
            first = both.view(6, 4) @ other
            second = both.view(6, 4) @ other
        return cost.rounds, session.reveal(first), session.reveal(second), session.reveal(both)

    for rounds, first, second, both in tacit.run(main)[1:]:
        assert rounds == 1 + 1 + 1 + 1
        for found in (first, second):
            torch.testing.assert_close(found, (x * z).view(6, 4) @ y, atol=2e-4, rtol=0)
        torch.testing.assert_close(both, x * z, atol=2e-4, rtol=0)


def test_a_view_of_one_element_without_dimensions():
    def main(session):
        x = session.share(torch.full((1, 1), 3.0), owner=0)
        both = x * x
        return session.reveal(both.view(()) + 1), session.reveal(both)

    for one, both in tacit.run(main):
        torch.testing.assert_close(one, torch.tensor(10.0), atol=2e-4, rtol=0)
        torch.testing.assert_close(both, torch.full((1, 1), 9.0), atol=2e-4, rtol=0)
