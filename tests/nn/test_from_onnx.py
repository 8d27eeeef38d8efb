"""Models from ONNX files: exported ones against onnxruntime, on secrets, and bad files."""

import copy
import sys
import warnings
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from tests.nn.onnx_models import model, module_answers, runtime_answers
from torch import nn

import tacit
from tacit import zoo
from tacit.errors import ConfigError, DataRejected, Error, UnsupportedModule
from tacit.nn import from_onnx, onnx_structure, validate


class Recurrent(nn.Module):
    """Embeddings, an encoder layer, a GRU in both directions, and an LSTM."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.gru = nn.GRU(16, 8, batch_first=True, bidirectional=True)
        self.lstm = nn.LSTM(16, 8)

    def forward(self, x):
        return self.lstm(self.gru(self.encoder(self.table(x)))[0])[0].softmax(-1)


def tokens(words, *shape):
    return torch.randint(0, words, shape)


MODELS = {
    "lenet": lambda: (zoo.lenet(), [torch.randn(2, 1, 28, 28)]),
    "resnet18": lambda: (zoo.resnet18(num_classes=10), [torch.randn(2, 3, 32, 32)]),
    "vit": lambda: (
        zoo.VisionTransformer(
            image_size=32, patch_size=8, depth=2, width=32, heads=2, hidden=64, num_classes=5
        ),
        [torch.randn(2, 3, 32, 32)],
    ),
    "bert": lambda: (
        zoo.bert(words=100, positions=16, depth=2, width=32, heads=2, hidden=64),
        [tokens(100, 2, 7), torch.tensor([[1] * 7, [1] * 5 + [0] * 2])],
    ),
    "recurrent": lambda: (Recurrent(), [tokens(50, 2, 7)]),
}


def exported(name, folder, **options):
    """The path of a model as torch writes it, and arguments of another batch size."""
    torch.manual_seed(len(name))
    plain, args = MODELS[name]()
    path = str(folder / f"{name}.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(plain.eval(), tuple(args), path, verbose=False, **options)
    return path, [torch.cat([x, x.flip(0)[:1]]) for x in args]


def script(name, folder, opset=20):
    names = [f"in{i}" for i in range(2)]
    free = {one: {0: "batch"} for one in names}
    options = {"input_names": names, "dynamic_axes": free, "opset_version": opset}
    return exported(name, folder, dynamo=False, **options)


def check(path, args):
    inputs = [one.name for one in onnx.load(path, load_external_data=False).graph.input]
    given = {name: x.numpy() for name, x in zip(inputs, args, strict=True)}
    found = module_answers(from_onnx(path), given)
    for one, want in zip(found, runtime_answers(path, given), strict=True):
        torch.testing.assert_close(one, want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_exported_models_answer_as_the_runtime(name, tmp_path):
    check(*script(name, tmp_path))


@pytest.mark.parametrize(("name", "opset"), [("lenet", 11), ("bert", 13), ("bert", 17)])
def test_older_opsets_answer_alike(name, opset, tmp_path):
    check(*script(name, tmp_path, opset))


@pytest.mark.full("the other exporter writes the same models, with the operators that are tested")
@pytest.mark.parametrize("name", ["vit", "recurrent"])
def test_models_of_the_newer_exporter_answer_alike(name, tmp_path):
    path, args = exported(name, tmp_path, dynamo=True)
    check(path, [x[:2] for x in args])  # of the batch size that it was exported with


def test_weights_in_a_second_file_are_read(tmp_path):
    path, args = script("lenet", tmp_path)
    onnx.save(
        onnx.load(path), path, save_as_external_data=True, location="weights", size_threshold=0
    )
    check(path, args)
    (tmp_path / "weights").unlink()
    with pytest.raises(DataRejected, match="beside the first"):
        from_onnx(path)


@pytest.mark.parametrize("name", ["lenet", "bert", "recurrent"])
def test_secret_answers_are_nearly_those(name, tmp_path):
    """The other parties have the structure of the file alone."""
    path, args = script(name, tmp_path)
    structure = onnx_structure(path)

    def main(session):
        own = from_onnx(path if session.rank == 0 else structure)
        if session.rank:
            assert not any(x.any() for x in own.parameters())
        shared = session.share(own, owner=0)
        given = [session.share(x, 1) if x.is_floating_point() else x for x in args]
        with torch.no_grad():
            return session.reveal(shared(*given))

    with torch.no_grad():
        wanted = from_onnx(path)(*args)
    for one, want in zip(tacit.run(main)[1], wanted, strict=True):
        torch.testing.assert_close(one, want, atol=2e-3, rtol=0)


def repeated_answers(made, args, calls=4):
    """The last answer of a model that is called several times, and what was recorded of it."""

    def main(session):
        shared = session.share(from_onnx(made if session.rank == 0 else onnx_structure(made)), 0)
        given = [session.share(x, 1) if x.is_floating_point() else x for x in args]
        function = session.repeated(lambda *given: shared(*given))
        with torch.no_grad():
            found = [session.reveal(function(*given)) for _ in range(calls)][-1]
        return found, function.summary()

    return tacit.run(main)[1]


def test_sizes_that_are_computed_do_not_prevent_a_recording():
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "one"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["split"]),
        helper.make_node("MatMul", ["split", "w"], ["product"]),
        helper.make_node("Squeeze", ["batch"], ["number"]),
        helper.make_node("Range", ["start", "number", "step"], ["places"]),
        helper.make_node("Cast", ["places"], ["reals"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["reals", "axes"], ["column"]),
        helper.make_node("Add", ["product", "column"], ["y"]),
    ]
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(2, 6)
    integers = {"zero": [0], "one": [1], "rest": [3, 2], "axes": [1, 2], "start": 0, "step": 1}
    constants = {name: np.array(numbers, np.int64) for name, numbers in integers.items()}
    constants["w"] = np.array([[1, 2, 0.5], [-1, 0, 3]], np.float32)
    made = model(nodes, {"x": x}, constants, free=True)
    found, summary = repeated_answers(made, [torch.from_numpy(x)])
    torch.testing.assert_close(found, runtime_answers(made, {"x": x})[0], atol=1e-3, rtol=0)
    assert "not recorded" not in summary


def test_sizes_that_are_an_input_prevent_a_recording():
    nodes = [helper.make_node("Reshape", ["x", "sizes"], ["y"])]
    given = {"x": np.arange(6, dtype=np.float32), "sizes": np.array([2, 3], np.int64)}
    made = model(nodes, given)
    found, summary = repeated_answers(made, [torch.from_numpy(x) for x in given.values()])
    assert found.shape == (2, 3)
    assert "not recorded" in summary


def test_a_structure_has_no_weights(tmp_path):
    path, _ = script("lenet", tmp_path)
    weights = [numpy_helper.to_array(x).tobytes() for x in onnx.load(path).graph.initializer]
    structure = onnx_structure(path)
    assert len(structure) < 5000 < sum(map(len, weights))
    assert not any(one[:8] in structure for one in weights)
    full, bare = from_onnx(path), from_onnx(structure)
    assert full.code == bare.code
    assert {k: x.shape for k, x in full.state_dict().items()} == {
        k: x.shape for k, x in bare.state_dict().items()
    }


def test_a_structure_has_nothing_that_is_not_known(tmp_path):
    """Trees have their thresholds in attributes, and a file may say or keep more than its graph."""
    tree = onnx.helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", nodes_values=[0.5]
    )
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [1, 1]) for name in "xy")
    versions = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    graph = onnx.helper.make_graph([tree], "trees", [x], [y])
    made = onnx.helper.make_model(graph, opset_imports=versions)
    with pytest.raises(UnsupportedModule, match="TreeEnsembleRegressor"):
        onnx_structure(made.SerializeToString())
    told = onnx.load(script("lenet", tmp_path)[0])
    told.doc_string = told.graph.doc_string = "a secret remark"
    told.training_info.add().algorithm.CopyFrom(told.graph)
    told.training_info[0].algorithm.doc_string = "a secret remark"
    structure = onnx_structure(told)
    assert b"remark" not in structure
    assert len(structure) < 5000
    assert from_onnx(structure).code == from_onnx(told).code


def test_modules_are_validated_copied_and_trained(tmp_path):
    path, [x] = script("lenet", tmp_path)
    module = from_onnx(path)
    assert validate(module, x) == []
    again = copy.deepcopy(module)
    loss = again(x).square().sum()
    loss.backward()
    names = [name for name, parameter in again.named_parameters() if parameter.grad is not None]
    assert names == list(module.state_dict())
    assert len(names) == 8


# Which constants are weights ----------------------------------------------------------------------


def scaled(name, in_program=False, **options):
    """x * number + row, with a number of this name."""
    number, row = np.array(0.75, np.float32), np.array([1.5, 2.5], np.float32)
    nodes = [
        helper.make_node("Mul", ["x", name], ["m"]),
        helper.make_node("Add", ["m", "row"], ["y"]),
    ]
    constants = {"row": row}
    if in_program:
        value = numpy_helper.from_array(number)
        nodes.insert(0, helper.make_node("Constant", [], [name], value=value))
    else:
        constants[name] = number
    made = model(nodes, {"x": np.ones((3, 2), np.float32)}, constants)
    torch.testing.assert_close(
        from_onnx(made, **options)(torch.ones(3, 2)), torch.tensor([[2.25, 3.25]] * 3)
    )
    return made, from_onnx(made, **options)


def test_single_numbers_are_weights_unless_an_exporter_wrote_them_for_the_program():
    assert set(scaled("temperature")[1].state_dict()) == {"temperature", "row"}
    assert set(scaled("val_12")[1].state_dict()) == {"row"}
    assert set(scaled("number", in_program=True)[1].state_dict()) == {"row"}
    assert set(scaled("temperature", public=["temperature"])[1].state_dict()) == {"row"}
    made, module = scaled("temperature", public=["temperature", "row"])
    assert not module.state_dict()
    kept = from_onnx(onnx_structure(made, public=["row"]))
    torch.testing.assert_close(kept(torch.ones(3, 2)), torch.tensor([[1.5, 2.5]] * 3))


def test_a_name_that_no_constant_has_is_refused():
    with pytest.raises(ConfigError, match="public= names other"):
        scaled("temperature", public=["other"])
    with pytest.raises(ConfigError, match="a list of names"):
        scaled("temperature", public="row")


# What is refused ----------------------------------------------------------------------------------


def test_all_missing_operators_are_listed_at_once():
    x = {"x": np.ones((2, 3), np.float32)}
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"]),
        helper.make_node("Det", ["square"], ["b"]),
        helper.make_node("NonZero", ["x"], ["y"]),
    ]
    made = model(nodes, x, {"square": np.eye(2, dtype=np.float32)})
    with pytest.raises(UnsupportedModule, match=r"Det \(1 nodes\), NonZero \(2 nodes\)") as caught:
        from_onnx(made)
    assert "LayerNormalization" in str(caught.value)
    assert "export the model without them" in str(caught.value)


def test_all_refused_forms_are_listed_at_once():
    x = {"x": np.ones((2, 4, 6), np.float32)}
    weights = {"w": np.ones((1, 12, 6), np.float32), "r": np.ones((1, 12, 4), np.float32)}
    nodes = [
        helper.make_node("GRU", ["x", "w", "r"], ["a"], name="g", hidden_size=4),
        helper.make_node("LpNormalization", ["x"], ["y"], name="n", p=1),
    ]
    with pytest.raises(UnsupportedModule, match="GRU 'g' with linear_before_reset=0") as caught:
        from_onnx(model(nodes, x, weights))
    assert "LpNormalization 'n' with p=1" in str(caught.value)


def test_control_flow_is_refused():
    branch = [helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [2])]
    parts = [
        helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], branch)
        for op in ("Neg", "Abs")
    ]
    node = helper.make_node("If", ["which"], ["y"], then_branch=parts[0], else_branch=parts[1])
    made = model([node], {"which": np.array(True), "x": np.ones(2, np.float32)})
    with pytest.raises(UnsupportedModule, match=r"If \(control flow\)"):
        from_onnx(made)


def test_other_opsets_are_refused():
    made, _ = scaled("temperature")
    made.opset_import[0].version = 10
    with pytest.raises(ConfigError, match="opsets 11 to 21"):
        from_onnx(made)


def test_bad_files_are_refused(tmp_path):
    made = scaled("temperature")[0].SerializeToString()
    for content in (b"", b"not a model", made[: len(made) // 2]):
        with pytest.raises(DataRejected, match="no valid ONNX model"):
            from_onnx(content)
    with pytest.raises(DataRejected, match=r"missing\.onnx"):
        from_onnx(tmp_path / "missing.onnx")


def test_changed_bytes_never_raise_anything_else(tmp_path):
    random = Random(20)
    whole = Path(script("lenet", tmp_path)[0]).read_bytes()
    heads = [i for i in range(len(whole)) if whole[i : i + 4].isalpha()]  # near names, not weights
    refused = 0
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            changed[max(random.choice(heads) + random.randint(-12, 4), 0)] = random.randrange(256)
        try:
            from_onnx(bytes(changed))
        except Error:
            refused += 1
    assert refused > 20


def test_the_package_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'tacit\[onnx\]'"):
        from_onnx(b"")
