"""Every method of CrypTen's tensors against torch's, for one party."""

import pytest
import torch
import torch.nn.functional as F

import tacit.compat.crypten as crypten

torch.manual_seed(20)
X = torch.randn(3, 4)
Y = torch.randn(3, 4)
POSITIVE = X.abs() + 0.1
SQUARE = torch.randn(4, 4)
IMAGE = torch.randn(2, 2, 6, 6)
SIGNAL = torch.randn(2, 3, 8)
COLUMNS = torch.tensor([2, 0])
PLACES = torch.tensor([[0, 2, 1, 0], [1, 1, 0, 2]])

# name of the method, the tensor, its arguments; a tensor among them is tried public and secret
SAME = [
    *[(name, X, (Y,), {}) for name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")],
    ("div", X, (POSITIVE,), {}),
    ("div", X, (4,), {}),
    *[(name, X, (), {}) for name in ("neg", "abs", "square", "relu", "sigmoid", "tanh", "erf")],
    *[(name, X, (), {}) for name in ("exp", "sin", "cos", "sum", "mean", "var", "t", "clone")],
    *[(name, POSITIVE, (), {}) for name in ("log", "sqrt", "reciprocal")],
    ("matmul", X, (SQUARE,), {}),
    ("dot", X[0], (Y[0],), {}),
    ("ger", X[0], (Y[1],), {}),
    *[("pow", POSITIVE, (power,), {}) for power in (-2, -1, 0, 1, 2, 3, 0.5)],
    *[(name, X, (1,), {}) for name in ("softmax", "log_softmax", "cumsum", "prod", "sum", "mean")],
    *[(name, X, (0, True), {}) for name in ("sum", "mean")],
    ("var", X, (1,), {"unbiased": False}),
    ("prod", X, (), {}),
    ("trace", SQUARE, (), {}),
    *[
        ("norm", X, (), {"p": p, "dim": dim})
        for p in (1, 2, float("inf"), "fro")
        for dim in (None, 1)
    ],
    ("norm", X, (), {"p": 3}),
    ("max", X, (), {}),
    ("min", X, (), {}),
    ("transpose", X, (0, 1), {}),
    ("permute", IMAGE, (3, 1, 0, 2), {}),
    ("view", X, (2, 6), {}),
    ("reshape", X, ((6, 2),), {}),
    ("flatten", IMAGE, (), {"start_dim": 2}),
    ("unsqueeze", X, (1,), {}),
    ("squeeze", X[:1], (), {}),
    ("squeeze", X[:1], (0,), {}),
    ("expand", X[:1], (5, 4), {}),
    ("repeat", X, (2, 1, 2), {}),
    ("roll", X, (1,), {"dims": 0}),
    ("roll", X, ((2, 1),), {"dims": (0, 1)}),
    ("flip", X, ((0, 1),), {}),
    ("narrow", X, (1, 1, 2), {}),
    ("unfold", X, (1, 2, 1), {}),
    ("split", X, (2,), {"dim": 1}),
    ("split", X, ([1, 3],), {"dim": 1}),
    ("chunk", X, (2, 1), {}),
    ("unbind", X, (1,), {}),
    ("index_select", X, (1, COLUMNS), {}),
    ("gather", X, (0, PLACES), {}),
    ("take", X, (torch.tensor([0, 5, 11]),), {}),
    ("index_add", X, (1, COLUMNS, Y[:, :2]), {}),
    ("scatter", X, (0, PLACES, Y[:2]), {}),
    ("scatter_add", X, (0, PLACES, Y[:2]), {}),
    ("where", X, (X > Y, Y), {}),
    ("__getitem__", X, ((slice(None), 0),), {}),
    ("__pow__", X, (2,), {}),
    ("__rsub__", X, (2,), {}),
    ("__rtruediv__", POSITIVE, (2,), {}),
]

# what torch has under another name or in another form
OTHER = {
    "inv_sqrt": (POSITIVE, lambda x: x.inv_sqrt(), torch.rsqrt),
    "sign": (X, lambda x: x.sign(), torch.sign),
    "sign of 0": (torch.zeros(2), lambda x: x.sign(), lambda x: x + 1),
    "cossin": (X, lambda x: x.cossin(), lambda x: (x.cos(), x.sin())),
    "hardtanh": (X * 3, lambda x: x.hardtanh(-2, 1.5), lambda x: F.hardtanh(x, -2, 1.5)),
    "relu6": (X * 6, lambda x: x.relu6(), F.relu6),
    "pos_pow": (POSITIVE, lambda x: x.pos_pow(Y), lambda x: x.pow(Y)),
    "polynomial": (X, lambda x: x.polynomial([1.0, -0.5, 2.0]), lambda x: x - x**2 / 2 + 2 * x**3),
    "polynomial of tensor": (X, lambda x: x.polynomial(torch.ones(2)), lambda x: x + x**2),
    "polynomial of secrets": (
        X,
        lambda x: x.polynomial(crypten.cryptensor([0.5, 3.0])),
        lambda x: x / 2 + 3 * x**2,
    ),
    "weighted dot": (X[0], lambda x: x.dot(x, weights=Y[0]), lambda x: (x * x * Y[0]).sum()),
    "where of secrets": (
        X,
        lambda x: x.where(crypten.cryptensor((X > 0).float()), 7),
        lambda x: torch.where(x > 0, x, 7.0),
    ),
    "take of rows": (X, lambda x: x.take(PLACES, 0), lambda x: x[PLACES]),
    "pad": (X, lambda x: x.pad((1, 0, 2, 1), value=3), lambda x: F.pad(x, (1, 0, 2, 1), value=3)),
    "pad with a secret": (
        X,
        lambda x: x.pad((1, 2), value=crypten.cryptensor(3)),
        lambda x: F.pad(x, (1, 2), value=3),
    ),
    "conv1d": (
        SIGNAL,
        lambda x: x.conv1d(SIGNAL[:, :, :3], padding=1),
        lambda x: F.conv1d(x, SIGNAL[:, :, :3], padding=1),
    ),
    "conv2d": (
        IMAGE,
        lambda x: x.conv2d(crypten.cryptensor(IMAGE[..., :3, :3]), stride=2),
        lambda x: F.conv2d(x, IMAGE[..., :3, :3], stride=2),
    ),
    "conv_transpose1d": (
        SIGNAL,
        lambda x: x.conv_transpose1d(SIGNAL[:, :, :3].transpose(0, 1)),
        lambda x: F.conv_transpose1d(x, SIGNAL[:, :, :3].transpose(0, 1)),
    ),
    "conv_transpose2d": (
        IMAGE,
        lambda x: x.conv_transpose2d(IMAGE[..., :3, :3], stride=2, padding=1),
        lambda x: F.conv_transpose2d(x, IMAGE[..., :3, :3], stride=2, padding=1),
    ),
    "avg_pool2d": (
        IMAGE,
        lambda x: x.avg_pool2d(3, stride=2, padding=1),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
    ),
    "sum_pool2d": (IMAGE, lambda x: x.sum_pool2d((2, 3)), lambda x: F.avg_pool2d(x, (2, 3)) * 6),
    "max_pool2d": (
        IMAGE,
        lambda x: x.max_pool2d(2, padding=1),
        lambda x: F.max_pool2d(x, 2, padding=1),
    ),
    "max_pool2d with places": (
        IMAGE,
        lambda x: x.max_pool2d(2, return_indices=True),
        lambda x: _with_windows(x, 2, 2, 0, 1),
    ),
    "max_pool2d with places of a dilated kernel and a border": (
        IMAGE,
        lambda x: x.max_pool2d((2, 3), 1, (2, 1), (1, 2), return_indices=True),
        lambda x: _with_windows(x, (2, 3), (2, 1), 1, (1, 2)),
    ),
    "adaptive_avg_pool2d": (
        IMAGE,
        lambda x: x.adaptive_avg_pool2d(3),
        lambda x: F.adaptive_avg_pool2d(x, 3),
    ),
    "adaptive_max_pool2d": (
        IMAGE,
        lambda x: x.adaptive_max_pool2d((2, 3)),
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    ),
    "batchnorm": (
        IMAGE,
        lambda x: x.batchnorm(torch.ones(2), torch.ones(2), training=True),
        lambda x: F.batch_norm(x, None, None, torch.ones(2), torch.ones(2), training=True),
    ),
    "batchnorm of running numbers": (
        IMAGE,
        lambda x: x.batchnorm(
            *map(crypten.cryptensor, ([1.0, 2.0], [0.0, 1.0], [0.1, 0.2], [1.0, 2.0]))
        ),
        lambda x: F.batch_norm(
            x, *map(torch.tensor, ([0.1, 0.2], [1.0, 2.0], [1.0, 2.0], [0.0, 1.0]))
        ),
    ),
    "binary_cross_entropy": (
        X.sigmoid(),
        lambda x: x.binary_cross_entropy((Y > 0).float()),
        lambda x: F.binary_cross_entropy(x, (Y > 0).float()),
    ),
    "binary_cross_entropy_with_logits": (
        X,
        lambda x: x.binary_cross_entropy_with_logits(crypten.cryptensor((Y > 0).float())),
        lambda x: F.binary_cross_entropy_with_logits(x, (Y > 0).float()),
    ),
    "cross_entropy": (
        X,
        lambda x: x.cross_entropy(crypten.cryptensor(F.one_hot(Y.argmax(1), 4))),
        lambda x: F.cross_entropy(x, Y.argmax(1)),
    ),
    "max along": (X, lambda x: x.max(1, one_hot=False), lambda x: x.max(1)),
    "max one hot": (X, lambda x: x.max(1), lambda x: (x.max(1)[0], _one_hot(x.argmax(1), 1, x))),
    "min one hot": (
        X,
        lambda x: x.min(dim=0, keepdim=True),
        lambda x: (x.min(0, True)[0], _one_hot(x.argmin(0), 0, x)),
    ),
    "argmax": (X, lambda x: x.argmax(0), lambda x: _one_hot(x.argmax(0), 0, x)),
    "argmax of all": (X, lambda x: x.argmax(), lambda x: (x == x.max()).long()),
    "argmin": (X, lambda x: x.argmin(1, keepdim=True, one_hot=False), lambda x: x.argmin(1, True)),
    "argmin of all": (X, lambda x: x.argmin(one_hot=False), torch.argmin),
    "cat": (X, lambda x: crypten.cat([x, x + 1], dim=1), lambda x: torch.cat([x, x + 1], 1)),
    "stack": (X, lambda x: crypten.stack([x, x + 1]), lambda x: torch.stack([x, x + 1])),
    "torch.cat": (X, lambda x: torch.cat([x, x + 1]), lambda x: torch.cat([x, x + 1])),
    "torch.exp": (X, torch.exp, torch.exp),
    "plain first": (X, lambda x: Y @ (Y - x).t(), lambda x: Y @ (Y - x).t()),
    "plain compares": (X, lambda x: x < Y, lambda x: x < Y),
    "crypten.where": (X, lambda x: crypten.where(X > 0, x, Y), lambda x: torch.where(x > 0, x, Y)),
    "comparisons as numbers": (X, lambda x: 1 - (x > 0) * 0.5, lambda x: 1 - (x > 0) * 0.5),
    "mean of comparisons": (X, lambda x: (x > 0).mean(), lambda x: (x > 0).float().mean()),
}


def _with_windows(x, kernel, stride, padding, dilation):
    """Maxima, and their places as one-hot windows: where a window of places has the maximum's."""
    form = {"stride": stride, "padding": padding, "dilation": dilation}
    values, places = F.max_pool2d(x, kernel, return_indices=True, **form)
    numbers = torch.arange(1.0, x[0, 0].numel() + 1).view(1, 1, *x.shape[2:])
    windows = F.unfold(numbers, kernel, dilation, padding, stride) - 1
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    windows = windows.view(height, width, *values.shape[2:]).permute(2, 3, 0, 1)
    return values, (places[..., None, None] == windows).long()


def _one_hot(places, dim, x):
    return F.one_hot(places, x.shape[dim]).movedim(-1, dim)


@pytest.fixture(autouse=True)
def alone():
    crypten.init()
    yield
    crypten.uninit()


def compare(made, plain):
    if isinstance(plain, tuple):
        assert isinstance(made, tuple)
        assert len(made) == len(plain)
        for one, other in zip(made, plain, strict=True):
            compare(one, other)
        return
    shown = made.get_plain_text()
    assert shown.shape == plain.shape
    assert not torch.is_floating_point(plain) or shown.dtype == torch.float32
    assert torch.allclose(shown.float(), plain.float(), rtol=1e-3, atol=2e-3)


def _is_real(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


CASES = [(case, False) for case in SAME]
CASES += [(case, True) for case in SAME if any(map(_is_real, case[2]))]


@pytest.mark.parametrize(
    ("case", "secret"), CASES, ids=[f"{case[0]}{'-secret' * secret}" for case, secret in CASES]
)
def test_same_method(case, secret):
    name, x, args, kwargs = case
    operands = [crypten.cryptensor(a) if secret and _is_real(a) else a for a in args]
    made = getattr(crypten.cryptensor(x), name)(*operands, **kwargs)
    compare(made, getattr(x, name)(*args, **kwargs))


@pytest.mark.parametrize("name", OTHER)
def test_other_method(name):
    x, ours, plain = OTHER[name]
    compare(ours(crypten.cryptensor(x)), plain(x))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "neg", "square", "relu", "pow"])
def test_in_place(name):
    args = {"add": (Y,), "sub": (Y,), "mul": (Y,), "div": (2,), "pow": (2,)}.get(name, ())
    x = crypten.cryptensor(X)
    assert getattr(x, f"{name}_")(*args) is x
    compare(x, getattr(X, name)(*args))


@pytest.mark.parametrize("name", ["index_add_", "scatter_", "scatter_add_"])
def test_elements_in_place(name):
    args = (1, COLUMNS, Y[:, :2]) if name == "index_add_" else (0, PLACES, Y[:2])
    x, plain = crypten.cryptensor(X), X.clone()
    getattr(x, name)(*args)
    compare(x, getattr(plain, name)(*args))


def test_a_view_is_written_through():
    x, plain = crypten.cryptensor(X[:1]), X[:1].clone()
    view = x.squeeze()
    view[0:2] = torch.tensor([0.0, 1.0])
    plain[0, 0:2] = torch.tensor([0.0, 1.0])
    compare(x, plain)
    x[0, 3] = crypten.cryptensor(5)
    plain[0, 3] = 5
    compare(x, plain)


def test_dropout():
    x = crypten.cryptensor(torch.ones(100, 100))
    dropped = x.dropout(0.4).get_plain_text()
    assert abs((dropped == 0).float().mean() - 0.4) < 0.05
    assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / 0.6), atol=1e-3)
    compare(x.dropout(0.4, training=False), torch.ones(100, 100))
    channels = crypten.cryptensor(torch.ones(4, 8, 3, 3)).dropout2d(0.5).get_plain_text()
    assert torch.equal(channels.amax((2, 3)), channels.amin((2, 3)))
    channels = crypten.cryptensor(torch.ones(4, 8, 3))._feature_dropout(0.5).get_plain_text()
    assert torch.equal(channels.amax(2), channels.amin(2))


def test_dropout_in_place(caplog):
    x = crypten.cryptensor(torch.ones(100, 100))
    assert x.dropout(0.9, inplace=True) is x
    assert abs((x.get_plain_text() == 0).float().mean() - 0.9) < 0.05
    leaf = crypten.cryptensor(torch.ones(3, 4), requires_grad=True)
    assert leaf.dropout(0.9, inplace=True) is not leaf
    assert "inplace is ignored" in caplog.text
    assert torch.equal(leaf.get_plain_text(), torch.ones(3, 4))


@pytest.mark.parametrize(
    ("shape", "dim"), [((), 0), ((1,), 0), ((5,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 1), 2)]
)
def test_cosine_similarity(shape, dim):
    generator = torch.Generator().manual_seed(5)
    plain = [torch.randn(shape, generator=generator).requires_grad_() for _ in range(2)]
    x, y = (crypten.cryptensor(one.detach(), requires_grad=True) for one in plain)
    expected = torch.cosine_similarity(*map(torch.atleast_1d, plain), dim=dim)
    found = x.cosine_similarity(y, dim=dim)
    compare(found, expected.detach())
    expected.sum().backward()
    found.sum().backward()
    compare(x.grad, plain[0].grad)
    compare(x.cosine_similarity(plain[1].detach(), dim=dim), expected.detach())


def test_the_tensor_inside_is_the_tensor():
    x = crypten.cryptensor(X)
    assert x._tensor is x


def test_draws():
    weights = crypten.cryptensor([[0.0, 3.0, 0.0], [1.0, 0.0, 0.0]])
    place = weights.weighted_index(1).get_plain_text()
    assert torch.equal(place, torch.tensor([[0, 1, 0], [1, 0, 0]]))
    sample, index = weights.weighted_sample(1)
    compare(sample, torch.tensor([3.0, 1.0]))
    assert torch.equal(index.get_plain_text(), place)
    assert weights.weighted_index().get_plain_text().sum() == 1
    assert set(crypten.cryptensor([0.0, 1.0]).bernoulli().get_plain_text().tolist()) == {0, 1}
    for draw in (crypten.rand, crypten.randn):
        assert draw(2, 3).size() == draw((2, 3)).size() == (2, 3)
    drawn = crypten.rand(2000).get_plain_text()
    assert 0 <= drawn.min() <= drawn.max() < 1
    assert crypten.bernoulli(torch.full((500,), 0.2)).get_plain_text().float().mean() < 0.5


def test_truth_is_secret():
    with pytest.raises(RuntimeError, match="get_plain_text"):
        assert crypten.cryptensor([1.0])


def test_sizes():
    x = crypten.cryptensor(X)
    assert x.size() == x.shape == X.shape
    assert (x.size(1), x.dim(), x.numel(), x.nelement(), len(x)) == (4, 2, 12, 12, 3)
    assert "4" in repr(x)


def test_copies():
    x = crypten.cryptensor(X)
    shallow, deep = x.shallow_copy(), x.clone()
    x.add_(1)
    compare(shallow, X + 1)
    compare(deep, X)
    compare(x.set(Y), Y)
    x.copy_(crypten.cryptensor(X))
    compare(x, X)


def test_gradients_of_methods():
    for ours, plain in (
        (lambda x: x.max(1)[0], lambda x: x.max(1)[0]),
        (lambda x: x.sigmoid().sum(), lambda x: x.sigmoid().sum()),
        (lambda x: x.matmul(SQUARE).norm(), lambda x: x.matmul(SQUARE).norm()),
        (lambda x: x.log_softmax(1)[:, 0], lambda x: x.log_softmax(1)[:, 0]),
        (lambda x: x.where(X > 0, 0).var(), lambda x: torch.where(X > 0, x, 0.0).var()),
        (lambda x: crypten.cat([x, x * 2]).relu(), lambda x: torch.cat([x, x * 2]).relu()),
    ):
        a, b = crypten.cryptensor(X, requires_grad=True), X.clone().requires_grad_()
        ours(a).sum().backward()
        plain(b).sum().backward()
        compare(a.grad, b.grad)
