"""Measured magnitudes make comparisons shorter and change no result."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import ConfigError
from tacit.nn import tighten

GENERATOR = torch.Generator().manual_seed(11)


def build() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 8), nn.ReLU()))
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=GENERATOR) / 3)
    return model.eval()


MODEL, X = build(), torch.randn(64, 6, generator=GENERATOR)


def test_what_it_reports():
    found = tacit.calibrate(MODEL, X)
    out = MODEL[0](X).abs().max().item()
    assert out < 2.0 ** found.limits["0"] <= 4 * out
    assert set(found.limits) == {"", "0", "1", "2", "2.0", "2.1"}
    assert [w.path for w in found.windows] == ["1", "2.1"]
    assert [w.elements for w in found.windows] == [64 * 16, 64 * 8]
    for window in found.windows:
        assert window.before >= 37  # 16 fraction bits, 20 of range, the sign
        assert window.after <= 16 + found.limits["0"] + 3
    assert found.bits_after < found.bits_before
    assert found.gain > 1.3
    assert found.range_bits < 20
    assert found.error < 2**-8
    text = str(found)
    assert "2.1" in text
    assert "times less" in text


def test_the_gain_is_what_the_transport_counts():
    found = tacit.calibrate(MODEL, X)

    def main(session, tightened):
        model = session.share(copy.deepcopy(MODEL), owner=0)
        if tightened:
            tighten(session, model, found if session.rank == 1 else None, owner=1)
        x = session.share(X, owner=2)
        with session.stats.scope("forward") as cost, torch.no_grad():
            y = model(x)
        return session.reveal(y), cost.bytes_sent

    plain, short = tacit.run(main, False), tacit.run(main, True)
    saved = sum(b for _, b in plain) - sum(b for _, b in short)
    assert saved == pytest.approx((found.bits_before - found.bits_after) / 8, rel=0.05)
    for (want, _), (got, _) in zip(plain, short, strict=True):
        torch.testing.assert_close(got, want, atol=2**-14, rtol=0)
        torch.testing.assert_close(got, MODEL(X).detach(), atol=1e-3, rtol=1e-3)


def test_its_settings_run():
    found = tacit.calibrate(MODEL, X, margin_bits=2)

    def main(session):
        model = tighten(session, session.share(copy.deepcopy(MODEL), owner=0), found, owner=0)
        return session.reveal(model(session.share(X, owner=1)))

    settings = {"range_bits": found.range_bits, "fraction_bits": found.fraction_bits}
    for got in tacit.run(main, **settings):
        size = MODEL(X).abs().max().item()
        torch.testing.assert_close(got.detach(), MODEL(X).detach(), atol=size * 2**-7, rtol=0)


def test_gradients_still_flow_through_promises():
    found = tacit.calibrate(MODEL, X)

    def main(session):
        model = tighten(session, session.share(copy.deepcopy(MODEL), owner=0), found, owner=0)
        model(session.share(X, owner=1)).sum().backward()
        return session.reveal(model[0].weight.grad)

    plain = copy.deepcopy(MODEL)
    plain(X).sum().backward()
    for got in tacit.run(main):
        torch.testing.assert_close(got, plain[0].weight.grad, atol=2e-2, rtol=2e-3)


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="margin_bits=-1"):
        tacit.calibrate(MODEL, X, margin_bits=-1)

    def main(session):
        with pytest.raises(ConfigError, match="party 0, gives a calibration"):
            tighten(session, session.share(build(), owner=0), owner=0)

    tacit.run(main, parties=1, protocol="cleartext")


def test_a_promise_beyond_all_numbers_is_none():
    found = replace(tacit.calibrate(MODEL, X), limits={"": 10**12, "0": 3})

    def main(session):
        model = session.share(build(), owner=0)
        tighten(session, model, found, owner=0)
        return [len(part._forward_hooks) for part in (model, model[0])]

    assert tacit.run(main) == [[0, 1]] * 3
