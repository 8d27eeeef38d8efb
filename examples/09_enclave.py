"""The training of 03_two_owners_train.py in an enclave, which leaves its products to workers.

    python examples/09_enclave.py

The script is the same. The two owners run it on shapes alone, the enclave on the numbers; three
workers, of whom no two may pool what they see, multiply masked integers for it. Everything is a
thread of this process here: this shows the program, and protects nothing.
"""

import importlib

import tacit

training = importlib.import_module("03_two_owners_train")

if __name__ == "__main__":
    for precision in ("fixed", "swalp"):
        (losses, _), (_, model) = tacit.run(
            training.main, parties=2, protocol="enclave", precision=precision
        )
        x, labels = (part[-training.TEST :] for part in training.digits())
        accuracy = (model(x).argmax(1) == labels).float().mean()
        shown = ", ".join(f"{loss:.2f}" for loss in losses)
        print(f"{precision}: losses {shown}; {accuracy:.1%} of {training.TEST} right")
