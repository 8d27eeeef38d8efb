"""Models of XGBoost and LightGBM from the forms that these packages write."""

import copy
import json
from pathlib import Path

import pytest
import torch

import tacit
from tacit.errors import UnsupportedModule
from tacit.nn import from_lightgbm, from_xgboost

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.json"))
CONVERTERS = {"xgboost": from_xgboost, "lightgbm": from_lightgbm}


def sample(path):
    """The module, rows, and the answers of the package that made the model."""
    content = json.loads(path.read_text())
    module = CONVERTERS[path.stem.partition("_")[0]](content["model"])
    return module, torch.tensor(content["x"]), torch.tensor(content["answers"]).double()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_answers_are_those_of_the_package(path):
    module, x, wanted = sample(path)
    torch.testing.assert_close(module(x), wanted, atol=1e-6, rtol=1e-6)


def test_secret_answers_are_nearly_those():
    samples = [sample(path) for path in SAMPLES]
    assert len(samples) == 6

    def main(session):
        return [
            session.reveal(session.share(copy.deepcopy(module), 0)(session.share(x, 1)))
            for module, x, _ in samples
        ]

    for (_, _, wanted), found in zip(samples, tacit.run(main)[0], strict=True):
        torch.testing.assert_close(found, wanted, atol=2**-10, rtol=0)


class Fitted:
    """Stands for a model object of either package."""

    def __init__(self, content):
        self.content = content
        self.booster_ = self

    def get_booster(self):
        return self

    def save_raw(self, kind):
        assert kind == "json"
        return bytearray(json.dumps(self.content).encode())

    def dump_model(self):
        return self.content


@pytest.mark.parametrize("path", SAMPLES[::3], ids=lambda path: path.stem)
def test_model_objects_are_asked_for_their_form(path):
    content = json.loads(path.read_text())["model"]
    convert = CONVERTERS[path.stem.partition("_")[0]]
    made, again = convert(content), convert(Fitted(content))
    assert all(map(torch.equal, made.buffers(), again.buffers()))


def changed(name, change):
    path = Path(__file__).parent / "samples" / name
    content = json.loads(path.read_text())["model"]
    change(content)
    return content


def test_what_has_no_private_form_is_refused():
    def objective(content):
        content["learner"]["objective"]["name"] = "rank:pairwise"

    def linear(content):
        content["learner"]["gradient_booster"]["name"] = "gblinear"

    def category(content):
        content["learner"]["gradient_booster"]["model"]["trees"][0]["split_type"][0] = 1

    for change, text in ((objective, "rank:pairwise"), (linear, "gblinear"), (category, "categ")):
        with pytest.raises(UnsupportedModule, match=text):
            from_xgboost(changed("xgboost_binary.json", change))

    def poisson(content):
        content["objective"] = "poisson"

    def average(content):
        content["average_output"] = True

    def categories(content):
        content["tree_info"][0]["tree_structure"]["decision_type"] = "=="

    def zeros(content):
        content["tree_info"][0]["tree_structure"]["missing_type"] = "Zero"

    refused = ((poisson, "poisson"), (average, "rf"), (categories, "categ"), (zeros, "missing"))
    for change, text in refused:
        with pytest.raises(UnsupportedModule, match=text):
            from_lightgbm(changed("lightgbm_binary.json", change))
