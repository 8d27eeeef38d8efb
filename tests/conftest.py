import os
import signal

import torch

# Kernels for GPUs are tried in Triton's interpreter where there is none. It must be chosen before
# Triton is imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A shell starts what runs in its background with interrupts ignored; tests interrupt themselves and
# the processes that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
