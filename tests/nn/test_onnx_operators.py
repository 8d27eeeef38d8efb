"""Every operator that `from_onnx` knows, on drawn numbers, against onnxruntime."""

import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from tests.nn.onnx_models import model, module_answers, runtime_answers

from tacit.nn import from_onnx
from tacit.nn.onnx.operator_table import RULES

X = (2, 4, 6, 5)  # batch, channels, rows, columns


class Draw:
    """Arrays of a seed that is the name of the case."""

    def __init__(self, name):
        self.random = np.random.default_rng(zlib.crc32(name.encode()))

    def __call__(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def positive(self, *shape):
        return self.random.uniform(0.5, 3, shape).astype(np.float32)

    def whole(self, low, high, *shape):
        return self.random.integers(low, high, shape)

    def bits(self, *shape):
        return self.random.integers(0, 2, shape).astype(bool)


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


CASES = {}


def case(name, op, inputs, constants=(), opset=17, outputs=1, **attributes):
    """`inputs` and `constants` are functions of a Draw, or lists of arrays; None leaves one out."""
    assert name not in CASES
    CASES[name] = (op, inputs, constants, opset, outputs, attributes)


def plain(op, *, opset=17, draw=lambda d: [d(*X)], name="", **attributes):
    case(name or op, op, draw, opset=opset, **attributes)


UNARY = """Abs Ceil Cos Erf Exp Floor Neg Relu Round Sigmoid Sign Sin Softplus Softsign Tanh
    HardSwish Mish Elu Selu Celu LeakyRelu HardSigmoid Identity"""
for one in UNARY.split():
    plain(one, opset=18)
for one in ("Log", "Sqrt", "Reciprocal"):
    plain(one, draw=lambda d: [d.positive(*X)])
plain("Elu", alpha=0.5, name="Elu alpha")
plain("LeakyRelu", alpha=0.2, name="LeakyRelu alpha")
plain("HardSigmoid", alpha=0.3, beta=0.4, name="HardSigmoid alpha")
plain("Gelu", opset=20)
plain("Gelu", opset=20, approximate="tanh", name="Gelu tanh")
plain("Not", draw=lambda d: [d.bits(3, 4)])
for one in ("Add", "Sub", "Mul"):
    case(one, one, lambda d: [d(*X), d(4, 1, 1)])
    case(f"{one} weight", one, lambda d: [d(*X)], lambda d: [d(5)])
    case(f"{one} integers", one, lambda d: [d.whole(-9, 9, 3, 4), d.whole(-9, 9, 4)])
for one in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
    case(one, one, lambda d: [d.whole(0, 3, 4, 5), d.whole(0, 3, 5)])
for one in ("And", "Or", "Xor"):
    case(one, one, lambda d: [d.bits(4, 5), d.bits(5)])
case("Div", "Div", lambda d: [d(*X), d.positive(5)])
case("Div integers", "Div", lambda d: [d.whole(-9, 9, 4, 5), ints(3, -2, 4, -5, 1)])
case("Div number", "Div", lambda d: [d(3, 4)], [np.float32(3)])
case("Pow", "Pow", lambda d: [d.positive(3, 4), d(4)])
case("Mod", "Mod", lambda d: [d.whole(-9, 9, 4, 5), ints(3, -2, 4, -5, 1)])
case("Mod floats", "Mod", lambda d: [d(3, 4), d.positive(4)], fmod=1)
for one in ("Min", "Max", "Sum", "Mean"):
    case(one, one, lambda d: [d(3, 4), d(4), d(3, 1)])
case("Min number", "Min", lambda d: [d(3, 4)], [np.float32(0.2)])
case("Where", "Where", lambda d: [d.bits(3, 4), d(3, 4), d(4)])
case("Clip", "Clip", lambda d: [d(*X)], [np.float32(-0.5), np.float32(0.7)])
case("Clip above", "Clip", lambda d: [d(*X)], [None, np.float32(0.7)])
case("PRelu", "PRelu", lambda d: [d(*X)], lambda d: [d(4, 1, 1)])
case("PRelu one", "PRelu", lambda d: [d(*X)], lambda d: [d(1)])
case("PRelu columns", "PRelu", lambda d: [d(*X)], lambda d: [d(5)])
for one in ("Softmax", "LogSoftmax"):
    plain(one)
    plain(one, axis=1, name=f"{one} 1")
    plain(one, opset=11, name=f"{one} 11")
    plain(one, opset=11, axis=3, name=f"{one} 11, last")
case("Dropout", "Dropout", lambda d: [d(*X)], [np.float32(0.3)])
case("Dropout 11", "Dropout", lambda d: [d(*X)], opset=11, ratio=0.3)

case("MatMul", "MatMul", lambda d: [d(2, 3, 4), d(2, 4, 5)])
case("MatMul weight", "MatMul", lambda d: [d(2, 3, 4)], lambda d: [d(4, 5)])
case("MatMul weights", "MatMul", lambda d: [d(2, 3, 4)], lambda d: [d(2, 4, 5)])
case("Gemm", "Gemm", lambda d: [d(3, 4)], lambda d: [d(5, 4), d(5)], transB=1)
case("Gemm bare", "Gemm", lambda d: [d(3, 4)], lambda d: [d(4, 5)])
case("Gemm one bias", "Gemm", lambda d: [d(3, 4)], lambda d: [d(4, 5), d(1)])
case(
    "Gemm scaled",
    "Gemm",
    lambda d: [d(4, 3), d(5, 4)],
    lambda d: [d(3, 5)],
    transA=1,
    transB=1,
    alpha=0.5,
    beta=2.0,
)
case("Einsum", "Einsum", lambda d: [d(2, 3, 4), d(2, 5, 4)], equation="bij,bkj->bik")
case(
    "Conv",
    "Conv",
    lambda d: [d(*X)],
    lambda d: [d(8, 2, 3, 3), d(8)],
    group=2,
    strides=[2, 1],
    pads=[1, 1, 1, 1],
)
case("Conv sides", "Conv", lambda d: [d(*X)], lambda d: [d(3, 4, 3, 2)], pads=[0, 1, 2, 0])
case("Conv 1", "Conv", lambda d: [d(2, 4, 9)], lambda d: [d(3, 4, 3)], dilations=[2])
case("Conv 3", "Conv", lambda d: [d(1, 2, 4, 5, 3)], lambda d: [d(3, 2, 2, 2, 2), d(3)])
case("Conv computed", "Conv", lambda d: [d(*X), d(3, 4, 2, 2)], kernel_shape=[2, 2])
for one in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    case(
        f"Conv {one}",
        "Conv",
        lambda d: [d(*X)],
        lambda d: [d(3, 4, 4, 3)],
        auto_pad=one,
        strides=[2, 2],
    )
case(
    "ConvTranspose",
    "ConvTranspose",
    lambda d: [d(*X)],
    lambda d: [d(4, 3, 3, 3), d(6)],
    group=2,
    strides=[2, 2],
    pads=[1, 1, 1, 1],
    output_padding=[1, 0],
)
case(
    "ConvTranspose sides",
    "ConvTranspose",
    lambda d: [d(*X)],
    lambda d: [d(4, 3, 3, 3)],
    strides=[2, 2],
    pads=[0, 1, 2, 0],
)
case("Gather", "Gather", lambda d: [d(*X), d.whole(-5, 5, 3, 2)], axis=3)
case("Gather one", "Gather", lambda d: [d(*X)], [np.array(-1)], axis=2)
case("GatherElements", "GatherElements", lambda d: [d(3, 4), d.whole(0, 4, 3, 2)], axis=1)

case(
    "BatchNormalization",
    "BatchNormalization",
    lambda d: [d(*X)],
    lambda d: [d(4), d(4), d(4), d.positive(4)],
    epsilon=1e-3,
)
case(
    "BatchNormalization 2",
    "BatchNormalization",
    lambda d: [d(3, 4)],
    lambda d: [d(4), d(4), d(4), d.positive(4)],
)
case("InstanceNormalization", "InstanceNormalization", lambda d: [d(*X)], lambda d: [d(4), d(4)])
case("LayerNormalization", "LayerNormalization", lambda d: [d(*X)], lambda d: [d(5), d(5)])
case(
    "LayerNormalization 2",
    "LayerNormalization",
    lambda d: [d(*X)],
    lambda d: [d(6, 5)],
    axis=2,
    epsilon=1e-3,
)
case(
    "GroupNormalization",
    "GroupNormalization",
    lambda d: [d(*X)],
    lambda d: [d(4), d(4)],
    num_groups=2,
    opset=21,
)
plain("LRN", size=3, alpha=0.1, beta=0.6, bias=1.5)
plain("LpNormalization", axis=1)

plain("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 1], opset=12)
plain("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[0, 1, 2, 0], name="MaxPool sides")
plain("MaxPool", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, name="MaxPool ceil")
plain("MaxPool", kernel_shape=[2, 2], dilations=[2, 2], name="MaxPool dilated")
plain("MaxPool", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER", name="MaxPool same")
plain("MaxPool", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER", name="MaxPool lower")
plain("AveragePool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 1])
plain(
    "AveragePool",
    kernel_shape=[3, 2],
    pads=[1, 0, 1, 0],
    count_include_pad=1,
    name="AveragePool whole",
)
plain("AveragePool", kernel_shape=[3, 2], pads=[0, 1, 2, 0], name="AveragePool sides")
plain(
    "AveragePool",
    kernel_shape=[3, 2],
    pads=[0, 1, 2, 0],
    count_include_pad=1,
    name="AveragePool whole sides",
)
plain(
    "AveragePool",
    kernel_shape=[3, 3],
    strides=[2, 2],
    auto_pad="SAME_UPPER",
    name="AveragePool same",
)
plain("AveragePool", kernel_shape=[3], draw=lambda d: [d(2, 3, 8)], name="AveragePool 1")
plain("GlobalAveragePool")
plain("GlobalMaxPool")
for mode, where, more in (
    ("nearest", "asymmetric", {"nearest_mode": "floor"}),
    ("nearest", "half_pixel", {}),
    ("linear", "half_pixel", {}),
    ("linear", "align_corners", {}),
    ("cubic", "half_pixel", {}),
):
    options = dict(mode=mode, coordinate_transformation_mode=where, **more)
    case(
        f"Resize {mode} {where}", "Resize", lambda d: [d(*X)], [None, floats(1, 1, 2, 3)], **options
    )
case(
    "Resize sizes",
    "Resize",
    lambda d: [d(*X)],
    [None, None, ints(2, 4, 9, 10)],
    mode="linear",
    coordinate_transformation_mode="half_pixel",
)

plain("Shape", name="Shape free", draw=lambda d: [d(*X)])
plain("Shape", name="Shape part", start=1, end=-1)
plain("Size")
case("Reshape", "Reshape", lambda d: [d(*X)], [ints(0, -1, 3)])
case("Reshape computed", "Reshape", lambda d: [d(*X), ints(4, -1)])
plain("Flatten")
plain("Flatten", axis=2, name="Flatten 2")
plain("Flatten", axis=0, name="Flatten 0")
plain("Transpose", perm=[0, 2, 3, 1])
plain("Transpose", name="Transpose all")
case("Squeeze", "Squeeze", lambda d: [d(3, 1, 2, 1)], [ints(1, -1)])
case("Squeeze 11", "Squeeze", lambda d: [d(3, 1, 2, 1)], axes=[1], opset=11)
case("Squeeze all", "Squeeze", lambda d: [d(3, 1, 2, 1)])
case("Unsqueeze", "Unsqueeze", lambda d: [d(3, 2)], [ints(-1, 0)])
case("Unsqueeze 11", "Unsqueeze", lambda d: [d(3, 2)], axes=[1], opset=11)
case("Concat", "Concat", lambda d: [d(3, 2), d(3, 4)], lambda d: [d(3, 1)], axis=1)
case("Split", "Split", lambda d: [d(3, 7)], [ints(2, 4, 1)], axis=1, outputs=3)
case("Split 11", "Split", lambda d: [d(3, 6)], axis=1, outputs=2, split=[2, 4], opset=11)
case("Split evenly", "Split", lambda d: [d(3, 6)], axis=1, outputs=3)
case("Split 18", "Split", lambda d: [d(3, 7)], axis=1, outputs=3, num_outputs=3, opset=18)
case("Slice", "Slice", lambda d: [d(*X)], [ints(1, -4), ints(4, 99), ints(1, 2), ints(1, 2)])
case(
    "Slice backwards",
    "Slice",
    lambda d: [d(*X)],
    [ints(-1, 4), ints(-(2**63), 0), ints(2, 3), ints(-1, -2)],
)
case("Slice computed", "Slice", lambda d: [d(3, 4), ints(1), ints(3)])
case("Pad", "Pad", lambda d: [d(3, 4)], [ints(1, 0, 2, 1), np.float32(0.5)])
case("Pad cut", "Pad", lambda d: [d(3, 4)], [ints(-1, 0, 2, -1)])
case("Pad reflect", "Pad", lambda d: [d(*X)], [ints(0, 0, 1, 2, 0, 0, 2, 1)], mode="reflect")
case("Pad edge", "Pad", lambda d: [d(*X)], [ints(0, 0, 1, 2, 0, 0, 2, 1)], mode="edge")
case("Pad axes", "Pad", lambda d: [d(*X)], [ints(1, 2), np.float32(0), ints(-1)], opset=18)
case("Expand", "Expand", lambda d: [d(3, 1)], [ints(2, 1, 4)])
case("Tile", "Tile", lambda d: [d(3, 2)], [ints(2, 3)])
case(
    "ConstantOfShape",
    "ConstantOfShape",
    lambda d: [ints(2, 3)],
    value=numpy_helper.from_array(floats(1.5)),
)
case("Range", "Range", lambda d: [np.array(2), np.array(9), np.array(3)])
plain("DepthToSpace", blocksize=2)
plain("DepthToSpace", blocksize=2, mode="CRD", name="DepthToSpace CRD")
plain("SpaceToDepth", blocksize=2, draw=lambda d: [d(2, 3, 4, 6)])
plain("Trilu", draw=lambda d: [d(4, 5)])
case("Trilu lower", "Trilu", lambda d: [d(4, 5)], [np.array(1)], upper=0)
plain("Cast", to=TensorProto.INT64)
plain("Cast", to=TensorProto.DOUBLE, name="Cast double")
case("CastLike", "CastLike", lambda d: [d(3, 4), ints(1)])

for one in ["L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]:
    name = f"Reduce{one}"
    before = 12 if one == "Sum" else 17
    plain(name)
    plain(name, axes=[1, -1], keepdims=0, opset=before, name=f"{name} before")
    case(f"{name} 18", name, lambda d: [d(*X)], [ints(1, -1)], keepdims=0, opset=18)
case("ReduceSum none", "ReduceSum", lambda d: [d(3, 4)], [ints()], noop_with_empty_axes=1)
plain("ArgMax", axis=1, keepdims=0)
plain("ArgMin", axis=-1)
case("TopK", "TopK", lambda d: [d(3, 7)], [ints(3)], outputs=2)
case("CumSum", "CumSum", lambda d: [d(3, 4)], [np.array(1)])
case("CumSum back", "CumSum", lambda d: [d(3, 4)], [np.array(0)], exclusive=1, reverse=1)

for one, gates, more in (("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {})):
    for way, ways in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        case(
            f"{one} {way}",
            one,
            lambda d: [d(5, 2, 3)],
            lambda d, g=gates, w=ways: [d(w, 4 * g, 3), d(w, 4 * g, 4), d(w, 8 * g)],
            hidden_size=4,
            direction=way,
            outputs=3 if one == "LSTM" else 2,
            **more,
        )
case(
    "LSTM states",
    "LSTM",
    lambda d: [d(5, 2, 3)],
    lambda d: [d(1, 16, 3), d(1, 16, 4), None, None, d(1, 2, 4), d(1, 2, 4)],
    hidden_size=4,
    outputs=3,
)


def arrays(given, draw):
    return given(draw) if callable(given) else list(given)


def built(name, free):
    op, inputs, constants, opset, count, attributes = CASES[name]
    draw = Draw(name)
    given = {f"x{i}": x for i, x in enumerate(arrays(inputs, draw))}
    fixed = arrays(constants, draw)
    known = {f"c{i}": x for i, x in enumerate(fixed) if x is not None}
    known = {key: np.asarray(x) for key, x in known.items()}
    names = [*given, *(f"c{i}" if x is not None else "" for i, x in enumerate(fixed))]
    outputs = [f"y{i}" for i in range(count)]
    node = helper.make_node(op, names, outputs, name="one", **attributes)
    return model([node], given, known, outputs, opset, free), given


@pytest.mark.parametrize("free", [False, True], ids=["sized", "free"])
@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_the_runtime(name, free):
    if free and name.startswith(("AveragePool same", "Range", "ConstantOfShape")):
        pytest.skip("needs the size")
    made, inputs = built(name, free)
    wanted = runtime_answers(made, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = module_answers(from_onnx(made), inputs)
    assert len(found) == len(wanted)
    for one, want in zip(found, wanted, strict=True):
        assert one.dtype == want.dtype
        torch.testing.assert_close(one, want, atol=2e-5, rtol=2e-5)


NUMBERS = {np.bool_: np.array(True), np.int64: np.array(7), np.float32: np.float32(1.5)}
LEFT = [(op, np.bool_) for op in ("And", "Or", "Xor")]
LEFT += [(op, np.int64) for op in ("Add", "Sub", "Mul", "Div", "Less", "Equal", "Max", "Mod")]
LEFT += [(op, np.float32) for op in ("Sub", "Div", "Pow", "Greater", "Min")]


@pytest.mark.parametrize(("op", "kind"), LEFT)
def test_a_public_number_may_be_on_the_left(op, kind):
    draw = Draw(op)
    x = {np.bool_: draw.bits(3, 4), np.int64: draw.whole(1, 9, 3, 4)}.get(kind, draw.positive(3, 4))
    number = numpy_helper.from_array(np.asarray(NUMBERS[kind]))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=number),
        helper.make_node(op, ["c", "x"], ["y"]),
    ]
    made = model(nodes, {"x": x})
    [found], [wanted] = module_answers(from_onnx(made), {"x": x}), runtime_answers(made, {"x": x})
    torch.testing.assert_close(found, wanted)


def test_every_rule_has_a_case():
    assert {op for op, *_ in CASES.values()} == RULES.keys()


def test_the_guide_lists_every_operator():
    guide = (Path(__file__).parents[2] / "docs/guides/other_models.md").read_text()
    listed = guide.rpartition("There are:")[2].replace("`", "").strip(" .\n").split(", ")
    assert listed == sorted({*RULES, "Constant"})
