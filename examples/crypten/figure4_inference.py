"""Figure 4 of the CrypTen paper: a network of one party sees pictures of the other.

python examples/crypten/figure4_inference.py

The figure's ResNet-18 and ImageNet are downloads. Here the network is the zoo's LeNet-5, and the
pictures are random.
"""

import torch

import tacit.compat.crypten as crypten
from tacit import zoo


@crypten.mpc.run_multiprocess(world_size=2)
def figure(dataset: list[torch.Tensor], model: torch.nn.Module) -> list[torch.Tensor]:
    """The figure, with the pictures of party 1; `.cuda()` is left out on a machine without GPU."""
    outputs = []

    # secret share the network of party 0:
    model_enc = crypten.nn.from_pytorch(
        model,
        dataset[0],
    ).encrypt()

    # perform inference on secret-shared images:
    for image in dataset:
        image_enc = crypten.cryptensor(image, src=1)
        output_enc = model_enc(image_enc)
        outputs.append(output_enc.get_plain_text())
    return outputs


if __name__ == "__main__":
    torch.manual_seed(0)
    images, network = list(torch.rand(4, 1, 1, 28, 28)), zoo.lenet5().eval()
    [outputs, _] = figure(images, network)
    with torch.no_grad():
        far = max((a - network(x)).abs().max() for a, x in zip(outputs, images, strict=True))
    print(f"largest difference from the plain network: {far:.1e}")
