"""`tacit party check`: the links of three parties, and what is wrong with them."""

from datetime import UTC, datetime, timedelta

from tests.cli.shell import end, start, tacit
from tests.runtime.party_files import NAMES, write_parties

from tacit.cli.party_check import _clocks, _expiries
from tacit.crypto import create_credentials
from tacit.runtime.deploy.member_blocks import snippet
from tacit.runtime.deploy.party_file import read_party_file
from tacit.transport.probe import Link


def check_all(folder, names=NAMES, options=()):
    common = ("--parties", "parties.toml", *options)
    children = {
        name: start("party", "check", "--party", name, *common, cwd=folder) for name in names
    }
    return {name: end(child) for name, child in children.items()}


def test_links(tmp_path):
    write_parties(tmp_path)
    done = check_all(tmp_path, options=("--json",))
    assert [one.code for one in done.values()] == [0, 0, 0], done
    for name, one in done.items():
        assert one.json["links"].keys() == set(NAMES) - {name}
        assert one.json["protocol"] == "trio"
        assert one.json["problems"] == []
        for link in one.json["links"].values():
            assert 0 < link["latency_s"] < 10
            assert link["bandwidth_bytes_per_s"] > 1e5
            assert abs(link["clock_difference_s"]) < 5
            assert link["versions"]["tacit"]
            assert link["certificate_expires"] > f"{datetime.now(UTC):%Y-%m-%d}"


def test_one_row_for_each_peer_and_another_protocol_at_one(tmp_path):
    path = write_parties(tmp_path)
    text = path.read_text()
    done = check_all(tmp_path)
    rows = [line.split() for line in done["alice"].out.splitlines()]
    assert [row[0] for row in rows if row[0] in NAMES] == ["bob", "carol"]
    assert "all parties are ready" in done["alice"].out
    (tmp_path / "other.toml").write_text('protocol = "replicated"\n' + text)
    children = {
        name: start("party", "check", "--party", name, "--parties", file, cwd=tmp_path)
        for name, file in zip(NAMES, ("parties.toml", "other.toml", "parties.toml"), strict=True)
    }
    for one in map(end, children.values()):
        assert one.code == 4
        assert "protocol of the party file" in one.err
        assert "'\"replicated\"' at party 1 (bob)" in one.err


def test_a_missing_party_is_named(tmp_path):
    write_parties(tmp_path, "connect_deadline = 4")
    for one in check_all(tmp_path, ("alice", "bob")).values():
        assert one.code == 3
        assert one.err.startswith("error: party 2 (carol")


def test_mistakes_are_told_at_once(tmp_path):
    write_parties(tmp_path)
    options = ("--parties", "parties.toml")
    assert tacit("party", "check", "--party", "dave", *options, cwd=tmp_path).code == 2
    done = tacit(
        "party", "check", "--party", "alice", *options, "--listen", "192.0.2.1:1", cwd=tmp_path
    )
    assert done.code == 3
    assert "192.0.2.1" in done.err


def test_clocks_and_certificates(tmp_path):
    link = Link(0.001, 1e8, -120.0, {}, None)
    [text] = _clocks({"bob": link, "carol": Link(0.001, 1e8, 1.0, {}, None)})
    assert text.startswith("the clock of bob is 120 s behind")
    path = write_parties(tmp_path)
    old = create_credentials("dave", valid_for=timedelta(days=3)).certificate
    extended = 'protocol = "none"\n' + path.read_text() + snippet("dave", "127.0.0.1:1", old)
    path.write_text(extended)
    [text] = _expiries(read_party_file(path))
    assert text.startswith("the certificate of dave expires on ")
    assert "tacit party init" in text
