"""Where parties compute: what may be asked for, and how threads take turns."""

import threading
import time

import pytest
import torch

import tacit
from tacit.errors import ConfigError
from tacit.runtime.placement import ON_CPU, VARIABLE, cipher_for, party_devices
from tacit.transport import NO_LOCK, InterpreterLock
from tacit.transport.local import interpreter_lock


def nothing(session):
    return session.device.type


def test_everything_is_on_the_cpu_by_default():
    assert party_devices(None, "gpu", 3) == [ON_CPU] * 3
    assert tacit.run(nothing) == ["cpu"] * 3


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "meta", "mps"])
def test_unknown_devices(device):
    with pytest.raises(ConfigError, match=r"device=.*allowed are 'cpu', 'cuda'"):
        tacit.run(nothing, device=device)


def test_one_device_or_one_for_each():
    with pytest.raises(ConfigError, match="one for each of 3 parties"):
        tacit.run(nothing, device=["cpu", "cpu"])
    assert tacit.run(nothing, device=["cpu", torch.device("cpu"), "cpu"]) == ["cpu"] * 3


def test_unknown_placements():
    with pytest.raises(ConfigError, match="placement='cpu': allowed are 'gpu', 'linear'"):
        tacit.run(nothing, placement="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(monkeypatch):
    with pytest.raises(ConfigError, match="torch finds no GPU on this machine; use device='cpu'"):
        tacit.run(nothing, device="cuda")
    monkeypatch.setenv(VARIABLE, "cuda")
    with pytest.raises(ConfigError, match="torch finds no GPU"):
        tacit.run(nothing)


def test_a_turn_is_one_threads_at_a_time(monkeypatch):
    monkeypatch.setattr(interpreter_lock, "_MAX_WAIT_SECONDS", 600.0)
    interpreter, inside, most = InterpreterLock(), [0], [0]

    def work() -> None:
        for _ in range(20):
            interpreter.acquire()
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.0005)
            inside[0] -= 1
            interpreter.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_nobody_waits_for_ever_for_a_turn():
    interpreter = InterpreterLock()
    interpreter.acquire()
    went_on = threading.Event()
    thread = threading.Thread(target=lambda: (interpreter.acquire(), went_on.set()))
    thread.start()
    assert went_on.wait(600.0)  # although this thread never gives its turn
    thread.join()
    interpreter.release()
    interpreter.release()  # what one does not have, one does not give
    NO_LOCK.acquire()
    NO_LOCK.release()


@pytest.mark.parametrize(
    ("devices", "placement", "cipher"),
    [
        (["cpu", "cpu"], "gpu", "aes128-ctr"),
        (["cpu", "cuda:1"], "gpu", "chacha20"),
        (["cuda", "cuda"], "linear", "aes128-ctr"),  # masks are made where the shares are
    ],
)
def test_masks_come_from_what_is_quick_where_they_are_made(devices, placement, cipher) -> None:
    assert cipher_for(devices, placement) == cipher
