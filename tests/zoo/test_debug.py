"""The models run in debug mode on ordinary inputs, forward and in training: nothing overflows."""

import pytest
import torch
from tests.zoo.test_private import draw, private, settled

import tacit
from tacit import zoo
from tacit.zoo.resnet import BasicBlock, Bottleneck

VIT = {"image_size": 16, "patch_size": 8, "depth": 2, "width": 16, "heads": 2, "hidden": 32}
BERT = {"words": 20, "positions": 8, "depth": 2, "width": 16, "heads": 2, "hidden": 32}
MODELS = {
    "lenet": (zoo.lenet, (1, 1, 28, 28)),
    "lenet5": (lambda: zoo.lenet5(pool="max"), (2, 1, 28, 28)),
    "small alexnet": (zoo.small_alexnet, (1, 3, 32, 32)),
    "small vgg": (zoo.small_vgg, (1, 3, 32, 32)),
    "resnet": (lambda: zoo.ResNet(BasicBlock, (1, 1, 1, 1), width=8), (1, 3, 32, 32)),
    "deep resnet": (lambda: zoo.ResNet(Bottleneck, (1, 1, 1, 1), width=8), (1, 3, 32, 32)),
    "vit": (lambda: zoo.VisionTransformer(**VIT, num_classes=5), (1, 3, 16, 16)),
    "wav2letter": (lambda: zoo.wav2letter(num_classes=5), (1, 1, 800)),
    "regression": (lambda: zoo.linear_regression(10), (4, 10)),
    "logistic": (lambda: zoo.logistic_regression(10), (4, 10)),
    "mlp": (lambda: zoo.mlp(10, 16, 3), (4, 10)),
}


@pytest.mark.parametrize("name", MODELS)
def test_images_and_numbers(name):
    make, shape = MODELS[name]
    private(settled(make()), draw(*shape), protocol="cleartext", debug=True)


def test_texts():
    words = torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]])
    private(settled(zoo.bert(**BERT)), words, protocol="cleartext", debug=True)
    counts = torch.randint(0, 3, (2, 300)).float()
    private(settled(zoo.text_sentiment(words=300)), counts, protocol="cleartext", debug=True)


@pytest.mark.parametrize("name", ["lenet5", "resnet", "vit"])
def test_training(name):
    make, shape = MODELS[name]
    model = settled(make()).train()

    def main(session):
        own = session.share(model, owner=0)
        optimizer = torch.optim.Adam(own.parameters(), lr=1e-3)
        labels = torch.arange(shape[0]) + 1
        x = session.share(draw(*shape).repeat(2, 1, 1, 1), owner=0)
        for _ in range(2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(own(x), labels.repeat(2)).backward()
            optimizer.step()

    tacit.run(main, protocol="cleartext", parties=1, debug=True)
