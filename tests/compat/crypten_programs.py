"""Programs of several parties, at the top of a module, so that processes find them."""

import torch

import tacit.compat.crypten as crypten


@crypten.mpc.run_multiprocess(world_size=2)
def in_processes(scale):
    comm = crypten.communicator.get()
    x = crypten.cryptensor(torch.arange(3.0) * scale, src=0)
    y = crypten.cryptensor(torch.ones(3), src=1)
    return comm.get_rank(), (x * y + x).get_plain_text(), (x > 1).get_plain_text(dst=1)
