"""A network learns digits of one party with the labels of the other, then is saved and loaded.

python examples/crypten/digits.py
"""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import one_hot

import tacit.compat.crypten as crypten

PICTURES, LABELS = 0, 1
TEST = 128  # pictures that are not trained on


class Network(crypten.nn.Module):
    """A module of CrypTen's, with a forward of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = crypten.nn.Linear(64, 32)
        self.output = crypten.nn.Linear(32, 10)

    def forward(self, x: crypten.CrypTensor) -> crypten.CrypTensor:
        return self.output(self.hidden(x).relu())


@crypten.mpc.run_multiprocess(world_size=2)
def train(pictures: torch.Tensor, labels: torch.Tensor, folder: str) -> torch.Tensor:
    """Returns the digits that the network sees in pictures of the test."""
    x = crypten.cryptensor(pictures, src=PICTURES)
    y = crypten.cryptensor(one_hot(labels), src=LABELS)
    model = Network().encrypt()
    optimizer = crypten.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    loss = crypten.nn.CrossEntropyLoss()
    for start in 3 * list(range(0, 1536, 256)):
        batch = slice(start, start + 256)
        optimizer.zero_grad()
        loss(model(x[batch]), y[batch]).backward()
        optimizer.step()

    # each party keeps its shares of the weights:
    file = Path(folder) / f"party{crypten.communicator.get().get_rank()}"
    crypten.save(model.state_dict(), file)
    again = Network().encrypt()
    again.load_state_dict(crypten.load(file))
    return again.eval()(x[-TEST:]).argmax(dim=1, one_hot=False).get_plain_text()


if __name__ == "__main__":
    crypten.cfg.mpc.provider = "TTP"  # a dealer, who learns nothing, saves the parties much work
    digits = load_digits()
    pictures, labels = torch.tensor(digits.data).float() / 16, torch.tensor(digits.target)
    with tempfile.TemporaryDirectory() as folder:
        right = (train(pictures, labels, folder)[0] == labels[-TEST:]).sum()
    print(f"{int(right)} of {TEST} right")
