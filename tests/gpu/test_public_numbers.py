"""Public random numbers that torch draws on a GPU: the same at all parties."""

import pytest
import torch
from torch.nn import functional as F

import tacit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


def test_all_parties_draw_the_same_on_a_gpu():
    def main(session):
        drawn = [
            torch.rand(5, device="cuda"),
            torch.randperm(50, device="cuda"),
            F.dropout(torch.ones(200, device="cuda")),
            F.dropout(torch.ones(200, device="cuda", requires_grad=True)).detach(),
        ]
        torch.manual_seed(4)
        return [x.cpu() for x in (*drawn, torch.rand(5, device="cuda"))]

    torch.cuda.init()
    before = torch.cuda.get_rng_state()
    results = tacit.run(main)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    for drawn in zip(*results, strict=True):
        assert all(torch.equal(one, drawn[0]) for one in drawn)
    *_, dropped, _ = results[0]
    assert set(dropped.tolist()) == {0.0, 2.0}
    plain = torch.rand(5, device="cuda", generator=torch.Generator("cuda").manual_seed(4))
    assert torch.equal(results[0][-1], plain.cpu())
