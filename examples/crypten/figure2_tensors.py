"""Figure 2 of the CrypTen paper, with another import: secrets, their sum, and reveals."""

import torch

import tacit.compat.crypten as crypten

# one party; `crypten.mpc.run_multiprocess` runs the same at several
crypten.init()

# a tensor becomes a secret
x = torch.tensor([1.0, 2.0, 3.0])
x_enc = crypten.cryptensor(x, src=0)

# and is revealed
x_dec = x_enc.get_plain_text()
assert torch.allclose(x_dec, x)

# the sum of two secrets
y = torch.tensor([2.0, 3.0, 4.0])
y_enc = crypten.cryptensor(y, src=0)
xy_enc = x_enc + y_enc
xy_dec = xy_enc.get_plain_text()
assert torch.allclose(xy_dec, x + y)
print(xy_dec)
