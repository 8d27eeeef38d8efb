"""CrypTen as a baseline: run by an interpreter of its own, it times one case.

    python run_crypten.py CASE PARTIES REPETITIONS

Processes on this machine over gloo, one thread each, CrypTen's default provider: party 0 makes the
triples. Prints a line of JSON: median seconds of the slowest party after one run that does not
count, megabytes sent by the busiest, largest error. Needs crypten 0.4.1, omegaconf and onnx,
installed without their dependencies, and torch; what they lack to be imported is put in their way
as empty modules.
"""

import importlib.machinery
import json
import multiprocessing
import os
import socket
import sys
import time
import types
from statistics import median

CASES = ("matmul", "conv", "relu", "lenet")


class _Anything(types.ModuleType):
    """A module of which every attribute is one too."""

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Anything(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made

    def __call__(self, *args, **kwargs):
        return args[0] if args and callable(args[0]) else self


class _Finder:
    """Finds what is missing: torchvision, onnx and torch's own exporter."""

    ROOTS = ("torchvision", "onnx", "tensorboard", "sklearn", "torch.onnx")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.ROOTS or name.startswith("torch.onnx"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Anything(spec.name)

    def exec_module(self, module):
        return None


def lenet(cnn):
    return cnn.Sequential(
        cnn.Conv2d(1, 6, 5, padding=2),
        cnn.ReLU(),
        cnn.AvgPool2d(2, stride=2),
        cnn.Conv2d(6, 16, 5),
        cnn.ReLU(),
        cnn.AvgPool2d(2, stride=2),
        cnn.Flatten(),
        cnn.Linear(400, 120),
        cnn.ReLU(),
        cnn.Linear(120, 84),
        cnn.ReLU(),
        cnn.Linear(84, 10),
    )


def party(rank, parties, port, case, repetitions, answers):
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(parties),
        "DISTRIBUTED_BACKEND": "gloo",
        "RENDEZVOUS": f"tcp://127.0.0.1:{port}",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    sys.meta_path.insert(0, _Finder())
    import torch

    torch.set_num_threads(1)
    import crypten
    import crypten.communicator as comm

    crypten.init()
    crypten.cfg.communicator.verbose = True  # counts bytes
    torch.manual_seed(1)
    if case == "matmul":
        x, y = torch.randn(512, 512), torch.randn(512, 512)
        a, b = crypten.cryptensor(x, src=0), crypten.cryptensor(y, src=1)
        call, wanted = lambda: a.matmul(b), x @ y
    elif case == "conv":
        x, y = torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3) * 0.06
        a, b = crypten.cryptensor(x, src=0), crypten.cryptensor(y, src=1)
        call, wanted = (
            lambda: a.conv2d(b, padding=1),
            torch.nn.functional.conv2d(x, y, padding=1),
        )
    elif case == "relu":
        x = torch.randn(1_000_000) * 4
        a = crypten.cryptensor(x, src=0)
        call, wanted = a.relu, x.relu()
    else:
        net = lenet(crypten.nn)
        x = torch.rand(1, 1, 28, 28)
        plain = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.AvgPool2d(2),
            torch.nn.Conv2d(6, 16, 5),
            torch.nn.ReLU(),
            torch.nn.AvgPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(400, 120),
            torch.nn.ReLU(),
            torch.nn.Linear(120, 84),
            torch.nn.ReLU(),
            torch.nn.Linear(84, 10),
        )
        for own, theirs in zip(net.parameters(), plain.parameters(), strict=True):
            own.data.copy_(theirs.data) if hasattr(own, "data") else None
        net.encrypt(src=0)
        a = crypten.cryptensor(x, src=0)
        call, wanted = lambda: net(a), plain(x).detach()
    seconds, error = [], 0.0
    for _ in range(repetitions + 1):
        comm.get().barrier()
        comm.get().reset_communication_stats()
        begin = time.perf_counter()
        with torch.no_grad():
            found = call()
        seconds.append(time.perf_counter() - begin)
    sent = comm.get().comm_bytes / 1e6
    error = float((found.get_plain_text() - wanted).abs().max())
    answers.put((median(seconds[1:]), sent, error))


def main():
    case, parties, repetitions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    started = [
        context.Process(target=party, args=(r, parties, port, case, repetitions, answers))
        for r in range(parties)
    ]
    for process in started:
        process.start()
    found = [answers.get(timeout=600) for _ in started]
    for process in started:
        process.join()
    seconds, sent, error = (max(column) for column in zip(*found, strict=True))
    print(json.dumps({"seconds": seconds, "megabytes": sent, "error": error}))


if __name__ == "__main__":
    main()
