"""The models of the papers, as plain torch modules that know nothing of secrets."""

from .alexnet import AlexNet, alexnet, small_alexnet
from .bert import Bert, bert
from .gpt2 import Gpt2, gpt2
from .lenet import LeNet, lenet, lenet5
from .regression import MLP, linear_regression, logistic_regression, mlp
from .resnet import ResNet, resnet18, resnet34, resnet50, resnet101, resnet152
from .sentiment import TextSentiment, text_sentiment
from .vgg import VGG, goten_vgg, small_vgg, vgg11, vgg16
from .vit import VisionTransformer, vit_b_16
from .wav2letter import Wav2Letter, wav2letter

__all__ = [
    "MLP",
    "VGG",
    "AlexNet",
    "Bert",
    "Gpt2",
    "LeNet",
    "ResNet",
    "TextSentiment",
    "VisionTransformer",
    "Wav2Letter",
    "alexnet",
    "bert",
    "goten_vgg",
    "gpt2",
    "lenet",
    "lenet5",
    "linear_regression",
    "logistic_regression",
    "mlp",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "small_alexnet",
    "small_vgg",
    "text_sentiment",
    "vgg11",
    "vgg16",
    "vit_b_16",
    "wav2letter",
]
