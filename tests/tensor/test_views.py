"""Aliases: writing to a tensor, or to a view of it, is seen where torch's is."""

import copy

import pytest
import torch
from tests.tensor.comparison import check, on_plain, on_secrets, tensor
from torch import nn

PROTOCOLS = [{"protocol": "cleartext", "parties": 1}, {"protocol": "trio", "parties": 3}]


@pytest.mark.parametrize("settings", PROTOCOLS, ids=["cleartext", "trio"])
def test_writing_to_views(settings):
    def program(x, y):
        x[:, 0] += 1
        x.view(-1)[3] = 7
        x[1] = y[0]
        x[x.shape[0] - 1, ::2] *= 2
        x.t()[2].sub_(y[:, 1])
        x.diagonal().mul_(3)
        x[None][0, :, 1:2].fill_(0.5)
        return x

    check(program, tensor(3, 4), tensor(3, 4, seed=1), **settings)


def test_views_see_what_is_written_to_their_base():
    def program(x):
        row, column, flat = x[1], x[:, 2], x.view(-1)
        deep = x.t()[1:].t()[0]
        x.add_(1)
        before = [row + 0, column + 0, flat + 0, deep + 0]
        row.mul_(2)
        deep.zero_()
        return x, before, row, column, flat, deep

    check(program, tensor(3, 4))


def test_a_reshape_that_copies_is_no_alias():
    def program(x):
        copied, alias = x.t().reshape(-1), x.reshape(-1)
        copied += 1
        alias += 2
        flat = x.permute(1, 0).flatten()
        flat.mul_(0)
        wide = x[:, :2].contiguous()
        wide.zero_()
        whole = x.contiguous()
        whole.sub_(1)
        return x, copied, alias, flat, wide

    check(program, tensor(3, 4))


def test_strides_and_views_are_torchs():
    def program(x):
        views = [x, x.t(), x[1:, ::2], x[:, 1], x.expand(2, 3, 4), x.unfold(1, 2, 1), x.t()[1]]
        views += [
            *x.split(2, 1),
            *x.unbind(1),
            x.diagonal(),
            x[None],
            x.as_strided((2, 2), (3, 1), 2),
        ]
        facts = [(v.stride(), v.storage_offset(), v._is_view(), v.is_contiguous()) for v in views]
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            x.t().view(-1)
        return str(facts), views

    check(program, tensor(3, 4))


def test_bits_are_written_through_views():
    def program(x):
        bits = x > 0
        bits[0] = True
        bits.t()[1].logical_not_()
        bits[1:, 2:] &= x[1:, 2:] < 1
        bits.view(-1)[5] = False
        return bits, bits.t().reshape(-1), bits.sum()

    check(program, tensor(3, 4))


def test_as_strided_sees_all_memory():
    def program(x):
        row = x[1]
        row.as_strided((2, 3), (4, 1), 1).add_(1)
        torch.as_strided(x, (3,), (5,)).zero_()
        return x, row

    check(program, tensor(3, 4))


def test_autograd_through_writes_to_views():
    def program(x, y):
        z = x * 2
        z[:, 0] = y[:, 1]
        z[1].mul_(y[0])
        column = z[:, 2]
        column += 1
        loss = (z * z).sum() + (column * 3).sum()
        loss.backward()
        return loss, x.grad, y.grad

    check(program, tensor(3, 4).requires_grad_(), tensor(3, 4, seed=1).requires_grad_())


def test_autograd_through_writes_to_a_base():
    def program(x):
        z = x * 1.5
        view = z.view(-1)[2:6]
        z.mul_(2)
        (view * view).sum().backward()
        return x.grad

    check(program, tensor(3, 4).requires_grad_())


def test_torch_notices_that_a_saved_tensor_was_changed():
    def program(x):
        y = x * 2
        z = (y * y).sum()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()
        return y

    check(program, tensor(3).requires_grad_())


def test_leaves_are_updated_in_place_without_grad():
    def program(x):
        (x * x).sum().backward()
        alias = x.detach()
        with torch.no_grad():
            x -= 0.5 * x.grad
            x[0].clamp_(min=0.1)
        x.grad.zero_()
        (x.sum() * 3).backward()
        return x, alias, x.grad

    check(program, tensor(3, 4).requires_grad_())


def test_data_can_be_read_and_set():
    def program(x, y):
        x.data.add_(1)
        old = x.data
        x.data = y
        y.add_(1)
        x.data = x.data[0]
        return x, old, y

    check(program, tensor(3, 4).requires_grad_(), tensor(3, 4, seed=1))


def test_shapes_change_in_place():
    def program(x):
        row = x[0, 1]
        x.squeeze_(0).t_().unsqueeze_(1)
        row.add_(1)
        x[0] = 3
        return x, row

    check(program, tensor(1, 2, 3))


def test_copies_are_no_aliases():
    def program(x):
        a, b, c = x.clone(), copy.deepcopy(x), x.to(torch.float64)
        d, e = x.detach().clone(), x.contiguous()
        x.add_(1)
        return a, b, c, d, e

    check(program, tensor(3, 4))


def test_parameters_are_seen_through_their_module():
    def program(weight):
        layer = nn.Linear(4, 3, bias=False)
        layer.weight = nn.Parameter(weight)
        first = layer(torch.ones(4))
        with torch.no_grad():
            layer.weight.mul_(0.5)
            layer.weight[0].zero_()
        nn.init.constant_(layer.weight[1:2], 0.25)
        return first, layer(torch.ones(4)), layer.double()(torch.ones(4, dtype=torch.float64))

    check(program, tensor(3, 4))


def test_what_has_the_destination_of_a_result():
    def program(x, y):
        out, low = torch.empty_like(x), torch.zeros_like(x)
        torch.mul(x, y, out=out)
        torch.add(x, y, out=low[:])
        return out, low

    check(program, tensor(3, 4), tensor(3, 4, seed=1))


def test_written_tensors_keep_shape_and_dtype():
    def program(x):
        whole = (x * 4).long()
        with pytest.raises(RuntimeError, match="can't be cast"):
            whole.add_(x)
        with pytest.raises(RuntimeError, match="shape"):
            x[0].add_(x)
        with pytest.raises(RuntimeError, match="shape"):
            torch.add(x[0], 1, out=x)
        x.lt_(0.5)
        whole[0] = x[1]
        return x, whole

    def plainly(x):
        whole = (x * 4).long()
        x.lt_(0.5)
        whole[0] = x[1]
        return x, whole

    x = tensor(2, 3)
    for mine, theirs in zip(on_secrets(program, x), on_plain(plainly, x), strict=True):
        assert torch.equal(mine, theirs)


def test_copies_of_modules():
    def program(weight):
        layer = nn.Linear(4, 3, bias=False)
        layer.weight = nn.Parameter(weight)
        layer(torch.ones(4)).sum().backward()
        other = copy.deepcopy(layer)
        with torch.no_grad():
            layer.weight.zero_()
        assert isinstance(other.weight, nn.Parameter)
        with torch.inference_mode():
            flat = other(torch.ones(2, 4)).reshape(-1)[1:].view(5)
        return other.weight, other.weight.grad, layer(torch.ones(4)), flat.clone()

    check(program, tensor(3, 4))
