"""torch's compilers: secrets are computed as they are, or refused in our words."""

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import UnsupportedOp

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
X = torch.linspace(-1, 1, 6).reshape(2, 3)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_a_compiled_module_gives_what_the_module_gives():
    def main(session):
        layers = session.share(network(), owner=0)
        torch._dynamo.reset()
        compiled = torch.compile(layers, backend="eager")
        x = session.share(X, owner=0)
        compiled(x).sum().backward()
        return session.reveal(compiled(2 * x)), session.reveal(layers[0].weight.grad)

    got, slope = tacit.run(main, protocol="cleartext", parties=1)[0]
    plain = network()
    plain(X).sum().backward()
    torch.testing.assert_close(got, plain(2 * X), atol=1e-3, rtol=0)
    torch.testing.assert_close(slope, plain[0].weight.grad, atol=1e-3, rtol=0)


def test_a_script_and_a_trace_of_public_data_run():
    def main(session):
        x = session.share(X, owner=0)
        return [
            session.reveal(made(x))
            for made in (torch.jit.script(network()), torch.jit.trace(network(), X))
        ]

    for got in tacit.run(main, protocol="cleartext", parties=1)[0]:
        torch.testing.assert_close(got, network()(X), atol=1e-3, rtol=0)


def test_a_trace_of_secrets_is_not_compared():
    def main(session):
        layers, x = session.share(network(), owner=0), session.share(X, owner=0)
        for traced in (layers, lambda x: (x * 2).relu()):
            with pytest.raises(UnsupportedOp, match="call the module itself"):
                torch.jit.trace(traced, (x,))
        return session.reveal(torch.jit.trace(layers, (x,), check_trace=False)(2 * x))

    [got] = tacit.run(main, protocol="cleartext", parties=1)
    torch.testing.assert_close(got, network()(2 * X), atol=1e-3, rtol=0)
