"""CrypTen's tensors: what a program of one party computes with them is what torch computes."""

import pytest
import torch

import tacit.compat.crypten as crypten
from tacit.errors import ConfigError


@pytest.fixture(autouse=True)
def alone():
    crypten.init()
    yield
    crypten.uninit()


def test_sums_and_products():
    x, y = torch.tensor([1.0, -2.0, 3.5]), torch.tensor([0.5, 4.0, -1.0])
    a, b = crypten.cryptensor(x), crypten.cryptensor(y)
    for made, plain in (
        (a + b, x + y),
        (a - y, x - y),
        (y - a, y - x),
        (2 - a, 2 - x),
        (a * b, x * y),
        (a @ b, x @ y),
        (a / 4, x / 4),
        (-a, -x),
    ):
        assert torch.allclose(made.get_plain_text(), plain, atol=1e-3)


def test_what_is_written_in_place():
    x = torch.tensor([1.0, 2.0])
    a = crypten.cryptensor(x)
    a += 1
    a.mul_(3).sub_(x)
    assert torch.equal(a.get_plain_text(), (x + 1) * 3 - x)


def test_gradients():
    x = torch.tensor([1.0, -2.0, 3.5], requires_grad=True)
    a = crypten.cryptensor(x)
    assert a.requires_grad
    assert a.grad is None
    (a * a).backward(crypten.cryptensor([1.0, 2.0, 3.0]))
    (x * x).backward(torch.tensor([1.0, 2.0, 3.0]))
    assert torch.allclose(a.grad.get_plain_text(), x.grad, atol=1e-3)
    with pytest.raises(RuntimeError, match="in-place"):
        a.add_(1)
    with crypten.no_grad():
        assert not (a * a).requires_grad


def test_precision():
    assert crypten.cryptensor([1, 2], precision=0).get_plain_text().dtype == torch.int64
    assert crypten.cryptensor([0.3], precision=2).get_plain_text() == 0.25
    with pytest.raises(ConfigError, match="precision_bits"):
        crypten.cryptensor([0.3], precision=40)


def test_a_session_is_needed():
    crypten.uninit()
    assert not crypten.is_initialized()
    with pytest.raises(ConfigError, match=r"crypten\.init"):
        crypten.cryptensor([1.0])
