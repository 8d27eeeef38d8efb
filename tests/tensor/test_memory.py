"""What does not fit in memory: a typed error that says where and what needs less."""

import os
import re

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import OutOfMemory, PartyFailed

HUGE = 1 << 27  # elements each way: more than any machine has


def failing(main, **settings):
    with pytest.raises(PartyFailed) as caught:
        tacit.run(main, **settings)
    return str(caught.value)


def huge(session):
    return session.share(torch.ones(1, 1), owner=0).expand(HUGE, HUGE)


WORK = {
    "local": lambda x: x + x,
    "comparison": torch.relu,
    "a view of bits": lambda x: (x[:1, :1] > 0).expand(HUGE, HUGE),
}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_a_tensor_that_fits_nowhere(work, protocol):
    def main(session):
        with pytest.raises(OutOfMemory) as caught:
            WORK[work](huge(session))
        error = caught.value
        assert error.party == session.rank
        assert error.operation == session.protocol.context.operation
        assert str(error).startswith(f"party {session.rank} is out of memory on {session.device} ")
        raise error

    found = failing(main, protocol=protocol)
    assert "a smaller batch needs less, and so does a memory_limit=" in found
    on_gpu = "cuda" in os.environ.get("TACIT_DEVICE", "")
    assert ("placement" in found.split("The traceback")[0]) == on_gpu


class More(nn.Module):
    def forward(self, x):
        return x.expand(HUGE, HUGE) + x


def test_the_module_is_named_and_the_limit_that_did_not_help():
    def main(session):
        model = session.share(nn.Sequential(nn.Identity(), More()), owner=0)
        model(session.share(torch.ones(1, 1), owner=0))

    found = failing(main, memory_limit=1 << 20)
    assert "a memory_limit= below 1048576 (of the bytes that an operation takes" in found
    assert "in Sequential: '1', a More" in found


def test_a_gpu_without_room():
    """What torch says of a GPU, said in the middle of a product of one party."""

    def main(session):
        x = session.share(torch.ones(2, 2), owner=0)
        if session.rank == 1:
            session.protocol.context.products = Full()
        return session.reveal(x @ x)

    class Full:
        offload = None

        def masked(self, *_, **__):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    found = failing(main)
    assert "party 1 failed: OutOfMemory: aten.mm.default: party 1 is out of memory on" in found
    assert "placement='linear'" in found


@pytest.mark.parametrize("settings", [{}, {"parties": 1, "protocol": "cleartext", "debug": True}])
def test_sharing_what_does_not_fit(settings):
    def main(session):
        session.share(torch.ones(1, 1).expand(HUGE, HUGE), owner=0)

    found = failing(main, **settings)
    assert re.search(r"party \d is out of memory on cpu (in share )?at operation", found), found


def test_other_errors_stay_what_they_are():
    def main(session):
        session.share(torch.ones(2, 3), owner=0) @ session.share(torch.ones(2, 3), owner=0)

    assert "OutOfMemory" not in failing(main)
