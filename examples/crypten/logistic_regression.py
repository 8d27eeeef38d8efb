"""Two parties train a logistic regression: one has the measurements, the other the diagnoses.

python examples/crypten/logistic_regression.py
"""

import torch
from sklearn.datasets import load_breast_cancer

import tacit.compat.crypten as crypten

MEASUREMENTS, DIAGNOSES = 0, 1
TRAINED = 400  # patients to learn from; the other 169 are for the test


def data() -> tuple[torch.Tensor, torch.Tensor]:
    table = load_breast_cancer()
    x, y = torch.tensor(table.data).float(), torch.tensor(table.target).float()
    return (x - x.mean(0)) / x.std(0), y.unsqueeze(1)


@crypten.mpc.run_multiprocess(world_size=2)
def train(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Returns whether each patient of the test is healthy; nothing else is revealed."""
    x = crypten.cryptensor(features, src=MEASUREMENTS)
    y = crypten.cryptensor(labels[:TRAINED], src=DIAGNOSES)
    model = crypten.nn.Linear(features.shape[1], 1).encrypt()
    loss = crypten.nn.BCEWithLogitsLoss()
    for _ in range(10):
        model.zero_grad()
        loss(model(x[:TRAINED]), y).backward()
        model.update_parameters(learning_rate=1.0)
    return model.eval()(x[TRAINED:]).gt(0).get_plain_text()


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = data()
    right = (train(x, y)[0] == y[TRAINED:]).sum()
    print(f"{int(right)} of {len(x) - TRAINED} right")
