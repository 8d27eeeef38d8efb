"""Operations that change the shape of a tensor in place."""

import torch

import tacit


def run(main):
    return tacit.run(main, parties=1, protocol="cleartext")[0]


def test_in_place_shape_changes_are_seen():
    def main(session):
        x = session.share(torch.arange(6.0).reshape(1, 2, 3), owner=0)
        x.squeeze_(0).transpose_(0, 1)
        return x.shape, session.reveal(x), session.reveal(x + 1)

    shape, same, more = run(main)
    assert shape == (3, 2)
    assert torch.equal(same, torch.arange(6.0).reshape(2, 3).T)
    assert torch.equal(more, same + 1)


def test_views_taken_before_still_alias():
    def main(session):
        x = session.share(torch.zeros(1, 2, 3), owner=0)
        row = x[0, 1]
        x.squeeze_(0)
        late = x[0]
        row.add_(1)
        x[0, 0] = 5
        return session.reveal(x), session.reveal(row), session.reveal(late)

    x, row, late = run(main)
    assert x.tolist() == [[5, 0, 0], [1, 1, 1]]
    assert row.tolist() == [1, 1, 1]
    assert late.tolist() == [5, 0, 0]


def test_a_vector_times_a_matrix_is_a_vector():
    def main(session):
        x, w = session.share([torch.ones(5), torch.ones(5, 4)], owner=0)
        x.requires_grad_()
        y = torch.matmul(x, w)
        y.sum().backward()
        return session.reveal(y), session.reveal(x.grad)

    y, grad = run(main)
    assert y.tolist() == [5.0] * 4
    assert grad.tolist() == [4.0] * 5
