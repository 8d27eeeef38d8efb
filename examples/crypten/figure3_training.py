"""Figure 3 of the CrypTen paper: a network is made, encrypted, and trained for one step.

python examples/crypten/figure3_training.py
"""

import torch

import tacit.compat.crypten as crypten


@crypten.mpc.run_multiprocess(world_size=2)
def figure(sample: torch.Tensor, target: torch.Tensor) -> float:
    """The figure as printed, but for the imports; returns by how much the step lowers the loss."""
    import tacit.compat.crypten.nn as nn
    import tacit.compat.crypten.optim as optimizer

    sample_dim, hidden_dim, num_classes = 20, 16, 2

    # create model, criterion, and optimizer:
    model_enc = nn.Sequential(
        nn.Linear(sample_dim, hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, num_classes),
    ).encrypt()
    criterion = nn.CrossEntropyLoss()
    optimizer = optimizer.SGD(
        model_enc.parameters(),
        lr=0.1,
        momentum=0.9,
    )

    # perform prediction on sample:
    target_enc = crypten.cryptensor(target, src=0)
    sample_enc = crypten.cryptensor(sample, src=0)
    output_enc = model_enc(sample_enc)

    # perform backward pass and update parameters:
    model_enc.zero_grad()
    loss_enc = criterion(output_enc, target_enc)
    loss_enc.backward()
    optimizer.step()

    lower = loss_enc - criterion(model_enc(sample_enc), target_enc)
    return lower.get_plain_text().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(64, 20)
    [lower, _] = figure(x, torch.nn.functional.one_hot((x[:, 0] > 0).long()))
    print(f"one step lowers the loss by {lower:.4f}")
