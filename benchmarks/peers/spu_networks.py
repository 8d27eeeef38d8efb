"""The networks of the papers in JAX, for SPU. Pooling is written with strided views: SPU cuts the
windows of `reduce_window` out one by one, and a fair baseline does not pay for that."""

import jax.numpy as jnp
import numpy as np
from jax import lax

rng = np.random.default_rng(2)


def weight(*shape):
    fan_in = int(np.prod(shape[:-1]))
    return (rng.standard_normal(shape) * (2 / fan_in) ** 0.5).astype(np.float32)


def bias(size):
    return (rng.standard_normal(size) * 0.05).astype(np.float32)


def image(batch, size, channels):
    return rng.uniform(-1, 1, (batch, size, size, channels)).astype(np.float32)


def relu(x):
    return jnp.maximum(x, 0)


def conv(x, w, b, stride, padding):
    out = lax.conv_general_dilated(
        x, w, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return out + b


def windows(x, size, stride, padding, fill):
    if padding:
        edges = ((0, 0), (padding, padding), (padding, padding), (0, 0))
        x = jnp.pad(x, edges, constant_values=fill)
    h = (x.shape[1] - size) // stride * stride + 1
    w = (x.shape[2] - size) // stride * stride + 1
    steps = [(i, j) for i in range(size) for j in range(size)]
    return [x[:, i : i + h : stride, j : j + w : stride] for i, j in steps]


def max_pool(x, size, stride, padding=0):
    cuts = windows(x, size, stride, padding, -1000.0)
    while len(cuts) > 1:
        half = len(cuts) // 2
        best = jnp.maximum(jnp.stack(cuts[:half]), jnp.stack(cuts[half : 2 * half]))
        cuts = [best[i] for i in range(half)] + cuts[2 * half :]
    return cuts[0]


def avg_pool(x, size):
    cuts = windows(x, size, size, 0, 0.0)
    return sum(cuts[1:], cuts[0]) * np.float32(1 / len(cuts))


class Layers:
    """Collects the weights of a network while it is described, and hands them out when it runs."""

    def __init__(self):
        self.weights = []

    def conv(self, size, inputs, outputs, scale=1.0):
        self.weights += [weight(size, size, inputs, outputs) * np.float32(scale), bias(outputs)]

    def linear(self, inputs, outputs):
        self.weights += [weight(inputs, outputs), bias(outputs)]


def dense(x, take, count):
    x = x.reshape(x.shape[0], -1)
    for i in range(count):
        x = x @ take() + take()
        x = relu(x) if i < count - 1 else x
    return x


def lenet(batch):
    made = Layers()
    made.conv(5, 1, 20)
    made.conv(5, 20, 50)
    made.linear(800, 500)
    made.linear(500, 10)

    def run(x, *weights):
        take = iter(weights).__next__
        for _ in range(2):
            x = avg_pool(relu(conv(x, take(), take(), 1, 0)), 2)
        return dense(x, take, 2)

    return run, [image(batch, 28, 1), *made.weights]


def alexnet(batch):
    made = Layers()
    for size, inputs, outputs in ((11, 3, 96), (5, 96, 256), (3, 256, 384), (3, 384, 384)):
        made.conv(size, inputs, outputs)
    made.conv(3, 384, 256)
    for outputs in (256, 256, 10):
        made.linear(256, outputs)

    def run(x, *weights):
        take = iter(weights).__next__
        x = relu(max_pool(conv(x, take(), take(), 4, 9), 3, 2))
        x = relu(max_pool(conv(x, take(), take(), 1, 1), 2, 1))
        for _ in range(3):
            x = relu(conv(x, take(), take(), 1, 1))
        return dense(x, take, 3)

    return run, [image(batch, 32, 3), *made.weights]


VGG16 = [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0]


def vgg16(batch):
    made, channels = Layers(), 3
    for outputs in filter(None, VGG16):
        made.conv(3, channels, outputs)
        channels = outputs
    for inputs, outputs in ((512, 256), (256, 256), (256, 10)):
        made.linear(inputs, outputs)

    def run(x, *weights):
        take = iter(weights).__next__
        for outputs in VGG16:
            x = relu(conv(x, take(), take(), 1, 1)) if outputs else avg_pool(x, 2)
        return dense(x, take, 3)

    return run, [image(batch, 32, 3), *made.weights]


BLOCKS = [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]


def resnet18(batch, size):
    """Batch normalisation is folded into the convolutions."""
    made, channels = Layers(), 64
    made.conv(7, 3, 64)
    for outputs, stride in BLOCKS:
        made.conv(3, channels, outputs)
        made.conv(3, outputs, outputs, scale=0.5)
        if stride != 1 or channels != outputs:
            made.conv(1, channels, outputs, scale=0.7)
        channels = outputs
    made.linear(512, 1000)

    def run(x, *weights):
        take = iter(weights).__next__
        x = max_pool(relu(conv(x, take(), take(), 2, 3)), 3, 2, 1)
        channels = 64
        for outputs, stride in BLOCKS:
            y = relu(conv(x, take(), take(), stride, 1))
            y = conv(y, take(), take(), 1, 1)
            if stride != 1 or channels != outputs:
                x = conv(x, take(), take(), stride, 0)
            x, channels = relu(x + y), outputs
        x = jnp.sum(x, axis=(1, 2)) * np.float32(1 / (x.shape[1] * x.shape[2]))
        return dense(x, take, 1)

    return run, [image(batch, size, 3), *made.weights]
