"""SecretFlow SPU as a baseline: run by an interpreter of its own, it times cases on request.

Three processes over TCP on this machine, ABY3 in a ring of 64 bits with 16 fraction bits, compiled
once a case and run once before it counts. Reads the name of a case from each line of its input and
answers with a line of JSON: seconds of the slowest party, megabytes sent by the busiest, largest
error. Needs spu 0.9.5, jax and jaxlib 0.4.34, numpy below 2 and Python 3.11.
"""

import json
import multiprocessing
import os
import re
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PARTIES = 3
SENT = re.compile(r"total send bytes (\d+)")


def cases():
    import jax
    from jax import lax

    rng = np.random.default_rng(1)

    def normal(*shape, scale=1.0):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    def conv(x, w):
        return lax.conv_general_dilated(
            x, w, (1, 1), [(1, 1), (1, 1)], dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def pool(x):  # a tree of maxima over strided views: SPU's own pooling is ten times slower
        rows = jax.numpy.maximum(x[:, 0::2], x[:, 1::2])
        return jax.numpy.maximum(rows[:, :, 0::2], rows[:, :, 1::2])

    return {
        "relu": (jax.nn.relu, [normal(1_000_000, scale=4)]),
        "matmul": (lambda a, b: a @ b, [normal(512, 512), normal(512, 512)]),
        "conv": (conv, [normal(1, 56, 56, 64), normal(3, 3, 64, 64, scale=0.06)]),
        "pool": (pool, [normal(1, 64, 64, 64)]),
    }


def networks():
    import spu_networks

    return {
        "lenet1": lambda: spu_networks.lenet(1),
        "lenet64": lambda: spu_networks.lenet(64),
        "alexnet": lambda: spu_networks.alexnet(1),
        "vgg16": lambda: spu_networks.vgg16(1),
        "resnet18": lambda: spu_networks.resnet18(1, 64),
    }


def config(spu):
    made = spu.RuntimeConfig(
        protocol=spu.parse_protocol_kind("ABY3"), field=spu.parse_field_type("FM64")
    )
    made.fxp_fraction_bits = 16
    made.enable_pphlo_profile = True  # writes the bytes sent to the log
    return made


def party(rank, addresses, log, link):
    import spu
    from spu import libspu

    options = libspu.logging.LogOptions()
    options.enable_console_logger, options.system_log_path = False, log
    libspu.logging.setup_logging(options)
    desc = libspu.link.Desc()
    desc.connect_retry_times, desc.recv_timeout_ms = 100, 600_000
    for other, address in enumerate(addresses):
        desc.add_party(f"party{other}", address)
    channel = libspu.link.create_brpc(desc, rank)
    runtimes = {}
    while (order := link.recv()) is not None:
        name, program, shares = order
        if name not in runtimes:
            executable = spu.Executable()
            executable.ParseFromString(program)
            runtime = spu.Runtime(channel, config(spu))
            for variable, share in zip(executable.input_names, shares, strict=True):
                runtime.set_var(variable, share)
            runtimes[name] = runtime, executable
        runtime, executable = runtimes[name]
        channel.barrier()
        begin = time.perf_counter()
        runtime.run(executable)
        seconds = time.perf_counter() - begin
        channel.barrier()
        link.send((seconds, [runtime.get_var(out) for out in executable.output_names]))
    channel.stop_link()


def compiled(name, function, inputs, io):
    from spu import libspu
    from spu.utils import frontend

    secret = libspu.Visibility.VIS_SECRET
    names = [f"{name}_in{i}" for i in range(len(inputs))]
    executable, _ = frontend.compile(
        frontend.Kind.JAX, function, inputs, {}, names, [secret] * len(inputs),
        lambda outs: [f"{name}_out{i}" for i in range(len(outs))],
    )  # fmt: skip
    return executable, [io.make_shares(x, secret) for x in inputs]


def sent_megabytes(logs):
    time.sleep(0.2)
    found = [SENT.findall(Path(log).read_text()) for log in logs]
    return max(int(counts[-1]) for counts in found if counts) / 1e6


def main():
    import jax
    import spu

    sockets = [socket.socket() for _ in range(PARTIES)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    folder = tempfile.mkdtemp()
    logs = [os.path.join(folder, f"{rank}.log") for rank in range(PARTIES)]
    spawn = multiprocessing.get_context("spawn")
    links = []
    for rank in range(PARTIES):
        mine, theirs = spawn.Pipe()
        spawn.Process(target=party, args=(rank, addresses, logs[rank], theirs), daemon=True).start()
        links.append(mine)
    io, known, ready = spu.Io(PARTIES, config(spu)), cases(), {}
    for line in sys.stdin:
        name = line.strip()
        first = name not in ready
        if first:
            if name not in known:
                known[name] = networks()[name]()
            ready[name] = compiled(name, *known[name], io)
        function, inputs = known[name]
        executable, shares = ready[name]
        for _ in range(1 + first):
            for rank, link in enumerate(links):
                mine = [share[rank] for share in shares]
                link.send((name, executable.SerializeToString(), mine))
            answers = [link.recv() for link in links]
        out = io.reconstruct([outs[0] for _, outs in answers])
        error = float(np.abs(out - np.asarray(jax.jit(function)(*inputs))).max())
        answer = {
            "seconds": max(seconds for seconds, _ in answers),
            "megabytes": sent_megabytes(logs),
            "error": error,
        }
        print(json.dumps(answer), flush=True)
    for link in links:
        link.send(None)


if __name__ == "__main__":
    main()
