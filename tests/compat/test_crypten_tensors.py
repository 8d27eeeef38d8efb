"""CrypTen's tensors: what a program of one party computes with them is what torch computes."""

import warnings
from pickle import UnpicklingError

import pytest
import torch

import tacit.compat.crypten as crypten
from tacit.compat.crypten.encoder import FixedPointEncoder, nearest_integer_division
from tacit.errors import ConfigError, RangeError


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
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of gradients of other tensors than leaves
        assert (a * a).grad is None
    with pytest.raises(RuntimeError, match="in-place"):
        a.add_(1)
    with crypten.no_grad():
        assert not (a * a).requires_grad


def test_precision():
    assert crypten.cryptensor([1, 2], precision=0).get_plain_text().dtype == torch.int64
    assert crypten.cryptensor([0.3], precision=2).get_plain_text() == 0.25
    with pytest.raises(ConfigError, match="precision_bits"):
        crypten.cryptensor([0.3], precision=40)


def test_encoder():
    encoder = FixedPointEncoder(precision_bits=4)
    assert encoder.encode([1.5, -0.25]).tolist() == [24, -4]
    secret = crypten.cryptensor([1.0])
    assert encoder.encode(secret) is secret
    numbers = torch.arange(-13, 14)
    for divisor in (1, 3, 4):
        half_up = torch.div(numbers.abs() * 2 + divisor - 1, 2 * divisor, rounding_mode="floor")
        assert torch.equal(nearest_integer_division(numbers, divisor), half_up * numbers.sign())
    with pytest.raises(AssertionError, match="positive"):
        nearest_integer_division(numbers, 0)


def test_several_tensors_are_revealed():
    x, y = crypten.cryptensor([1.0]), crypten.cryptensor([2.0])
    assert crypten.mpc.MPCTensor.reveal_batch([x, y]) == [1 << 16, 2 << 16]
    assert crypten.mpc.MPCTensor.reveal_batch(y) == 2 << 16


def test_sections_of_settings():
    assert crypten.cfg["functions"]["exp_iterations"] == crypten.cfg.functions.exp_iterations == 8


def test_a_session_is_needed():
    crypten.uninit()
    assert not crypten.is_initialized()
    with pytest.raises(ConfigError, match=r"crypten\.init"):
        crypten.cryptensor([1.0])


def test_public_gradients_become_secret():
    x = crypten.cryptensor([1.0, 2.0], requires_grad=True)
    (x * 2).backward(torch.ones(2))
    assert x.grad.get_plain_text().tolist() == [2.0, 2.0]
    x.grad = None
    assert x.grad is None
    x.data.add_(1)
    x.data = x.data * 2
    assert x.get_plain_text().tolist() == [4.0, 6.0]
    assert x.requires_grad


def test_seeds_repeat_public_numbers():
    def drawn():
        crypten.manual_seed(1, 2, 3)
        return torch.rand(8), crypten.rand(8).get_plain_text()

    (public, secret), (again, other) = drawn(), drawn()
    assert torch.equal(public, again)
    assert not torch.equal(secret, other)


def test_files_of_modules(tmp_path):
    class Own(torch.nn.Linear):
        pass

    Own.__qualname__ = "Own"
    globals()["Own"] = Own
    file = tmp_path / "model.pth"
    crypten.save_from_party(torch.nn.Sequential(Own(2, 3), torch.nn.ReLU()), file)
    with pytest.raises(UnpicklingError, match="Own"):
        crypten.load_from_party(file)
    read = crypten.load_from_party(file, model_class=Own)
    assert isinstance(read[0], Own)
    assert read.src == 0
    with pytest.raises(SyntaxError, match="load_from_party"):
        crypten.load(file, src=0)
    with pytest.raises(NotImplementedError):
        crypten.save_from_party(crypten.cryptensor([1.0]), file)


def test_debugging():
    assert not crypten.debug.debug_mode()
    crypten.uninit()
    with crypten.cfg.temp_override({"debug.debug_mode": True}):
        assert crypten.debug.debug_mode()
        crypten.init()
        with pytest.raises(RangeError):
            crypten.cryptensor([1000.0]) * crypten.cryptensor([2000.0])


def test_a_launcher_without_keys_is_refused(monkeypatch):
    crypten.uninit()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"tacit\.connect"):
        crypten.init()
    assert not crypten.is_initialized()


def test_losses_of_flipped_labels_and_signs():
    x, y = torch.tensor([0.5, -1.0, 2.0], requires_grad=True), torch.tensor([1.0, 0.0, 0.0])
    a = crypten.cryptensor(x.detach(), requires_grad=True)
    p = x.sigmoid()
    plain = torch.nn.functional.binary_cross_entropy(0.3 * p + 0.7 * (1 - p), y)
    loss = a.rappor_loss(crypten.cryptensor(y), alpha=0.3)
    assert torch.allclose(loss.get_plain_text(), plain, atol=1e-3)
    plain.backward()
    loss.backward()
    assert torch.allclose(a.grad.get_plain_text(), x.grad, atol=1e-3)
    a.grad = None
    a.sign().sum().backward()
    assert torch.equal(a.grad.get_plain_text(), torch.zeros(3))


def test_arguments_that_only_crypten_has(caplog):
    x = torch.tensor([0.25, 0.5])
    assert torch.allclose(
        crypten.cryptensor(x).log(input_in_01=True).get_plain_text(), x.log(), atol=1e-3
    )
    assert crypten.rand(2, 3, device="cpu", cryptensor_type="mpc").size() == (2, 3)
    assert crypten.mpc.MPCTensor.randn(4).size() == (4,)
    with caplog.at_level("INFO"):
        crypten.log("told")
        crypten.log("louder", level=40)
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("INFO", "told"),
        ("ERROR", "louder"),
    ]
    with pytest.raises(AssertionError, match="list of ranks"):
        crypten.print("nobody", dst="0")
    encoder = crypten.cryptensor(x).encoder
    assert encoder.scale == 2**16
    assert torch.equal(encoder.decode(encoder.encode(x)), x)
    assert "HIDDEN" in repr(crypten.cryptensor(x))


def test_preparations_are_not_needed():
    assert crypten.mpc.ttp_required() is False
    crypten.trace()
    crypten.trace(False)
    crypten.fill_cache()
    assert crypten.cryptensor([2.0]).square().get_plain_text() == 4


@pytest.mark.parametrize(
    ("name", "args"),
    [("exp", ()), ("sigmoid", ()), ("softmax", (0,)), ("cumsum", (0,)), ("unsqueeze", (1,))],
)
def test_every_method_has_a_form_in_place(name, args):
    x = torch.tensor([0.5, -1.0, 2.0])
    a = crypten.cryptensor(x)
    assert getattr(a, f"{name}_")(*args) is a
    assert torch.allclose(a.get_plain_text(), getattr(x, name)(*args), atol=1e-3)
    with pytest.raises(RuntimeError, match="in-place"):
        getattr(crypten.cryptensor(x, requires_grad=True), f"{name}_")(*args)
    for none in ("shape_", "missing_", "missing", "_missing_"):
        assert not hasattr(a, none)


def test_names_of_arguments():
    x, y = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])
    a, b = crypten.cryptensor(x), crypten.cryptensor(y)
    places = torch.tensor([1, 1])
    for made, plain in (
        *((a.add(tensor=b), x + y), (a.div(y=b), x / y), (a.gt(y=b), x > y)),
        *((a.matmul(tensor=b), x @ y), (a.ger(y=b), torch.outer(x, y))),
        (a.index_add(dim=0, index=places, tensor=b), x.index_add(0, places, y)),
        (a.scatter_add(dim=0, index=places, other=b), x.scatter_add(0, places, y)),
        (a.clone().set(enc_tensor=b), y),
    ):
        assert torch.allclose(made.get_plain_text().float(), plain.float(), atol=1e-3)


def test_kinds_that_are_refused():
    with pytest.raises(ConfigError, match=r"ptype\.binary"):
        crypten.cryptensor([1], ptype="binary")
    with pytest.raises(TypeError):
        torch.ones(1).numpy() + crypten.cryptensor([1.0])
