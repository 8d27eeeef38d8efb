import os

import torch

# Kernels for GPUs are tried in Triton's interpreter where there is none. It must be chosen before
# Triton is imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
