"""CrypTen's programs of several parties: what they compute, send, print and save."""

import io
import logging
import threading

import pytest
import torch
from tests.compat.crypten_programs import in_processes

import tacit
import tacit.compat.crypten as crypten
from tacit.compat.crypten.objects import LONGEST_OBJECT
from tacit.errors import ConfigError, FrameRejected


def at_parties(function, parties=2):
    """What the function returns at each party, which is a thread."""
    results = crypten.mpc.run_multiprocess(world_size=parties)(function)()
    assert results is not None
    return results


def test_parties_are_processes_if_they_can_be():
    results = in_processes(2)
    assert [rank for rank, _, _ in results] == [0, 1]
    for _, shown, _ in results:
        assert torch.equal(shown, torch.arange(3.0) * 4)
    assert results[0][2] is None
    assert torch.equal(results[1][2], torch.tensor([0, 1, 1]))


def test_functions_between_secrets():
    x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])

    def program():
        a = crypten.cryptensor(x if crypten.communicator.get().get_rank() == 1 else x * 0, src=1)
        a.requires_grad = True
        (a * a).sum().backward()
        values, places = a.max(dim=1)
        shown = [a.grad, a.sigmoid(), values, places, a.argmax(1, one_hot=False), a.reciprocal()]
        return [one.get_plain_text() for one in shown]

    for results in at_parties(program):
        expected = [2 * x, x.sigmoid(), x.amax(1), x == x.amax(1, True), x.argmax(1), 1 / x]
        for one, other in zip(results, expected, strict=True):
            assert torch.allclose(one.float(), other.float(), atol=2e-3)


def test_one_party_and_three():
    for parties, settings in ((1, {}), (3, {"mpc.protocol": "replicated"})):
        with crypten.cfg.temp_override(settings):
            results = at_parties(lambda: (crypten.cryptensor([3.0]) / 2).get_plain_text(), parties)
        assert results == [torch.tensor([1.5])] * parties


def test_a_dealer_of_its_own():
    def program():
        x = crypten.cryptensor([1.0, -2.0])
        crypten.communicator.get().barrier()
        return (x * x).relu().get_plain_text()

    with crypten.cfg.temp_override({"mpc.provider": "TTP"}):
        assert [list(one) for one in at_parties(program)] == [[1.0, 4.0]] * 2


def test_a_party_that_fails(caplog):
    def program():
        raise ValueError("this program fails")

    with caplog.at_level(logging.CRITICAL, "tacit"):
        assert crypten.mpc.run_multiprocess(world_size=2)(program)() is None


def test_size_of_another_party():
    def program():
        mine = torch.ones(2, 3) if crypten.comm.get().get_rank() == 1 else None
        return crypten.cryptensor(mine, src=1, broadcast_size=True).get_plain_text()

    assert all(torch.equal(one, torch.ones(2, 3)) for one in at_parties(program))


def test_collectives():
    def program():
        comm = crypten.communicator.get()
        rank = comm.get_rank()
        own = torch.tensor([rank, 5])
        reduced = comm.all_reduce(own), comm.all_reduce([own], batched=True)[0]
        gathered = comm.all_gather(own), comm.gather(own, 1), comm.reduce(own, 0)
        assert (comm.reduce([own], 0, batched=True) is None) == (rank != 0)
        broadcast = comm.broadcast(torch.tensor([rank]), src=2)
        part = comm.scatter([torch.tensor([10 * i]) for i in range(3)], 0)
        ring = torch.tensor([rank])
        if rank == 0:
            comm.send(ring, 1)
        received = comm.recv(ring, (rank - 1) % 3)
        if rank > 0:
            comm.send(ring, (rank + 1) % 3)
        told = comm.broadcast_obj({"a": [1, None]} if rank == 1 else None, 1)
        if rank == 0:
            comm.send_obj("text", 2)
            comm.isend(torch.ones(2), 1).wait()
        if rank == 1:
            expected = torch.zeros(2)
            comm.irecv(expected, 0).wait()
            assert expected.sum() == 2
        if rank == 2:
            assert comm.recv_obj(0) == "text"
        assert (comm.get_world_size(), comm.get_name()) == (3, f"rank{rank}")
        return reduced, gathered, broadcast, part, received, told

    for rank, (reduced, gathered, broadcast, part, received, told) in enumerate(
        at_parties(program, 3)
    ):
        assert all(one.tolist() == [3, 15] for one in reduced)
        rows = [[i, 5] for i in range(3)]
        assert [one.tolist() for one in gathered[0]] == rows
        assert gathered[1] == [None] or [one.tolist() for one in gathered[1]] == rows
        assert (gathered[1][0] is not None) == (rank == 1)
        assert (gathered[2] is not None) == (rank == 0)
        assert (broadcast.item(), part.item(), received.item()) == (2, 10 * rank, (rank - 1) % 3)
        assert told == {"a": [1, None]}


def test_statistics(capsys):
    def program():
        comm = crypten.communicator.get()
        crypten.reset_communication_stats()
        before = comm.get_communication_stats()
        comm.all_reduce(torch.zeros(10, dtype=torch.int64))
        crypten.print("once")
        crypten.print_in_order("turn", comm.get_rank())
        return before, comm.comm_rounds, comm.comm_bytes

    for before, rounds, sent in at_parties(program):
        assert before == {"rounds": 0, "bytes": 0, "time": 0}
        assert rounds >= 1
        assert sent >= 80
    assert capsys.readouterr().out.splitlines() == ["once", "turn 0", "turn 1"]


def test_no_code_is_sent():
    def program():
        with pytest.raises(ConfigError, match="numbers, texts"):
            crypten.communicator.get().broadcast_obj(torch.nn.Linear(1, 1), 0)

    assert at_parties(program, 1) == [None]


@pytest.mark.parametrize("rubbish", [b"", b"\xff{", b"{1", b"[" * 100_000])
def test_objects_that_cannot_be_read_name_their_sender(rubbish):
    def program():
        comm = crypten.communicator.get()
        if comm.get_rank() == 1:
            comm._mesh.exchange_bytes({0: rubbish}, [])
            comm.send(torch.tensor(len(rubbish)), 0)
            if rubbish:
                comm.send(torch.frombuffer(bytearray(rubbish), dtype=torch.uint8), 0)
            return
        for receive in (lambda: comm.broadcast_obj(None, 1), lambda: comm.recv_obj(1)):
            with pytest.raises(FrameRejected, match="party 1 sen") as told:
                receive()
            assert told.value.party == 1

    at_parties(program)


def test_objects_are_not_large():
    def program():
        with pytest.raises(ConfigError, match="bytes"):
            crypten.communicator.get().broadcast_obj("a" * LONGEST_OBJECT, 0)

    at_parties(program, 1)


def test_shares_in_files():
    def program():
        x = crypten.cryptensor([1.5, -2.0], requires_grad=True)
        file = io.BytesIO()
        crypten.save({"x": [x, x * 3], "step": 4}, file)
        file.seek(0)
        read = crypten.load(file)
        own, plain = x.share, x.reveal()
        assert torch.equal(own, plain) == (crypten.communicator.get().get_world_size() == 1)
        assert read["x"][0].requires_grad
        assert torch.equal(read["x"][0].share, own)
        return read["step"], [one.get_plain_text() for one in read["x"]]

    for parties in (1, 2):
        for step, read in at_parties(program, parties):
            assert step == 4
            assert [one.tolist() for one in read] == [[1.5, -2.0], [4.5, -6.0]]


def test_plain_files_of_a_party(tmp_path):
    def program():
        rank = crypten.communicator.get().get_rank()
        own, model = torch.full((rank + 1, 2), rank + 0.5), torch.nn.Linear(2, 1)
        crypten.save_from_party(own, tmp_path / "x.pth", src=1)
        read = crypten.load_from_party(tmp_path / "x.pth", src=1)
        given = crypten.load_from_party(preloaded=own, src=0)
        loaded = crypten.load_from_party(
            preloaded=model, src=0, model_class=lambda: torch.nn.Linear(2, 1)
        )
        assert (loaded is model) == (rank == 0)
        assert loaded.src == given.src == 0
        with pytest.raises(TypeError, match="neither a tensor"):
            crypten.load_from_party(preloaded="text", src=0)
        return read.get_plain_text(), given.get_plain_text()

    for read, given in at_parties(program):
        assert read.tolist() == [[1.5, 1.5]] * 2
        assert given.tolist() == [[0.5, 0.5]]


def test_settings():
    cfg = crypten.cfg
    assert cfg.encoder.precision_bits == cfg["encoder.precision_bits"] == 16
    with cfg.temp_override({"encoder.precision_bits": 8, "functions.exp_iterations": 9}):
        assert cfg.functions.exp_iterations == 9
        crypten.init()
        assert crypten.cryptensor([1.001]).get_plain_text() == 1.0
        crypten.uninit()
    assert cfg.encoder["precision_bits"] == 16
    with pytest.raises(ConfigError, match="temp_override"):
        crypten.init("settings.yaml")
    for name, value in (
        ("mpc.colour", 1),
        ("mpc.provider", "HE"),
        ("mpc.active_security", True),
        ("encoder.precision_bits", 60),
        ("mpc.protocol", "magic"),
    ):
        with pytest.raises(ConfigError):
            cfg[name] = value


def test_a_session_of_tacit():
    def main(session):
        crypten.init(party_name="alice", session=session)
        assert crypten.communicator.get().get_name() == "alice"
        with pytest.warns(RuntimeWarning, match="already"):
            crypten.init()
        result = crypten.cryptensor([2.0]).square().get_plain_text()
        crypten.uninit()
        return result, session.reveal(session.share(torch.ones(1), owner=0))

    assert tacit.run(main, parties=1, protocol="cleartext") == [(4.0, 1.0)]


def test_settings_of_a_party_are_its_own():
    name = "functions.exp_iterations"
    both = threading.Barrier(2, timeout=60)

    def program():
        rank = crypten.communicator.get().get_rank()
        found = [crypten.cfg[name]]
        with crypten.cfg.temp_override({name: rank}):
            both.wait()  # the other party has set its own
            found.append(crypten.cfg[name])
            both.wait()
        crypten.cfg[name] = rank + 100
        both.wait()
        return [*found, crypten.cfg[name]]

    with crypten.cfg.temp_override({name: 5}):
        made = crypten.mpc.run_multiprocess(world_size=2)(program)()
        assert crypten.cfg[name] == 5
    assert made == [[5, 0, 100], [5, 1, 101]]
    assert crypten.cfg[name] == 8
