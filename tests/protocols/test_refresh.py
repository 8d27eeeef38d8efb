"""Fresh parts of the same secret."""

import pytest
import torch

import tacit
from tacit.ring import RING64

VALUE = torch.arange(-4000, 4000)


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_new_parts_same_secret_and_nothing_in_common(protocol):
    def main(session):
        p = session.protocol
        x = p.share(VALUE if session.rank == 1 else None, 1, VALUE.shape)
        y = p.mul(x, x, shift=3)
        out = []
        for old in (x, p.settled(y)):
            new = p.refresh(old)
            assert torch.equal(p.reveal(new), p.reveal(old))
            out.append({i: (old.parts[i], new.parts[i]) for i in old.parts})
        bits = p.sign(x)
        fresh = p.refresh(bits)
        assert torch.equal(p.reveal(fresh), VALUE < 0)
        assert all(not torch.equal(fresh.parts[i], bits.parts[i]) for i in bits.parts)
        return out

    parties = tacit.run(main, protocol=protocol)
    for secret in range(2):
        for part in range(3):
            holders = [p[secret][part] for p in parties if part in p[secret]]
            assert len(holders) == 2
            assert torch.equal(holders[0][1], holders[1][1])
            old, new = holders[0]
            change = new - old  # uniform: mean and the share of odd words are what they should be
            assert abs(change.double().mean() / 2.0**RING64.bits) < 0.02
            assert 0.45 < (change & 1).double().mean() < 0.55


def test_cleartext_has_nothing_to_refresh():
    def main(session):
        p = session.protocol
        return p.reveal(p.refresh(p.share(VALUE, 0)))

    assert torch.equal(tacit.run(main, parties=1, protocol="cleartext")[0], VALUE)
