"""Models of scikit-learn as modules: what they give on plain tensors, and on secret ones."""

import copy

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from torch import nn

import tacit
from tacit.errors import ConfigError, UnsupportedModule
from tacit.nn import LinearModel, ScaledColumns, TreeEnsemble, from_sklearn

ROWS = 20


def data(kind: str) -> tuple[np.ndarray, np.ndarray]:
    if kind == "numbers":
        x, y = load_diabetes(return_X_y=True, scaled=False)
        return x[:, :6].astype(np.float32), y
    source = load_breast_cancer if kind == "binary" else load_iris
    x, y = source(return_X_y=True)
    return x[:, :6].astype(np.float32), y


MODELS = {
    "StandardScaler": ("binary", StandardScaler()),
    "without mean": ("binary", StandardScaler(with_mean=False)),
    "MinMaxScaler": ("binary", MinMaxScaler((-1, 1))),
    "MaxAbsScaler": ("binary", MaxAbsScaler()),
    "RobustScaler": ("binary", RobustScaler()),
    "LinearRegression": ("numbers", LinearRegression()),
    "Lasso": ("numbers", Lasso(alpha=5.0)),
    "LogisticRegression": ("classes", LogisticRegression(max_iter=500)),
    "two classes": ("binary", make_pipeline(StandardScaler(), LogisticRegression())),
    "passthrough": ("binary", make_pipeline(StandardScaler(), "passthrough", LinearSVC())),
    "RidgeClassifier": ("classes", RidgeClassifier()),
    "SGDClassifier": ("binary", make_pipeline(RobustScaler(), SGDClassifier(loss="log_loss"))),
    "DecisionTreeClassifier": ("classes", DecisionTreeClassifier(random_state=0)),
    "DecisionTreeRegressor": ("numbers", DecisionTreeRegressor(max_leaf_nodes=9)),
    "a tree without a split": (
        "numbers",
        DecisionTreeRegressor(max_depth=1, min_samples_split=999),
    ),
    "RandomForestClassifier": ("binary", RandomForestClassifier(7, max_depth=4, random_state=0)),
    "ExtraTreesRegressor": ("numbers", ExtraTreesRegressor(5, max_leaf_nodes=12, random_state=0)),
    "GradientBoostingClassifier": ("classes", GradientBoostingClassifier(n_estimators=4)),
    "two boosted classes": ("binary", GradientBoostingClassifier(n_estimators=6)),
    "exponential": ("binary", GradientBoostingClassifier(n_estimators=6, loss="exponential")),
    "GradientBoostingRegressor": ("numbers", GradientBoostingRegressor(n_estimators=6)),
    "init zero": ("numbers", GradientBoostingRegressor(n_estimators=3, init="zero")),
    "HistGradientBoostingClassifier": ("classes", HistGradientBoostingClassifier(max_iter=3)),
    "histogram, two classes": ("binary", HistGradientBoostingClassifier(max_iter=4)),
    "HistGradientBoostingRegressor": ("numbers", HistGradientBoostingRegressor(max_iter=4)),
}


def answers(model, x):
    for name in ("predict_proba", "decision_function", "predict", "transform"):
        if hasattr(model, name):
            return torch.as_tensor(getattr(model, name)(x)).double()
    raise AssertionError(model)


def fitted(name):
    kind, model = MODELS[name]
    x, y = data(kind)
    model.fit(x, y)
    rows = x[:: len(x) // ROWS][:ROWS]
    return from_sklearn(model), torch.tensor(rows), answers(model, rows)


@pytest.mark.parametrize("name", MODELS)
def test_a_plain_module_gives_what_the_model_gives(name):
    module, x, wanted = fitted(name)
    for given in (x, x.double()):
        torch.testing.assert_close(module(given), wanted, atol=2e-4, rtol=1e-6)
    torch.testing.assert_close(module(x.double()), wanted, atol=1e-6, rtol=1e-6)


def test_secret_modules_give_nearly_that():
    """All of them in one session of one party; errors are those of fixed point."""
    made = {name: fitted(name) for name in MODELS}

    def main(session):
        return {
            name: session.reveal(session.share(module, owner=0)(session.share(x, owner=0)))
            for name, (module, x, _) in made.items()
        }

    found = tacit.run(main, protocol="cleartext", parties=1)[0]
    for name, (_, _, wanted) in made.items():
        error = (found[name] - wanted).abs().max() / wanted.abs().max().clamp(min=1)
        assert error < 2**-9, f"{name}: {error}"


def skeleton(module):
    """What another party builds from `print(module)`."""
    names = {kind.__name__: kind for kind in (LinearModel, ScaledColumns, TreeEnsemble)}
    if isinstance(module, nn.Sequential):
        return nn.Sequential(*map(skeleton, module))
    return eval(repr(module), names)


@pytest.mark.parametrize("name", ["two classes", "RandomForestClassifier", "two boosted classes"])
def test_a_party_without_the_model_shares_its_form(name):
    module, x, wanted = fitted(name)

    def main(session):
        mine = copy.deepcopy(module) if session.rank == 0 else skeleton(module)
        model = session.share(mine, owner=0)
        rows = session.share(x if session.rank == 1 else torch.empty_like(x), owner=1)
        answered = session.reveal(model(rows), to=1)
        return answered, [type(one).__name__ for one in model.buffers()]

    results = tacit.run(main)
    assert results[0][0] is None
    torch.testing.assert_close(results[1][0], wanted, atol=2**-9, rtol=0)
    assert {kind for _, kinds in results for kind in kinds} == {"SecretTensor"}


def test_a_row_on_a_threshold_goes_left():
    """Exactly: the choice of a feature is a product with 0 and 1, which is not rounded."""
    x = np.arange(8, dtype=np.float32)[:, None]
    model = DecisionTreeRegressor().fit(2 * x, np.arange(8.0))  # thresholds are odd numbers
    module, odd = from_sklearn(model), torch.tensor(2 * x + 1)
    wanted = torch.tensor(model.predict(odd.numpy()))
    assert torch.equal(module(odd), wanted)

    def main(session):
        return session.reveal(session.share(copy.deepcopy(module), 0)(session.share(odd, 1)))

    torch.testing.assert_close(tacit.run(main)[0], wanted, atol=2**-14, rtol=0)


def test_small_coefficients_of_large_columns_are_precise():
    """0.0003 has 20 units of 2^-16: alone it would be wrong by a percent or two."""
    r = np.random.default_rng(0)
    x = r.uniform(0, 30_000, size=(60, 3))
    model = make_pipeline(LinearRegression()).fit(x, x @ np.array([3e-4, -2e-4, 1e-4]) + 1)
    scaler = StandardScaler().fit(x)
    given = torch.tensor(x)

    def main(session):
        shared = [session.share(from_sklearn(one), 0) for one in (model, scaler)]
        return [session.reveal(one(session.share(given, 0))) for one in shared]

    line, scaled = tacit.run(main, protocol="cleartext", parties=1)[0]
    torch.testing.assert_close(line, torch.tensor(model.predict(x)), atol=2**-10, rtol=0)
    torch.testing.assert_close(scaled, torch.tensor(scaler.transform(x)), atol=2**-12, rtol=0)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "GradientBoostingClassifier"])
def test_padded_trees_give_the_same(name):
    module, x, _ = fitted(name)
    padded = module.padded(20)
    assert padded.turns.shape[2] == 20 > module.turns.shape[2]
    torch.testing.assert_close(padded(x), module(x), atol=1e-12, rtol=0)
    kind, model = MODELS[name]
    again = from_sklearn(make_pipeline(StandardScaler(), model).fit(*data(kind)), leaves=24)
    assert again[1].turns.shape[2] == 24
    with pytest.raises(ConfigError, match="leaves=1"):
        module.padded(1)


def test_what_has_no_private_form_is_refused():
    x, y = data("classes")
    with pytest.raises(UnsupportedModule, match="KNeighborsClassifier"):
        from_sklearn(KNeighborsClassifier().fit(x, y))
    with pytest.raises(UnsupportedModule, match="clip"):
        from_sklearn(MinMaxScaler(clip=True).fit(x))
    boosted = GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(x, y)
    with pytest.raises(UnsupportedModule, match="init"):
        from_sklearn(boosted)
    two = DecisionTreeClassifier(max_depth=2).fit(x, np.stack([y, y], 1))
    with pytest.raises(UnsupportedModule, match="2 targets"):
        from_sklearn(two)
    counts = HistGradientBoostingRegressor(loss="poisson", max_iter=2).fit(x, y + 1)
    with pytest.raises(UnsupportedModule, match="poisson"):
        from_sklearn(counts)


@pytest.mark.parametrize(
    "model", [LogisticRegression(), RandomForestClassifier(), StandardScaler()]
)
def test_what_is_not_fitted_is_refused(model):
    with pytest.raises(ConfigError, match="not fitted"):
        from_sklearn(model)


def test_a_link_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="identity, sigmoid, softmax"):
        LinearModel(3, 1, "probit")
